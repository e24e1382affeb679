"""What a check of a GPU finds, and what its child processes are asked and answer."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from candidates.device import BandwidthCeiling, DeviceCeilings, DeviceFingerprint, rate_at
from candidates.measurement import Interval
from candidates.record import Record


class GpuCeilings(Record):
    """Best rates seen."""

    copy_bandwidth: tuple[BandwidthCeiling, ...]
    """Read and written bytes together, by the working set of both; ascending."""
    flops_per_s: dict[str, float]
    """Of matrix products, a multiply-add counts two; by `bfloat16`, `float16`, `tf32`."""

    def bytes_per_s(self, working_set_bytes: int) -> float:
        return rate_at(self.copy_bandwidth, working_set_bytes)

    def of_device(self, device: DeviceFingerprint, *, threads: int, dispatch_us: float) -> DeviceCeilings:
        """As a floor is computed from: one level for L2, one for memory."""
        l2_bytes = device.cache_bytes[-1]
        within = max(level.bytes_per_s for level in self.copy_bandwidth if level.working_set_bytes <= l2_bytes)
        levels = (BandwidthCeiling(working_set_bytes=l2_bytes, bytes_per_s=within), self.copy_bandwidth[-1])
        return DeviceCeilings(
            device_id=device.id,
            threads=threads,
            read=levels,
            copy_bandwidth=levels,
            # The fastest way in which tensor cores multiply float32.
            flops_per_s={"float32" if name == "tf32" else name: rate for name, rate in self.flops_per_s.items()},
            dispatch_us=dispatch_us,
        )

    def memory_bytes_per_s(self) -> float:
        """Far outside L2."""
        return self.copy_bandwidth[-1].bytes_per_s


class Cache(StrEnum):
    COLD = "cold"
    """Nothing that a call reads is in L2."""
    WARM = "warm"


class MeasuredOp(Record):
    op: str
    rows: int = Field(ge=1)
    dtype: str
    cache: Cache
    eager_us: float = Field(gt=0)
    compile_us: float | None
    """None where torch.compile failed, which `notes` of the check say."""
    ours_us: float = Field(gt=0)
    """Each of the three at its best: launched one by one, or replayed from a CUDA graph."""
    forms: dict[str, Literal["launched", "graph"]]
    """Which one it was."""
    launch: dict[str, int]
    """Launch parameters that were best of ours."""
    speedup_over_best: float = Field(gt=0)
    """Median over pairs of the better of eager and compile / ours."""
    interval: Interval
    pairs: int = Field(ge=1)
    floor_us: float = Field(gt=0)
    floor_by: Literal["memory", "arithmetic"]
    share_of_floor: float = Field(ge=0)


class MissingOp(Record):
    """An op that has no times, and why."""

    op: str
    rows: int = Field(ge=1)
    dtype: str
    why: Literal["wrong", "failed", "device_fault", "no_time_left"]
    detail: str


class CaseOutcome(StrEnum):
    AS_EXPECTED = "as_expected"
    UNEXPECTED = "unexpected"
    NOT_RUN = "not_run"
    """This machine or release cannot; `detail` says which."""


class CaseResult(Record):
    name: str
    language: str
    expected: str
    where: Literal["judge", "device", "sanitizer", "race"]
    """`judge`: the whole path of every candidate, in the sandbox; `race`: the rest of that path, against PyTorch.
    `device`: this source on the GPU, in a process of its own without a sandbox, as one does with sources that one
    knows; `sanitizer`: so under compute-sanitizer."""
    found: str
    outcome: CaseOutcome
    detail: str = ""


class GpuDocument(Record):
    """What `gpu-check --json` prints."""

    device: dict[str, str | int]
    fingerprint: str
    ceilings: GpuCeilings | None
    correctness: tuple[CaseResult, ...]
    attacks: tuple[CaseResult, ...]
    ops: tuple[MeasuredOp, ...]
    ops_without_times: tuple[MissingOp, ...]
    notes: tuple[str, ...]
    seed: int
    wall_s: float = Field(ge=0)

    @property
    def is_clean(self) -> bool:
        cases = (*self.correctness, *self.attacks)
        return (
            self.ceilings is not None
            and not self.ops_without_times
            and all(case.outcome is not CaseOutcome.UNEXPECTED for case in cases)
        )


class FactsJob(Record):
    kind: Literal["facts"] = "facts"
    uuid: str | None


class CeilingsJob(Record):
    kind: Literal["ceilings"] = "ceilings"
    uuid: str | None
    limit_s: float = Field(gt=0)


class OpJob(Record):
    kind: Literal["op"] = "op"
    uuid: str | None
    op: str
    rows: tuple[int, ...]
    seed: int
    ceilings: GpuCeilings
    limit_s: float = Field(gt=0)


class CasesJob(Record):
    kind: Literal["cases"] = "cases"
    uuid: str | None
    artifacts: dict[str, str | None]
    """By a case's file, in the order in which they are run: the path of a CUDA kernel's shared object."""
    has_guards: bool = True
    """False: nothing lies beside its tensors and nothing is compared, for a sanitizer that watches."""
    seed: int


Job = Annotated[FactsJob | CeilingsJob | OpJob | CasesJob, Field(discriminator="kind")]


class FactsAnswer(Record):
    kind: Literal["facts"] = "facts"
    device: dict[str, str | int]
    fingerprint: DeviceFingerprint


class CeilingsAnswer(Record):
    kind: Literal["ceilings"] = "ceilings"
    ceilings: GpuCeilings


class OpAnswer(Record):
    kind: Literal["op"] = "op"
    measured: tuple[MeasuredOp, ...] = ()
    missing: tuple[MissingOp, ...] = ()
    notes: tuple[str, ...] = ()


class CaseAnswer(Record):
    kind: Literal["case"] = "case"
    case: str
    found: str
    detail: str = ""


Answer = Annotated[FactsAnswer | CeilingsAnswer | OpAnswer | CaseAnswer, Field(discriminator="kind")]
