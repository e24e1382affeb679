"""Races as on a GPU, with the CPU in its place: PyTorch against Triton's interpreter, both on copies of the arena."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ceilings_of_tests import generous_ceilings

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark
from candidates.benchmark.gpu_track import GpuTrack
from candidates.candidate import Candidate, LanguageName
from candidates.device import Gpu
from candidates.judge.python_runner import INTERPRETED
from candidates.measurement import Baseline, Decision, Measurement
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Reason, Rejected
from kernel_sandbox.bubblewrap import BubblewrapSandbox

pytest.importorskip("triton", reason="Triton is not installed")

HOST_BASELINE = Path(__file__).parents[2] / "host_baseline.py"
GPU = Gpu(uuid="GPU-00000000-0000-0000-0000-0000000000ff", architecture="sm_90")
SANDBOX = BubblewrapSandbox()

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
REMEMBERS = KERNEL.replace("def kernel(", "CALLS = []\n\n\ndef kernel(").replace(
    "    _gated[", "    CALLS.append(x)\n    if len(CALLS) < 9:\n        _gated["
)


def task_of(reference: str) -> KernelTask:
    def tensor(name: str, role: InputRole, *shape: int | str) -> InputSpec:
        order = tuple(range(len(shape)))
        return InputSpec(name=name, element_type=ElementType.FLOAT32, shape=shape, dim_order=order, role=role)

    return KernelTask(
        op="gated",
        site="model.gated",
        level=SiteLevel.LEAF,
        reference=reference,
        inputs=(tensor("x", InputRole.ACTIVATION, "rows", 256), tensor("weight", InputRole.PARAMETER, 256)),
        outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 256), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 1}, calls_per_hour=100.0), Workload(axes={"rows": 2}, calls_per_hour=50.0)),
        error_bound=ErrorBound(scaled_error=1e-6),
        device_id="cuda-of-tests",
        architectures=("sm_90",),
    )


@pytest.fixture(scope="module")
def benchmark_on_gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benchmark]:
    folder = tmp_path_factory.mktemp("gpu")
    with BaselinePool(folder, GPU.uuid, (sys.executable, str(HOST_BASELINE))) as pool:
        yield Benchmark(
            GpuTrack(SANDBOX, GPU, pool, INTERPRETED),
            generous_ceilings(),
            cache_folder=folder,
            baselines=(Baseline.EAGER_OUT, Baseline.EAGER_GRAPH),
        )


def race(benchmark: Benchmark, reference: str, source: str) -> Measurement | Rejected:
    candidate = Candidate(language=LanguageName.TRITON, source=source)
    return benchmark.race(task_of(reference), candidate, b"", most_pairs=20, most_s=20.0)


def test_a_faster_kernel_wins(benchmark_on_gpu: Benchmark) -> None:
    measured = race(benchmark_on_gpu, SLOW, KERNEL)
    assert isinstance(measured, Measurement), measured
    assert measured.decision is Decision.WIN
    for workload in measured.workloads:
        assert set(workload.baselines_us) == {Baseline.EAGER_OUT, Baseline.EAGER_GRAPH}
        assert workload.device_us is not None
        assert 0 < workload.device_us <= 1.5 * workload.kernel_only_us


def test_a_slower_kernel_loses(benchmark_on_gpu: Benchmark) -> None:
    measured = race(benchmark_on_gpu, QUICK, KERNEL)
    assert isinstance(measured, Measurement), measured
    assert measured.decision is Decision.LOSE


def test_calls_that_are_timed_are_checked(benchmark_on_gpu: Benchmark) -> None:
    measured = race(benchmark_on_gpu, SLOW, REMEMBERS)
    assert isinstance(measured, Rejected), measured
    assert measured.reason is Reason.OUTPUT_NOT_WRITTEN
