"""One benchmark over the real sandbox and real PyTorch processes, shared by all tests of this folder."""

from pathlib import Path

import pytest
from ceilings_of_tests import generous_ceilings

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark
from candidates.benchmark.track import CpuTrack
from candidates.measurement import Baseline
from kernel_sandbox.bubblewrap import BubblewrapSandbox


@pytest.fixture(scope="session")
def benchmark_of_tests(pool: BaselinePool, cache_folder: Path) -> Benchmark:
    """Without torch.compile, which takes many seconds for its first kernel."""
    return Benchmark(
        CpuTrack(BubblewrapSandbox(), pool, cache_folder),
        generous_ceilings(),
        cache_folder=cache_folder,
        baselines=(Baseline.EAGER_OUT,),
    )
