"""Kernels that are right, wrong or cheat, each with what is due to it: a table for trying a GPU and the path to it."""

from dataclasses import dataclass
from importlib import resources

from candidates.candidate import Candidate, LanguageName
from candidates.judge.compute_sanitizer_log import Clean, Flawed, Tool, Unfinished, read_sanitizer_log
from candidates.language import KernelLanguage
from candidates.measurement import Measurement
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Accepted, Rejected, Verdict
from compiler_agent.gpu_check.results import CaseOutcome, CaseResult

WIDTH = 1024

_REFERENCE = """\
import torch

def reference(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    file: str
    """In `kernels/`."""
    judged: frozenset[str]
    """What the judge may say of it: `accepted` or reasons."""
    on_device: frozenset[str]
    """What a run on the GPU may find (see `device_case`); empty: it is not run there, being refused before."""
    is_attack: bool = False
    sanitized: str = ""
    """`clean` or the reason that compute-sanitizer's memcheck gives; empty: it is not run under it."""
    raced: bool = False
    """Against PyTorch on the GPU, as every candidate that is right."""

    @property
    def name(self) -> str:
        return self.file.partition(".")[0]

    @property
    def language(self) -> LanguageName:
        return next(each for each in LanguageName if self.file.endswith(each.file_ending))

    def source(self) -> str:
        return (resources.files("compiler_agent.gpu_check") / "kernels" / self.file).read_text()

    def candidate(self, language: KernelLanguage) -> Candidate:
        return language.parse_source(self.source(), self.file)


def _case(
    file: str, judged: str, on_device: str, *, is_attack: bool = False, sanitized: str = "", raced: bool = False
) -> Case:
    return Case(
        file=file,
        judged=frozenset(judged.split()),
        on_device=frozenset(on_device.split()),
        is_attack=is_attack,
        sanitized=sanitized,
        raced=raced,
    )


CASES = (
    _case("honest.py", "accepted", "right", raced=True),
    _case("honest.cu", "accepted", "right", sanitized="clean", raced=True),
    _case("wrong_epsilon.py", "wrong_values", "wrong_values"),
    _case("last_column.py", "output_not_written wrong_values", "output_not_written"),
    _case("half_of_the_rows.cu", "output_not_written wrong_values", "output_not_written"),
    _case("no_launch.cu", "output_not_written crashed", "device_fault"),
    _case("illegal_address.cu", "crashed", "device_fault"),
    _case("writes_beyond.py", "wrote_out_of_bounds wrong_values", "wrote_out_of_bounds", is_attack=True),
    _case("writes_beyond.cu", "wrote_out_of_bounds", "wrote_out_of_bounds", is_attack=True, sanitized="memory_error"),
    _case("changes_input.py", "changed_inputs", "changed_inputs", is_attack=True),
    _case("changes_input.cu", "changed_inputs", "changed_inputs", is_attack=True),
    _case("library.py", "library_call forbidden_symbol", "", is_attack=True),
    _case("own_stream.cu", "forbidden_symbol", "", is_attack=True),
)


def case_task(device_id: str, architecture: str) -> KernelTask:
    """RMS norm of rows, float32."""
    return KernelTask(
        op="gpu_check_rmsnorm",
        site="gpu_check",
        level=SiteLevel.LEAF,
        reference=_REFERENCE,
        inputs=(
            InputSpec(
                name="x",
                element_type=ElementType.FLOAT32,
                shape=("rows", WIDTH),
                dim_order=(0, 1),
                role=InputRole.ACTIVATION,
            ),
            InputSpec(
                name="weight",
                element_type=ElementType.FLOAT32,
                shape=(WIDTH,),
                dim_order=(0,),
                role=InputRole.PARAMETER,
            ),
        ),
        outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", WIDTH), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(
            Workload(axes={"rows": 4}, calls_per_hour=1.0),
            Workload(axes={"rows": 3}, calls_per_hour=1.0, is_hidden=True),
        ),
        # float32 sums of 1024 squares: an order of magnitude above what PyTorch's own differ by.
        error_bound=ErrorBound(scaled_error=1e-6),
        device_id=device_id,
        architectures=(architecture,),
    )


def judge_result(case: Case, verdict: Verdict) -> CaseResult:
    match verdict:
        case Accepted():
            found, detail = "accepted", f"{verdict.evidence.value}, {verdict.calls_checked} calls"
        case Rejected():
            found, detail = verdict.reason.value, verdict.evidence.message[:500]
        case _:
            return _result(
                case, "judge", "needs_device", CaseOutcome.NOT_RUN, "this judge runs no such kernel on a GPU"
            )
    outcome = CaseOutcome.AS_EXPECTED if found in case.judged else CaseOutcome.UNEXPECTED
    return _result(case, "judge", found, outcome, detail)


def device_result(case: Case, found: str, detail: str) -> CaseResult:
    outcome = CaseOutcome.AS_EXPECTED if found in case.on_device else CaseOutcome.UNEXPECTED
    return _result(case, "device", found, outcome, detail)


def sanitizer_result(case: Case, log: str) -> CaseResult:
    match read_sanitizer_log(Tool.MEMCHECK, log):
        case Unfinished(message=message):
            return _result(case, "sanitizer", "nothing", CaseOutcome.NOT_RUN, message)
        case Flawed(reason=reason, message=message):
            found, detail = reason.value, message
        case Clean():
            found, detail = "clean", ""
    outcome = CaseOutcome.AS_EXPECTED if found == case.sanitized else CaseOutcome.UNEXPECTED
    return _result(case, "sanitizer", found, outcome, detail)


def race_result(case: Case, measured: Measurement | Rejected) -> CaseResult:
    if isinstance(measured, Rejected):
        message = f"{measured.reason.value}: {measured.evidence.message}"[:500]
        return _result(case, "race", "rejected", CaseOutcome.UNEXPECTED, message)
    detail = f"{measured.decision.value} at {measured.traffic_weighted_speedup:.2f}x"
    return _result(case, "race", "measured", CaseOutcome.AS_EXPECTED, detail)


def not_run(case: Case, where: str, why: str) -> CaseResult:
    return _result(case, where, "nothing", CaseOutcome.NOT_RUN, why)


def _result(case: Case, where: str, found: str, outcome: CaseOutcome, detail: str) -> CaseResult:
    expected = {"judge": case.judged, "device": case.on_device, "sanitizer": {case.sanitized}, "race": {"measured"}}[
        where
    ]
    return CaseResult.model_validate(
        {
            "name": case.name,
            "language": case.language.value,
            "expected": " or ".join(sorted(expected)),
            "where": where,
            "found": found,
            "outcome": outcome,
            "detail": detail,
        }
    )
