"""States that grow in place, under the clock: laid out as serving has them, and held to their places."""

from candidates.benchmark.benchmark import Benchmark
from candidates.candidate import Candidate, LanguageName
from candidates.measurement import Measurement
from candidates.verdict import Reason, Rejected
from tests.candidates.test_growing_state import RIGHT, growing_task
from tests.judge_tasks import BUILDER, INCLUDES

TASK = growing_task()


def screened(benchmark: Benchmark, at_end: str, before: str = "") -> Measurement | Rejected:
    source = INCLUDES + before + RIGHT.replace("AT_END", at_end)
    candidate = Candidate(language=LanguageName.CPP, source=source)
    artifact = BUILDER.build(TASK, candidate)
    assert isinstance(artifact, bytes), artifact
    return benchmark.screen(TASK, candidate, artifact)


def test_pytorch_and_kernel_meet_on_the_same_memory(benchmark_of_tests: Benchmark) -> None:
    measured = screened(benchmark_of_tests, "")
    assert isinstance(measured, Measurement), measured
    assert {each.workload for each in measured.workloads} == {each.name for each in TASK.public_workloads}
    (smaller, _) = sorted(measured.workloads, key=lambda each: each.moved_bytes or 0)
    assert smaller.moved_bytes == 4 * 2 * 8 * (1 + 5 + 1)  # what is reserved for the state need not be moved


def test_a_timed_call_that_writes_beyond_its_state_is_caught(benchmark_of_tests: Benchmark) -> None:
    fault = "if (calls++ > 40) own[context * 8] = 1.0f;"
    caught = screened(benchmark_of_tests, fault, "static long calls = 0;\n")
    assert isinstance(caught, Rejected), caught
    assert caught.reason is Reason.WROTE_OUT_OF_BOUNDS
