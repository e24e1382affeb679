"""Races through the real sandbox: honest kernels, slower and faster ones, and kernels that cheat on the clock."""

from dataclasses import replace
from pathlib import Path

import pytest
from ceilings_of_tests import generous_ceilings

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.benchmark import Benchmark, LiveKernel
from candidates.benchmark.track import CpuTrack
from candidates.builder import Builder
from candidates.candidate import Candidate, LanguageName
from candidates.language import BuildRecipe
from candidates.languages.cpp import CppLanguage
from candidates.measurement import Baseline, Decision, Measurement, Stage
from candidates.task import (
    ElementType,
    ErrorBound,
    InputRole,
    InputSpec,
    KernelTask,
    SiteLevel,
    TensorSpec,
    Workload,
)
from candidates.verdict import Reason, Rejected
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from tests.candidates.past_searches import measurement

REFERENCE = """
def reference(x, weight):
    return torch.relu(x * weight) + x
"""


def task_of(rows: tuple[int, ...]) -> KernelTask:
    return KernelTask(
        op="gated",
        site="model.gated",
        level=SiteLevel.LEAF,
        reference=REFERENCE,
        inputs=(
            InputSpec(
                name="x",
                element_type=ElementType.FLOAT32,
                shape=("rows", 256),
                dim_order=(0, 1),
                role=InputRole.ACTIVATION,
            ),
            InputSpec(
                name="weight",
                element_type=ElementType.FLOAT32,
                shape=(256,),
                dim_order=(0,),
                role=InputRole.PARAMETER,
            ),
        ),
        outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("rows", 256), dim_order=(0, 1)),),
        axes=("rows",),
        workloads=tuple(Workload(axes={"rows": size}, calls_per_hour=100.0) for size in rows),
        error_bound=ErrorBound(scaled_error=1e-6),
        device_id="cpu-of-tests",
    )


KERNEL = """
#include <cstdint>
#include <time.h>
static long calls = 0;
static int64_t now_ns() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static int64_t last_ns = 0;
static void compute(const float* x, const float* weight, float* y, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < 256; i++) {
            float v = x[r * 256 + i], p = v * weight[i];
            y[r * 256 + i] = (p > 0 ? p : 0) + v;
        }
}
extern "C" void kernel(const float* x, WEIGHT* weight, float* y, int64_t rows) {
    BODY
}
"""
HONEST = "compute(x, weight, y, rows);"
SLOWER = "for (int n = 0; n < 3; n++) { " + HONEST + ' asm volatile("" : : : "memory"); }'
FAR_SLOWER = SLOWER.replace("n < 3", "n < 900")
SKIPS_WHEN_TIMED = "if (calls++ < 40) compute(x, weight, y, rows);"
ZEROS_WHEN_TIMED = "if (calls++ < 40) compute(x, weight, y, rows); else for (int i = 0; i < rows * 256; i++) y[i] = 0;"
SLOW_AFTER_A_PAUSE = """
    int64_t began = now_ns();
    while (began - last_ns > 3000 && now_ns() - began < 20000) {}
    compute(x, weight, y, rows);
    last_ns = now_ns();
"""
SLEEPS = "timespec t{0, 20000}; nanosleep(&t, nullptr); compute(x, weight, y, rows);"
CRASHES = "if (calls++ > 40) __builtin_trap(); compute(x, weight, y, rows);"

# Answers the warm-up call and the null batches that follow it itself, from inside the kernel, and returns in the batch.
TAKES_THE_HANDSHAKE_OVER = """
#include <cstdint>
#include <time.h>
#include <unistd.h>
struct Request { uint64_t nonce; uint32_t kind, first, count, payload_bytes; };
using tensors = void* const*;
using prepared = const void*;
using sizes = const int64_t*;
static int64_t now_ns() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static void call(tensors t, sizes s) {
    auto x = (const float*)t[0], weight = (const float*)t[1];
    auto y = (float*)t[2];
    for (int n = 0; n < 100; n++) {
        for (int64_t i = 0; i < s[0] * 256; i++) {
            float p = x[i] * weight[i % 256];
            y[i] = (p > 0 ? p : 0) + x[i];
        }
        asm volatile("" : : : "memory");
    }
}
extern "C" __attribute__((noinline)) void take_over(tensors t, prepared, sizes s) {
    int64_t began = now_ns();
    call(t, s);
    int64_t took = now_ns() - began;
    volatile uint64_t* stack = (volatile uint64_t*)__builtin_frame_address(0);
    Request asked{};
    for (int i = 0; i < 100 && !asked.nonce; i++) {
        auto* r = (volatile Request*)(stack + i);
        if (r->kind == 3 && r->payload_bytes == 0 && r->count == 1 && r->first > 0 && r->first < 5000 && r->nonce >> 40)
            asked = {r->nonce, 3, r->first, 1, 0};
    }
    if (!asked.nonce) return;
    tensors first = t - 3 * asked.first;
    uint64_t reply[2] = {asked.nonce, 0};
    for (;;) {
        Request next;
        if (write(1, reply, sizeof reply) != sizeof reply || read(0, &next, sizeof next) != sizeof next) _exit(1);
        reply[0] = next.nonce;
        if (next.count == 0) {
            began = now_ns();
            NULL_BATCH
            continue;
        }
        for (int i = 0; i < 100; i++)
            if (stack[i] == asked.nonce) stack[i] = next.nonce;
        BATCH
        return;
    }
}
extern "C" void compiler_agent_call(tensors t, prepared p, sizes s) { take_over(t, p, s); }
"""
LENGTHENS_NULL_BATCHES = ("while (now_ns() - began < took * asked.first * 9 / 10) {}", "WORK")
WORKS_IN_NULL_BATCHES = ("WORK", "began = now_ns(); while (now_ns() - began < took * next.count) {}")

BUILDER = Builder(BubblewrapSandbox(), {LanguageName.CPP: CppLanguage()}, slots=2)
ONE_ROW = task_of((1,))
MANY_ROWS = task_of((64,))


def kernel(body: str, task: KernelTask = ONE_ROW) -> LiveKernel:
    weight = "float" if task.inputs[1].role is InputRole.STATE else "const float"
    candidate = Candidate(language=LanguageName.CPP, source=KERNEL.replace("WEIGHT", weight).replace("BODY", body))
    artifact = BUILDER.build(task, candidate)
    assert isinstance(artifact, bytes), artifact
    return LiveKernel(candidate=candidate, artifact=artifact)


def takes_over(null_batch: str, batch: str) -> LiveKernel:
    source = TAKES_THE_HANDSHAKE_OVER.replace("NULL_BATCH", null_batch).replace("BATCH", batch)
    source = source.replace("WORK", "for (uint32_t c = 0; c < asked.first; c++) call(first + 3 * c, s);")
    candidate = Candidate(language=LanguageName.CPP, source=source)
    artifact = Builder(BubblewrapSandbox(), {LanguageName.CPP: OwnAdapter()}, slots=1).build(ONE_ROW, candidate)
    assert isinstance(artifact, bytes), artifact
    return LiveKernel(candidate=candidate, artifact=artifact)


class OwnAdapter(CppLanguage):
    """For a kernel that brings its own, and so has the pointers of all calls without searching for them."""

    def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        recipe = super().build_recipe(task, candidate)
        return replace(recipe, files={**recipe.files, "adapter.cpp": b""})


def race(
    benchmark: Benchmark, task: KernelTask, body: str, *, live: LiveKernel | None = None
) -> Measurement | Rejected:
    racer = kernel(body, task)
    return benchmark.race(task, racer.candidate, racer.artifact, live=live, most_pairs=200, most_s=6.0)


def test_screening_measures_every_public_workload(benchmark_of_tests: Benchmark) -> None:
    task = task_of((1, 16))
    racer = kernel(HONEST, task)
    measured = benchmark_of_tests.screen(task, racer.candidate, racer.artifact)
    assert isinstance(measured, Measurement)
    assert measured.stage is Stage.SCREEN
    assert {workload.workload for workload in measured.workloads} == {"rows=1", "rows=16"}
    assert all(workload.candidate_us == pytest.approx(workload.kernel_only_us + 1.0) for workload in measured.workloads)


def test_measurements_tell_what_one_call_computes_and_moves(benchmark_of_tests: Benchmark) -> None:
    task = task_of((1, 16))
    racer = kernel(HONEST, task)
    measured = benchmark_of_tests.screen(task, racer.candidate, racer.artifact)
    assert isinstance(measured, Measurement)
    told = {each.workload: (each.flops, each.moved_bytes) for each in measured.workloads}
    assert told == {f"rows={rows}": (0, 4 * (2 * rows * 256 + 256)) for rows in (1, 16)}


def test_measurements_of_older_releases_tell_neither() -> None:
    older = measurement(2.0).model_dump(mode="json")
    for each in older["workloads"]:
        del each["flops"], each["moved_bytes"]
    read = Measurement.model_validate(older)
    assert [(each.flops, each.moved_bytes) for each in read.workloads] == [(None, None)]


def test_screening_stops_a_kernel_that_is_far_behind(benchmark_of_tests: Benchmark) -> None:
    racer = kernel(FAR_SLOWER)
    measured = benchmark_of_tests.screen(ONE_ROW, racer.candidate, racer.artifact)
    assert isinstance(measured, Measurement)
    assert measured.decision is Decision.LOSE


def test_screening_stops_what_is_far_behind_the_best_so_far(benchmark_of_tests: Benchmark) -> None:
    task = task_of((1, 16))
    fast, slow = kernel(HONEST, task), kernel(SLOWER, task)
    incumbent = benchmark_of_tests.screen(task, fast.candidate, fast.artifact)
    assert isinstance(incumbent, Measurement)
    ten_times = incumbent.model_copy(
        update={
            "traffic_weighted_speedup": 10 * incumbent.traffic_weighted_speedup,
            "workloads": tuple(
                each.model_copy(update={"speedup_over_best": 10 * each.speedup_over_best})
                for each in incumbent.workloads
            ),
        }
    )
    measured = benchmark_of_tests.screen(task, slow.candidate, slow.artifact, incumbent=ten_times)
    assert isinstance(measured, Measurement)
    assert measured.decision is Decision.LOSE
    assert measured.traffic_weighted_speedup < ten_times.traffic_weighted_speedup / 1.5


def test_faster_kernel_wins_its_race_and_is_confirmed(benchmark_of_tests: Benchmark) -> None:
    racer = kernel(HONEST)
    raced = benchmark_of_tests.race(ONE_ROW, racer.candidate, racer.artifact)
    assert isinstance(raced, Measurement)
    assert raced.decision is Decision.WIN
    confirmed = benchmark_of_tests.confirm(ONE_ROW, racer.candidate, racer.artifact, pairs=20, most_s=14.0)
    assert isinstance(confirmed, Measurement)
    assert confirmed.decision is Decision.WIN
    assert confirmed.interval.low > 1.03


def test_identical_kernel_never_wins_against_the_live_one(benchmark_of_tests: Benchmark) -> None:
    live = kernel(HONEST)
    for _ in range(3):
        measured = race(benchmark_of_tests, ONE_ROW, HONEST, live=live)
        assert isinstance(measured, Measurement)
        assert measured.workloads[0].best_baseline is Baseline.CURRENT
        assert measured.decision is not Decision.WIN


def test_slower_kernel_loses_and_faster_one_wins_against_the_live_one(benchmark_of_tests: Benchmark) -> None:
    slower = race(benchmark_of_tests, MANY_ROWS, SLOWER, live=kernel(HONEST, MANY_ROWS))
    faster = race(benchmark_of_tests, MANY_ROWS, HONEST, live=kernel(SLOWER, MANY_ROWS))
    assert isinstance(slower, Measurement)
    assert isinstance(faster, Measurement)
    assert (slower.decision, faster.decision) == (Decision.LOSE, Decision.WIN)


def test_state_that_a_kernel_does_not_update_is_noticed_while_timed(benchmark_of_tests: Benchmark) -> None:
    state = InputSpec(
        name="weight", element_type=ElementType.FLOAT32, shape=(256,), dim_order=(0,), role=InputRole.STATE
    )
    task = ONE_ROW.model_copy(
        update={
            "inputs": (ONE_ROW.inputs[0], state),
            "reference": REFERENCE.replace("    return", "    weight.mul_(2)\n    return"),
        }
    )
    updates = "for (int i = 0; i < 256; i++) weight[i] *= 2;"
    assert isinstance(race(benchmark_of_tests, task, updates + HONEST), Measurement)
    forgets = race(benchmark_of_tests, task, f"if (calls++ < 40) {{ {updates} {HONEST} }} else {{ {HONEST} }}")
    assert isinstance(forgets, Rejected)
    assert forgets.reason is Reason.WRONG_VALUES


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (SKIPS_WHEN_TIMED, Reason.OUTPUT_NOT_WRITTEN),
        (ZEROS_WHEN_TIMED, Reason.WRONG_VALUES),
        (SLEEPS, Reason.PROVOKED_PREEMPTION),
        (SLOW_AFTER_A_PAUSE, Reason.AMORTISED),
        (CRASHES, Reason.CRASHED),
    ],
)
def test_rejects_kernel_that_cheats_on_the_clock(benchmark_of_tests: Benchmark, body: str, reason: Reason) -> None:
    measured = race(benchmark_of_tests, ONE_ROW, body)
    assert isinstance(measured, Rejected), measured
    assert measured.reason is reason


def test_long_handshakes_make_no_kernel_faster(benchmark_of_tests: Benchmark) -> None:
    honest, hostile = takes_over("", "WORK"), takes_over(*LENGTHENS_NULL_BATCHES)

    def raced(kernel: LiveKernel) -> Measurement | Rejected:
        return benchmark_of_tests.race(ONE_ROW, kernel.candidate, kernel.artifact, most_pairs=40, most_s=6.0)

    fair, long = raced(honest), raced(hostile)
    for _ in range(5):
        if isinstance(long, Measurement):
            break
        # On a busy machine its long batches are preempted more than the baseline's.
        assert long.reason is Reason.PROVOKED_PREEMPTION
        long = raced(hostile)
    assert isinstance(fair, Measurement)
    assert isinstance(long, Measurement)
    assert long.traffic_weighted_speedup < 2 * fair.traffic_weighted_speedup


def test_work_done_before_the_clock_runs_is_no_work(benchmark_of_tests: Benchmark) -> None:
    early = takes_over(*WORKS_IN_NULL_BATCHES)
    measured = benchmark_of_tests.race(ONE_ROW, early.candidate, early.artifact, most_pairs=40, most_s=6.0)
    assert isinstance(measured, Rejected)
    assert measured.reason is Reason.OUTPUT_NOT_WRITTEN


def test_rejects_kernel_faster_than_the_device_allows(pool: BaselinePool, cache_folder: Path) -> None:
    slow_device = Benchmark(
        CpuTrack(BubblewrapSandbox(), pool, cache_folder),
        generous_ceilings(speed=2e-3),
        cache_folder=cache_folder,
        baselines=(Baseline.EAGER_OUT,),
        measure_again=lambda ceilings: ceilings,
    )
    measured = race(slow_device, ONE_ROW, HONEST)
    assert isinstance(measured, Rejected)
    assert measured.reason is Reason.FASTER_THAN_POSSIBLE
