"""What judging costs, and how often a race is wrong: `python -m benchmarks.judge --json`.

Everything goes through the real compiler, sandbox, runner, judge and benchmark, with kernels of 1-5 us.
"""

import argparse
import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark, LiveKernel
from candidates.benchmark.exclusive import measuring_core, pinned
from candidates.benchmark.statistics import median
from candidates.benchmark.track import CpuTrack
from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.ceilings import fingerprint_device, measure_ceilings
from candidates.error_bound import derive_error_bound
from candidates.judge.cpp_runner import open_cpp_runner
from candidates.judge.judge import Judge
from candidates.languages.cpp import CppLanguage
from candidates.measurement import Baseline, Decision, Measurement
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from candidates.verdict import Accepted, Rejected
from kernel_sandbox.arena import Arena
from kernel_sandbox.bubblewrap import BubblewrapSandbox

WIDTH = 256
CHAIN = 2000
"""Dependent multiply-adds that give the kernel its time: 2-3 us, and exactly so much more for a longer chain."""

SOURCE = """
#include <cstdint>
static float chain(float seed) {
    float value = seed;
    for (int i = 0; i < LAUNCH_CHAIN; i++) asm volatile("" : "+x"(value = value * 0.999f + 0.001f));
    return value;
}
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
    volatile float kept = chain(x[0]);
    (void)kept;
    for (int64_t i = 0; i < rows * LAUNCH_WIDTH; i++) {
        float product = x[i] * weight[i % LAUNCH_WIDTH];
        y[i] = (product > 0 ? product : 0) + x[i];
    }
}
"""

LOOP = """
#include <cstdint>
using Kernel = void(const float* x, const float* weight, float* y, int64_t rows);
extern "C" void repeat(Kernel* kernel, const float* x, const float* weight, float* y, int64_t width, int64_t count) {
    for (int64_t i = 0; i < count; i++) kernel(x + i * width, weight, y + i * width, 1);
}
"""


def make_task(device_id: str) -> KernelTask:
    float32 = ElementType.FLOAT32
    x = InputSpec(name="x", element_type=float32, shape=("rows", WIDTH), dim_order=(0, 1), role=InputRole.ACTIVATION)
    weight = InputSpec(name="weight", element_type=float32, shape=(WIDTH,), dim_order=(0,), role=InputRole.PARAMETER)
    task = KernelTask(
        op="gated",
        site="benchmarks.judge",
        level=SiteLevel.LEAF,
        reference="def reference(x, weight):\n    return torch.relu(x * weight) + x",
        inputs=(x, weight),
        outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", WIDTH), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 1}, calls_per_hour=1.0),),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id=device_id,
    )
    return task.model_copy(update={"error_bound": derive_error_bound(task)})


def make_kernel(chain: int, variant: int = 0) -> Candidate:
    """`variant` makes another candidate of the same code."""
    return Candidate(
        language=LanguageName.CPP,
        source=f"// {variant}\n{SOURCE}",
        launch_parameters={"CHAIN": chain, "WIDTH": WIDTH},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everything that a trial needs."""

    task: KernelTask
    sandbox: BubblewrapSandbox
    builder: Builder
    judge: Judge
    benchmark: Benchmark

    def build(self, candidate: Candidate) -> LiveKernel:
        artifact = self.builder.build(self.task, candidate)
        if not isinstance(artifact, bytes):
            raise RuntimeError(f"the benchmark's own kernel does not build: {artifact.evidence.message}")
        return LiveKernel(candidate=candidate, artifact=artifact)

    def meet(self, challenger: LiveKernel, live: LiveKernel) -> Measurement | Rejected:
        """The whole protocol: a race and, where it is won, the confirmation in fresh processes."""
        for measure in (self.benchmark.race, self.benchmark.confirm):
            measured = measure(self.task, challenger.candidate, challenger.artifact, live=live)
            if not _is_win(measured):
                break
        return measured

    def count_wins(self, challenger: LiveKernel, live: LiveKernel, trials: int) -> int:
        won = 0
        for trial in range(trials):
            measured = self.meet(challenger, live)
            won += _is_win(measured)
            sys.stderr.write(f"trial {trial + 1} of {trials}: {won} won, {_in_words(measured)}\n")
        return won

    def batch_overhead_us(self, kernel: LiveKernel, batches: int = 300) -> float:
        """Median of a batch of no calls."""
        core = measuring_core()
        with pinned(core), Arena(1 << 16, 1 << 16) as arena:
            runner = open_cpp_runner(self.sandbox, self.task, kernel.candidate, kernel.artifact, arena, core, 1)
            try:
                return median([runner.run(0, 0) / 1000 for _ in range(batches)])
            finally:
                runner.close()

    def honest_over_in_process(self, kernel: LiveKernel) -> float:
        """The time that the benchmark gives an honest kernel, over that of a plain loop in this process."""
        measured = self.benchmark.race(self.task, kernel.candidate, kernel.artifact)
        if not isinstance(measured, Measurement):
            raise RuntimeError(f"the benchmark's own kernel was rejected: {measured.evidence.message}")
        return measured.workloads[0].kernel_only_us / time_in_process_us(kernel.artifact)

    def judgements_per_minute(self, count: int) -> float:
        """Of candidates built, judged and screened one after the other."""
        began_s = time.monotonic()
        for variant in range(count):
            kernel = self.build(make_kernel(CHAIN, variant + 1))
            verdict = self.judge.judge(self.task, kernel.candidate, kernel.artifact)
            if not isinstance(verdict, Accepted):
                raise RuntimeError(f"the benchmark's own kernel was not accepted: {verdict}")
            self.benchmark.screen(self.task, kernel.candidate, kernel.artifact)
        return 60 * count / (time.monotonic() - began_s)


def _is_win(measured: Measurement | Rejected) -> bool:
    return isinstance(measured, Measurement) and measured.decision is Decision.WIN


def _in_words(measured: Measurement | Rejected) -> str:
    if isinstance(measured, Rejected):
        return f"{measured.reason.value}: {measured.evidence.message}"
    low, high = measured.interval
    outcome = f"{measured.stage.value} {measured.decision.value}"
    return f"{outcome} at {measured.traffic_weighted_speedup:.3f} ({low:.3f}-{high:.3f})"


def time_in_process_us(artifact: bytes, calls: int = 60, samples: int = 200) -> float:
    """One call of our own kernel in a plain C++ loop, on the core that measures."""
    with tempfile.TemporaryDirectory() as folder, pinned(measuring_core()):
        path, loop = Path(folder) / "kernel.so", Path(folder) / "loop.so"
        path.write_bytes(artifact)
        compile_loop = ["g++", "-O2", "-shared", "-fPIC", "-x", "c++", "-o", str(loop), "-"]
        subprocess.run(compile_loop, input=LOOP, text=True, check=True)
        kernel, repeat = ctypes.CDLL(str(path)).kernel, ctypes.CDLL(str(loop)).repeat
        x = np.random.default_rng(0).standard_normal((calls, WIDTH), dtype=np.float32)
        weight, y = x[0].copy(), np.empty_like(x)
        arguments = [ctypes.c_void_p(array.ctypes.data) for array in (x, weight, y)]
        times_us = []
        for _ in range(samples):
            began_ns = time.perf_counter_ns()
            repeat(kernel, *arguments, ctypes.c_int64(WIDTH), ctypes.c_int64(calls))
            times_us.append((time.perf_counter_ns() - began_ns) / calls / 1000)
        return median(times_us)


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Programs that would take all of a core each."""
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    fingerprint = fingerprint_device()
    # Kernel-only ratios are what a known true ratio can be imposed on.
    ceilings = measure_ceilings(fingerprint, 1, folder).model_copy(update={"dispatch_us": 0.0})
    sandbox = BubblewrapSandbox()
    with BaselinePool(folder / "compile") as pool:
        bench = Bench(
            task=make_task(fingerprint.id),
            sandbox=sandbox,
            builder=Builder(sandbox, {LanguageName.CPP: CppLanguage()}, slots=1),
            judge=Judge(sandbox),
            benchmark=Benchmark(
                CpuTrack(sandbox, pool, folder),
                ceilings,
                cache_folder=folder,
                baselines=(Baseline.EAGER, Baseline.EAGER_OUT),
            ),
        )
        kernel, slower = bench.build(make_kernel(CHAIN)), bench.build(make_kernel(round(CHAIN * 1.08)))
        bench.benchmark.fix_best_baselines(bench.task)
        with busy_processes(arguments.load):
            false_wins = bench.count_wins(kernel, kernel, arguments.aa)
            found = bench.count_wins(kernel, slower, arguments.power)
        return {
            "batch_overhead_us": bench.batch_overhead_us(kernel),
            "honest_over_in_process": bench.honest_over_in_process(kernel),
            "judgements_per_minute": bench.judgements_per_minute(arguments.judgements),
            "busy_processes": arguments.load,
            "aa": {"trials": arguments.aa, "false_wins": false_wins},
            "power_at_1_08": {"trials": arguments.power, "found": found},
            "machine": fingerprint.model_dump(mode="json"),
            "load_average": os.getloadavg()[0],
            "command": " ".join(["python", "-m", "benchmarks.judge", *sys.argv[1:]]),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.add_argument("--aa", type=int, default=40, metavar="N", help="trials of a kernel against itself")
    parser.add_argument("--power", type=int, default=20, metavar="N", help="trials at a true speedup of 1.08")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="busy processes beside the trials")
    parser.add_argument("--judgements", type=int, default=10, metavar="N", help="candidates judged for the rate")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        document = run(arguments, Path(folder))
    sys.stdout.write(json.dumps(document, indent=None if arguments.json else 2) + "\n")


if __name__ == "__main__":
    main()
