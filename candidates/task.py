"""KernelTask: one op to be made faster, self-contained: reference, inputs with roles, weighted workloads, error bound.

It does not say how to judge or to time a candidate; `candidates.judge` and `candidates.benchmark` do.
"""

import functools
import math
import operator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from candidates.record import Record, digest_of
from candidates.weight_formats import BLOCK, WeightFormat

Identifier = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]
"""Names of tensors and axes stand in sources and prompts as they are."""


Architecture = Annotated[str, Field(pattern=r"^(sm_\d{2,3}|gfx[0-9a-f]{3,4})$")]
"""Of a GPU, as its vendor names it."""


class InputRole(StrEnum):
    PARAMETER = "parameter"
    """Fixed for a session: `prepare` sees it and may repack it."""
    ACTIVATION = "activation"
    """Fresh content at every call."""
    STATE = "state"
    """Declared mutable, such as a KV cache: its content after the call is part of the result."""


class ElementType(StrEnum):
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT64 = "int64"
    INT32 = "int32"
    BOOL = "bool"

    @property
    def size_bytes(self) -> int:
        return {"float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "bool": 1}[self.value]


class SiteLevel(StrEnum):
    """Sites nest: a leaf lies in a block, a block in a layer."""

    LEAF = "leaf"
    BLOCK = "block"
    LAYER = "layer"


class TensorSpec(Record):
    """A tensor in which every element has its own address, dims may lie in memory in any order.

    `shape` gives each dim as a number or as the name of an axis. `dim_order` lists the dims from outermost to
    innermost in memory; `(0, 2, 1, 3)` is a `[b, t, h, d]` buffer seen as `[b, h, t, d]`.
    """

    name: Identifier
    element_type: ElementType
    shape: tuple[int | str, ...]
    dim_order: tuple[int, ...]
    allocated: tuple[int | str, ...] | None = None
    """Sizes in memory, dim by dim, of a tensor that is the front of a larger one, such as a KV cache that grows into
    what is reserved for it. None: it is dense, and `shape` says it."""

    @model_validator(mode="after")
    def _is_permutation(self) -> "TensorSpec":
        if sorted(self.dim_order) != list(range(len(self.shape))):
            raise ValueError(f"dim_order {self.dim_order} of {self.name} is not a permutation of its dims {self.shape}")
        return self

    @model_validator(mode="after")
    def _allocation_holds_it(self) -> "TensorSpec":
        if self.allocated is None:
            return self
        pairs = list(zip(self.shape, self.allocated, strict=False))
        is_too_small = any(isinstance(own, int) and isinstance(room, int) and own > room for own, room in pairs)
        if len(self.allocated) != len(self.shape) or is_too_small:
            raise ValueError(f"{self.name} {self.shape} does not lie in what is allocated for it: {self.allocated}")
        return self

    @model_serializer(mode="wrap")
    def _leave_out_no_allocation(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """A task of dense tensors keeps the id that it had before there were others."""
        return _without(serialize(self), "allocated")

    def sizes(self, axes: dict[str, int]) -> tuple[int, ...]:
        """The shape with axis names replaced by their sizes."""
        return _sizes(self.shape, axes)

    def allocated_sizes(self, axes: dict[str, int]) -> tuple[int, ...]:
        """Of all the memory that is its own; `sizes` of a dense tensor."""
        return _sizes(self.shape if self.allocated is None else self.allocated, axes)

    def strides(self, axes: dict[str, int]) -> tuple[int, ...]:
        """Strides in elements, following `dim_order`."""
        sizes = self.allocated_sizes(axes)
        strides = [0] * len(sizes)
        step = 1
        for dim in reversed(self.dim_order):
            strides[dim] = step
            step *= sizes[dim]
        return tuple(strides)

    def numel(self, axes: dict[str, int]) -> int:
        """Elements of the tensor itself."""
        return math.prod(self.sizes(axes))

    def allocated_numel(self, axes: dict[str, int]) -> int:
        return math.prod(self.allocated_sizes(axes))

    def size_bytes(self, axes: dict[str, int]) -> int:
        """Of all that is allocated for it."""
        return self.allocated_numel(axes) * self.element_type.size_bytes

    def content_bytes(self, axes: dict[str, int]) -> int:
        """Of the tensor itself."""
        return self.numel(axes) * self.element_type.size_bytes


class InputSpec(TensorSpec):
    role: InputRole
    attribute: str | None = None
    """Of a parameter: where the site's module holds it (`weight`, `gate_proj.weight`)."""
    below: int | None = Field(default=None, ge=1)
    """Of an integer input: its values are 0 to `below` - 1, such as class or page numbers. None: 0 and 1."""
    stored_as: WeightFormat | None = None
    """Of a float32 parameter: how a kernel may keep what its `prepare` gets, which is float32 all the same."""

    @model_validator(mode="after")
    def _range_is_of_integers(self) -> "InputSpec":
        if self.below is not None and self.element_type not in (ElementType.INT32, ElementType.INT64):
            raise ValueError(f"below={self.below} of {self.name} is for integers, not for {self.element_type.value}")
        return self

    @model_validator(mode="after")
    def _can_be_stored(self) -> "InputSpec":
        if self.stored_as is None:
            return self
        if self.role is not InputRole.PARAMETER or self.element_type is not ElementType.FLOAT32:
            raise ValueError(f"{self.name} is no float32 parameter, so it cannot be stored as {self.stored_as.value}")
        if self.stored_as.is_exact and not has_blocks(self):
            raise ValueError(f"{self.name} {self.shape} has no blocks of {BLOCK} to store as {self.stored_as.value}")
        return self

    @model_serializer(mode="wrap")
    def _leave_out_what_is_not_said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """A task without ranges or formats keeps the id that it had before there were any."""
        return _without(serialize(self), "below", "stored_as", "allocated")

    def kept_bytes(self, axes: dict[str, int]) -> int:
        """Of the parameter as a kernel may keep it, of anything else as it is."""
        return self.size_bytes(axes) if self.stored_as is None else self.stored_as.size_bytes(self.numel(axes))


def has_blocks(spec: TensorSpec) -> bool:
    """Whether it is a matrix whose rows are contiguous and made of whole blocks."""
    rank = len(spec.shape)
    width = spec.shape[-1] if rank > 1 and spec.dim_order[-1] == rank - 1 else 0
    return isinstance(width, int) and width > 0 and width % BLOCK == 0


def _sizes(shape: tuple[int | str, ...], axes: dict[str, int]) -> tuple[int, ...]:
    return tuple(axes[dim] if isinstance(dim, str) else dim for dim in shape)


def _without(fields: dict[str, object], *optional: str) -> dict[str, object]:
    """Of what is optional only what is said."""
    return {name: value for name, value in fields.items() if value is not None or name not in optional}


class Workload(Record):
    """One shape that traffic sends to the op, with how often it does."""

    axes: dict[str, int]
    calls_per_hour: float = Field(ge=0)
    calls_per_hour_by_class: dict[str, float] = Field(default_factory=dict)
    is_hidden: bool = False
    """Hidden workloads are judged, never shown to an agent and never counted in a speedup."""

    @field_validator("axes")
    @classmethod
    def _sizes_are_positive(cls, axes: dict[str, int]) -> dict[str, int]:
        for name, size in axes.items():
            if size < 1:
                raise ValueError(f"axis {name} has size {size}; sizes start at 1")
        return axes

    @functools.cached_property
    def name(self) -> str:
        """`batch=1,tokens=8`: stable, readable, unique within a task."""
        return ",".join(f"{axis}={size}" for axis, size in sorted(self.axes.items())) or "scalar"


class ErrorBound(Record):
    """How far an output element may lie from the float64 oracle.

    |got - exact| <= factor * scaled_error * scale + ulp(exact), where `scale` is the largest |exact| in the element's
    row (last dim) and `scaled_error` the worst |torch - exact| / scale of the PyTorch op itself in the working type
    over the task's workloads and input distributions: a property of the op, never of the judged element. Rows that may
    have cancelled are allowed more, by `candidates.error_bound.allowed_error`.
    """

    scaled_error: float = Field(ge=0)
    factor: float = Field(gt=0, default=4.0)
    cancelled_below: float = Field(ge=0, default=0.0)
    """A row whose scale is below this has cancelled to rounding noise (layer norm of a constant row): relative to its
    scale any error would be infinite, so its elements may err by factor * cancelled_error instead."""
    cancelled_error: float = Field(ge=0, default=0.0)
    """The worst |torch - exact| in such rows."""


class KernelTask(Record):
    op: str
    """What the op is called in reports: a module class, a function, or `Class.region` for a part of a block."""
    site: str
    """Where the served model calls it, layers collapsed: `model.layers.*.mlp`."""
    level: SiteLevel
    reference: str
    """Python source that defines `reference(<inputs in order>) -> Tensor | tuple[Tensor, ...]` with PyTorch alone.

    A state input is mutated in place by the reference.
    """
    inputs: tuple[InputSpec, ...]
    outputs: tuple[TensorSpec, ...]
    axes: tuple[Identifier, ...]
    """Axis names in the order in which a kernel receives their sizes."""
    workloads: tuple[Workload, ...]
    covered_share: float = Field(ge=0, le=1, default=1.0)
    """Share of the site's device time that the public workloads represent."""
    error_bound: ErrorBound
    instances: int = Field(ge=1, default=1)
    """How many sets of parameters the served model holds for this op; decides whether they are cold in cache."""
    device_id: str
    threads: int = Field(ge=1, default=1)
    """Threads that serving runs this op with."""
    architectures: tuple[Architecture, ...] = ()
    """GPU architectures that a kernel in a GPU language must compile for; empty: those that the language names."""

    @model_serializer(mode="wrap")
    def _leave_out_no_architectures(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """A task of a CPU keeps the id that it had before there were any."""
        fields: dict[str, object] = serialize(self)
        return {name: value for name, value in fields.items() if name != "architectures" or value}

    @model_validator(mode="after")
    def _names_agree(self) -> "KernelTask":
        names = [spec.name for spec in (*self.inputs, *self.outputs)]
        if len(set(names)) != len(names):
            raise ValueError(f"tensor names of task {self.op} are not unique: {names}")
        tensors = (*self.inputs, *self.outputs)
        used = {dim for spec in tensors for dim in (*spec.shape, *(spec.allocated or ())) if isinstance(dim, str)}
        if not used <= set(self.axes):
            raise ValueError(f"task {self.op} uses axes {sorted(used - set(self.axes))} that it does not declare")
        for workload in self.workloads:
            if set(workload.axes) != set(self.axes):
                raise ValueError(f"workload {workload.name} of task {self.op} does not give exactly {self.axes}")
            for spec in tensors:
                if any(map(operator.gt, spec.sizes(workload.axes), spec.allocated_sizes(workload.axes))):
                    raise ValueError(f"{spec.name} of task {self.op} outgrows its memory at workload {workload.name}")
        return self

    @functools.cached_property
    def id(self) -> str:
        """sha256 over the whole task: another shape, bound or device is another task."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def public_workloads(self) -> tuple[Workload, ...]:
        return tuple(workload for workload in self.workloads if not workload.is_hidden)

    @property
    def hidden_workloads(self) -> tuple[Workload, ...]:
        return tuple(workload for workload in self.workloads if workload.is_hidden)

    @property
    def shape_axes(self) -> tuple[Identifier, ...]:
        """Axes that some tensor's shape has; the others only say how much memory lies around one."""
        named = {dim for spec in (*self.inputs, *self.outputs) for dim in spec.shape}
        return tuple(axis for axis in self.axes if axis in named)

    @property
    def public_calls(self) -> frozenset[str]:
        """Names of the public workloads, with the one token that a call adds to a state, which is no axis."""
        is_decode = any(spec.allocated is not None for spec in self.inputs)
        return frozenset(each.name + ",tokens=1" * is_decode for each in self.public_workloads)

    @property
    def public_calls_per_hour(self) -> dict[str, float]:
        """By name of the public workload."""
        return {workload.name: workload.calls_per_hour for workload in self.public_workloads}

    def aimed_at(self, architectures: tuple[Architecture, ...], gpu: str | None = None) -> "KernelTask":
        """The same op for GPUs, measured on the one with this fingerprint; None: no such GPU is here, and their names
        stand for the device."""
        device_id = gpu or "+".join(architectures)
        return self.model_copy(update={"architectures": architectures, "device_id": device_id})

    def inputs_of(self, role: InputRole) -> tuple[InputSpec, ...]:
        return tuple(spec for spec in self.inputs if spec.role is role)

    def parameter_bytes(self) -> int:
        """Bytes of one set of parameters as `prepare` gets them; they have no axes that vary between workloads."""
        axes = self.workloads[0].axes
        return sum(spec.size_bytes(axes) for spec in self.inputs_of(InputRole.PARAMETER))

    def kept_parameter_bytes(self) -> int:
        """The same as a kernel may keep them."""
        axes = self.workloads[0].axes
        return sum(spec.kept_bytes(axes) for spec in self.inputs_of(InputRole.PARAMETER))

    def activation_bytes(self, workload: Workload) -> int:
        """Bytes of one call that are not parameters: activations and states read, outputs written."""
        inputs = sum(spec.content_bytes(workload.axes) for spec in self.inputs if spec.role is not InputRole.PARAMETER)
        return inputs + sum(spec.content_bytes(workload.axes) for spec in self.outputs)

    def moved_bytes(self, workload: Workload) -> int:
        """The least that one call moves: every input read once, every output written once."""
        return self.kept_parameter_bytes() + self.activation_bytes(workload)
