"""Races as on a GPU, with the CPU in its place: PyTorch against Triton's interpreter, both on copies of the arena."""

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from ceilings_of_tests import generous_ceilings

from candidates.benchmark.baseline import BaselineFailed, BaselineGone, BaselinePool, DeviceBaselineRunner
from candidates.benchmark.benchmark import Benchmark
from candidates.benchmark.gpu_track import GpuTrack
from candidates.benchmark.pairing import Pairing, Sampler, Side
from candidates.benchmark.slots import ContentPool, Slots, place_parameters
from candidates.benchmark.track import Venue
from candidates.candidate import Candidate, LanguageName
from candidates.device import Gpu
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.judge.python_runner import INTERPRETED
from candidates.judge.runner_process import RunnerProcess
from candidates.kernel_runner import Call, NoGraph
from candidates.measurement import Baseline, Decision, Measurement
from candidates.reference import load_reference
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Reason, Rejected
from kernel_sandbox.arena import Arena, Segment
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.runners.device_calls import CallMode

pytest.importorskip("triton", reason="Triton is not installed")

HOST_BASELINE = Path(__file__).parents[2] / "host_baseline.py"
GPU = Gpu(uuid="GPU-00000000-0000-0000-0000-0000000000ff", architecture="sm_90")
SANDBOX = BubblewrapSandbox()
ONES = torch.ones(256)

QUICK = "def reference(x, weight):\n    return torch.relu(x * weight) + x\n"
SLOW = """def reference(x, weight):
    slow = torch.ones(400, 400, dtype=x.dtype)
    for _ in range(4):
        slow = slow @ slow * 0
    return torch.relu(x * weight) + x + slow[0, 0]
"""
KERNEL = """import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    at = tl.arange(0, 256)
    value = tl.load(x + tl.program_id(0) * 256 + at)
    gate = value * tl.load(weight + at)
    tl.store(y + tl.program_id(0) * 256 + at, tl.maximum(gate, 0.0) + value)


def kernel(x, weight, y, rows):
    _gated[(rows,)](x, weight, y)
"""
RUNNING_MEAN = """def reference(x, s):
    slow = torch.ones(400, 400, dtype=x.dtype)
    for _ in range(4):
        slow = slow @ slow * 0
    s.mul_(0.5).add_(x)
    return s + slow[0, 0]
"""
RUNNING_MEAN_KERNEL = """import triton
import triton.language as tl


@triton.jit
def _mean(x, s, y):
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    value = tl.load(s + at) * 0.5 + tl.load(x + at)
    tl.store(s + at, value)
    tl.store(y + at, value)


def kernel(x, s, y, rows):
    _mean[(rows,)](x, s, y)
"""
REMEMBERS = KERNEL.replace("def kernel(", "CALLS = []\n\n\ndef kernel(").replace(
    "    _gated[", "    CALLS.append(x)\n    if len(CALLS) < 9:\n        _gated["
)


def tensor(name: str, role: InputRole, *shape: int | str) -> InputSpec:
    order = tuple(range(len(shape)))
    return InputSpec(name=name, element_type=ElementType.FLOAT32, shape=shape, dim_order=order, role=role)


def task_of(reference: str, second: InputSpec | None = None) -> KernelTask:
    second = second or tensor("weight", InputRole.PARAMETER, 256)
    return KernelTask(
        op="gated",
        site="model.gated",
        level=SiteLevel.LEAF,
        reference=reference,
        inputs=(tensor("x", InputRole.ACTIVATION, "rows", 256), second),
        outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 256), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 1}, calls_per_hour=100.0), Workload(axes={"rows": 2}, calls_per_hour=50.0)),
        error_bound=ErrorBound(scaled_error=1e-6),
        device_id="cuda-of-tests",
        architectures=("sm_90",),
    )


class OneForm(GpuTrack):
    """Where a kernel has only one form, and batches have several calls."""

    form = 0
    sample_us = 10_000.0

    def open_kernel(
        self, candidate: Candidate, artifact: bytes, at: Venue, *, is_judged: bool, dispatch_us: float
    ) -> tuple[Side, ...]:
        forms = super().open_kernel(candidate, artifact, at, is_judged=is_judged, dispatch_us=dispatch_us)
        return (forms[self.form],)


class OnlyGraph(OneForm):
    form = 1


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaselinePool]:
    with BaselinePool(tmp_path_factory.mktemp("compile"), GPU.uuid, (sys.executable, str(HOST_BASELINE))) as pool:
        yield pool


@pytest.fixture(scope="module")
def benchmark_on_gpu(pool: BaselinePool, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return benchmark_on(GpuTrack(SANDBOX, GPU, pool, INTERPRETED), tmp_path_factory.mktemp("gpu"))


def benchmark_on(track: GpuTrack, folder: Path, defences: Defences = ALL_DEFENCES) -> Benchmark:
    baselines = (Baseline.EAGER_OUT, Baseline.EAGER_GRAPH)
    return Benchmark(track, generous_ceilings(), cache_folder=folder, baselines=baselines, defences=defences)


def race(benchmark: Benchmark, task: KernelTask, source: str) -> Measurement | Rejected:
    candidate = Candidate(language=LanguageName.TRITON, source=source)
    return benchmark.race(task, candidate, b"", most_pairs=20, most_s=20.0)


def test_a_faster_kernel_wins(benchmark_on_gpu: Benchmark) -> None:
    measured = race(benchmark_on_gpu, task_of(SLOW), KERNEL)
    assert isinstance(measured, Measurement), measured
    assert measured.decision is Decision.WIN
    for workload in measured.workloads:
        assert set(workload.baselines_us) == {Baseline.EAGER_OUT, Baseline.EAGER_GRAPH}
        assert workload.device_us is not None
        assert 0 < workload.device_us <= 1.5 * workload.kernel_only_us


def test_a_slower_kernel_loses(benchmark_on_gpu: Benchmark) -> None:
    measured = race(benchmark_on_gpu, task_of(QUICK), KERNEL)
    assert isinstance(measured, Measurement), measured
    assert measured.decision is Decision.LOSE


def test_calls_that_are_timed_are_checked(benchmark_on_gpu: Benchmark) -> None:
    measured = race(benchmark_on_gpu, task_of(SLOW), REMEMBERS)
    assert isinstance(measured, Rejected), measured
    assert measured.reason is Reason.OUTPUT_NOT_WRITTEN


@pytest.mark.slow
@pytest.mark.parametrize("track", [OneForm, OnlyGraph])
def test_states_are_as_before_the_batch_in_both_forms(pool: BaselinePool, tmp_path: Path, track: type[OneForm]) -> None:
    task = task_of(RUNNING_MEAN, tensor("s", InputRole.STATE, "rows", 256))
    # On a busy CPU, which a GPU is not, batches and single calls see different loads.
    benchmark = benchmark_on(track(SANDBOX, GPU, pool, INTERPRETED), tmp_path, ALL_DEFENCES - {Defence.SINGLE_CALLS})
    measured = race(benchmark, task, RUNNING_MEAN_KERNEL)
    assert isinstance(measured, Measurement), measured
    assert measured.decision is Decision.WIN
    assert {workload.is_graph for workload in measured.workloads} == {track is OnlyGraph}


class Recorded:
    """A runner that notes what it is asked for; a held one's handshake takes as long as the hold."""

    def __init__(self, name: str, asked: set[tuple[str, str]]) -> None:
        self._name, self._asked = name, asked
        self._hold_ns = 600_000 if name.endswith("alone") else 0

    def lay_out(self, axes: Sequence[int], calls: Sequence[Call]) -> None:
        self._asked.add((self._name, "lay_out"))

    def rehearse(self, first: int, count: int) -> None:
        self._asked.add((self._name, "rehearse"))

    def run(self, first: int, count: int) -> int:
        self._asked.add((self._name, "run"))
        return self._hold_ns + 20_000 * count

    def run_null(self, count: int) -> int:
        self._asked.add((self._name, "run_null"))
        return self._hold_ns

    def device_ns(self) -> int | None:
        return None

    def cpu_time_ns(self) -> int:
        return 0

    def take_in(self) -> None: ...

    def collect(self) -> None: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...


@pytest.mark.parametrize(("count", "ending"), [(1, "_alone"), (4, "")])
def test_single_calls_are_timed_alone_on_all_sides(count: int, ending: str) -> None:
    asked: set[tuple[str, str]] = set()

    def side(name: str) -> Side:
        return Side(runner=Recorded(name, asked), alone=Recorded(f"{name}_alone", asked))  # type: ignore[arg-type]

    task, rng, sides = task_of(QUICK), np.random.default_rng(0), [side(n) for n in ("baseline", "kernel", "handshake")]
    with Arena(1 << 20, 1 << 20) as arena:
        slots = Slots(task, task.workloads[0], count + 1, arena, place_parameters(task, arena, [{"weight": ONES}]))
        sampler = Sampler(slots, ContentPool(rng), None, shares_core=False, is_device=True, warm_ups=1)
        for each in sides:
            sampler.lay_out(each, count)
        assert sampler.estimate_us(sides[1], count) == pytest.approx(20.0)
        pairing = Pairing(sides[0], sides[1], count, rng, handshake=sides[2])
        pairing.take(sampler, 5, math.inf)
        slots.close()
    of_all = set(itertools.product(("baseline", "kernel", "handshake"), ("lay_out", "rehearse", "run_null")))
    timed = {("baseline", "run"), ("kernel", "run")}
    assert asked == {(f"{side}{ending}", what) for side, what in of_all | timed}
    assert pairing.candidate_times_us() == pytest.approx([20.0] * 5)


@pytest.mark.slow
def test_a_kernel_that_no_graph_holds_any_more_is_rejected(
    pool: BaselinePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = itertools.count()

    def capture(self: RunnerProcess, first: int, count: int, how: int) -> None:
        if next(captures) > 3:
            raise NoGraph("no CUDA graph can hold its calls")

    monkeypatch.setattr(RunnerProcess, "capture", capture)
    measured = race(benchmark_on(OnlyGraph(SANDBOX, GPU, pool, INTERPRETED), tmp_path), task_of(SLOW), KERNEL)
    assert isinstance(measured, Rejected), measured


@pytest.mark.slow
def test_a_baseline_whose_device_faults_leaves_the_next_one_a_process(tmp_path: Path) -> None:
    with (
        BaselinePool(tmp_path, "GPU-faults", (sys.executable, str(HOST_BASELINE))) as pool,
        Arena(1 << 16, 1 << 16) as arena,
    ):
        for _ in range(2):
            runner = pool.open(Baseline.EAGER_OUT, task_of(QUICK), arena, None, 1)
            assert isinstance(runner, DeviceBaselineRunner)
            places = [arena.allocate(segment, 1024) for segment in (Segment.INPUTS, Segment.INPUTS, Segment.OUTPUTS)]
            runner.lay_out([1], [Call(tensors=tuple(places), parameter_set=0)])
            with pytest.raises(BaselineFailed):
                runner.capture(0, 1, CallMode.GRAPH)
            runner.close()


@pytest.mark.slow
def test_an_error_that_a_lost_device_shows_as_ends_its_process(tmp_path: Path) -> None:
    with (
        BaselinePool(tmp_path, "GPU-faults-late", (sys.executable, str(HOST_BASELINE))) as pool,
        Arena(1 << 16, 1 << 16) as arena,
    ):
        runner = pool.open(Baseline.EAGER_OUT, task_of(QUICK), arena, None, 1)
        places = [arena.allocate(segment, 1024) for segment in (Segment.INPUTS, Segment.INPUTS, Segment.OUTPUTS)]
        with pytest.raises(BaselineGone):
            runner.lay_out([1], [Call(tensors=tuple(places), parameter_set=0)])
        runner.close()


@pytest.fixture(scope="module")
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("waits", [0, 5, 14], ids=["where it is laid out", "where it is estimated", "in its rounds"])
def test_compiled_code_that_faults_is_left_out_of_the_baselines(
    waits: int, compile_cache: Path, tmp_path: Path
) -> None:
    program = (sys.executable, str(HOST_BASELINE))
    with BaselinePool(compile_cache, f"GPU-compiled-{waits}", program) as pool:
        benchmark = Benchmark(
            GpuTrack(SANDBOX, GPU, pool, INTERPRETED),
            generous_ceilings(),
            cache_folder=tmp_path,
            baselines=(Baseline.EAGER_OUT, Baseline.COMPILE),
        )
        best = benchmark.fix_best_baselines(task_of(QUICK))
    assert [set(each.times_us) for each in best.values()] == [{Baseline.EAGER_OUT}] * 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("baselines", "left"),
    [
        ((Baseline.EAGER_OUT, Baseline.EAGER_GRAPH), {Baseline.EAGER_OUT}),
        ((Baseline.EAGER_OUT, Baseline.COMPILE, Baseline.COMPILE_GRAPH), {Baseline.EAGER_OUT, Baseline.COMPILE}),
        ((Baseline.COMPILE_GRAPH, Baseline.COMPILE, Baseline.EAGER_OUT), {Baseline.EAGER_OUT, Baseline.COMPILE}),
    ],
)
def test_a_graph_that_faults_takes_no_other_baseline_of_its_process_along(
    baselines: tuple[Baseline, ...], left: set[Baseline], compile_cache: Path, tmp_path: Path
) -> None:
    with BaselinePool(compile_cache, "GPU-faults", (sys.executable, str(HOST_BASELINE))) as pool:
        track = GpuTrack(SANDBOX, GPU, pool, INTERPRETED)
        benchmark = Benchmark(track, generous_ceilings(), cache_folder=tmp_path, baselines=baselines)
        best = benchmark.fix_best_baselines(task_of(QUICK))
    assert [set(each.times_us) for each in best.values()] == [left] * 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("waits", [0, 5, 14], ids=["where it is laid out", "where it is estimated", "in its rounds"])
def test_a_baseline_whose_process_died_once_is_measured(waits: int, compile_cache: Path, tmp_path: Path) -> None:
    died = tmp_path / "died"
    with BaselinePool(compile_cache, f"GPU-compiled-{waits}-once-{died}", (sys.executable, str(HOST_BASELINE))) as pool:
        benchmark = Benchmark(
            GpuTrack(SANDBOX, GPU, pool, INTERPRETED),
            generous_ceilings(),
            cache_folder=tmp_path,
            baselines=(Baseline.EAGER_OUT, Baseline.COMPILE),
        )
        best = benchmark.fix_best_baselines(task_of(QUICK))
    assert died.exists()
    assert [set(each.times_us) for each in best.values()] == [{Baseline.EAGER_OUT, Baseline.COMPILE}] * 2


def test_what_a_reference_makes_itself_is_on_its_device() -> None:
    source = "def reference(x):\n    return torch.arange(3), torch.zeros(2, device='cpu'), x.new_zeros(2)\n"
    made = load_reference(source, torch.device("meta"))(torch.empty(1))
    assert [tensor.device.type for tensor in made] == ["meta", "cpu", "cpu"]
