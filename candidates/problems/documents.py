"""The FlashInfer-Bench schema: Definition, Workload, Solution and Trace as their files hold them.

Facts of github.com/flashinfer-ai/flashinfer-bench, `flashinfer_bench/data`. Fields that are not named here are kept,
and come out in the order in which they came in; values of theirs that we give no meaning to are not checked.
"""

from enum import StrEnum
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)


class Document(BaseModel):
    """A JSON object that somebody else owns: what was read is what is written."""

    model_config = ConfigDict(frozen=True, extra="allow", ser_json_inf_nan="strings")

    _given: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="wrap")
    @classmethod
    def _remember_order(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        document = handler(value)
        if isinstance(value, dict):
            document._given = tuple(value)
        return document

    @model_serializer(mode="wrap")
    def _in_order(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = serialize(self)
        return {name: fields[name] for name in self._given}


class Axis(Document):
    type: str
    """`const` or `var`."""
    value: int | None = None


class Tensor(Document):
    shape: tuple[str, ...] | None
    """Names of axes; None: a scalar."""
    dtype: str


class Definition(Document):
    name: str = Field(min_length=1)
    op_type: str = Field(min_length=1)
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor] = Field(min_length=1)
    reference: str = Field(min_length=1)
    """Python that defines `run(<inputs in order>)`."""

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        for name, tensor in (*self.inputs.items(), *self.outputs.items()):
            if unknown := [axis for axis in tensor.shape or () if axis not in self.axes]:
                raise ValueError(f"{name} has the axis {unknown[0]}, which `axes` does not declare")
        if both := self.inputs.keys() & self.outputs.keys():
            raise ValueError(f"{sorted(both)} name inputs and outputs")
        for name, axis in self.axes.items():
            if axis.type == "const" and axis.value is None:
                raise ValueError(f"the constant axis {name} has no value")
        return self


class WorkloadInput(Document):
    type: str
    """`random`, `scalar` or `safetensors`."""
    value: bool | int | float | None = None
    """Of a scalar."""
    path: str | None = None
    """Of safetensors: the file, below the dataset's root."""
    tensor_key: str | None = None


class Workload(Document):
    axes: dict[str, int]
    inputs: dict[str, WorkloadInput]
    uuid: str = Field(min_length=1)


class Status(StrEnum):
    PASSED = "PASSED"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    TIMEOUT = "TIMEOUT"


class Correctness(Document):
    """In a file an infinite error is the text `Infinity`."""

    max_relative_error: float
    max_absolute_error: float


class Performance(Document):
    latency_ms: float
    reference_latency_ms: float
    speedup_factor: float


class Environment(Document):
    hardware: str
    libs: dict[str, str]


class Evaluation(Document):
    """A passed one has correctness and performance, a numerically wrong one correctness, any other neither."""

    status: str
    environment: Environment
    timestamp: str
    log: str = ""
    correctness: Correctness | None = None
    performance: Performance | None = None


class Trace(Document):
    """One solution on one workload; a line of a workloads file is one without solution and evaluation."""

    definition: str = Field(min_length=1)
    workload: Workload
    solution: str | None = None
    evaluation: Evaluation | None = None


class SourceFile(Document):
    path: str
    content: str


class BuildSpec(Document):
    language: str
    target_hardware: tuple[str, ...]
    entry_point: str
    """`file::symbol`."""
    dependencies: tuple[str, ...] = ()
    destination_passing_style: bool = True
    binding: str | None = None


class Solution(Document):
    name: str = Field(min_length=1)
    definition: str
    author: str
    spec: BuildSpec
    sources: tuple[SourceFile, ...]
    description: str | None = None
