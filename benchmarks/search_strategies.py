"""How soon search strategies find a good schedule: `python -m benchmarks.search_strategies --json`.

They are replayed on a space whose every point was measured once (`measured_space.json`), with what the search does: a
generation of six is drawn while the one before it is measured. `--measure` measures the space again: minutes.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState

from candidates.ceilings import fingerprint_device
from candidates.error_bound import derive_error_bound
from candidates.measurement import Measurement
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from compiler_agent.agents.duplicates import key_of
from compiler_agent.agents.search.cpp_space import cpp_space
from compiler_agent.agents.search.emit_cpp import emit_candidate
from compiler_agent.agents.search.forest_sampler import ForestSampler, Point
from compiler_agent.agents.search.program import NoProgram
from compiler_agent.agents.search.staging import write_program
from compiler_agent.settings import read_settings
from compiler_agent.wiring import open_workbench

SPACE = Path(__file__).parent / "measured_space.json"
GENERATION = 6
MOST_DRAWS = 25 * GENERATION
"""For a generation; then what was not seen yet is taken at random."""
GOOD_ENOUGH = 0.95
"""Of the best that there is."""
NOISE = 0.02
"""Of a screening: standard deviation of its logarithm, which a replay adds anew for each seed."""
REFERENCE = """
def reference(x, weight):
    return torch.nn.functional.silu(torch.nn.functional.linear(x, weight))
"""
ROWS, DEPTH, COLUMNS = 8, 512, 512

Strategy = Callable[[Sequence[Point], int], optuna.samplers.BaseSampler]
STRATEGIES: Mapping[str, Strategy] = {
    "forest": ForestSampler,
    "tpe": lambda points, seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, constant_liar=True, n_startup_trials=GENERATION
    ),
    "random": lambda points, seed: optuna.samplers.RandomSampler(seed),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpace:
    """Speedups over the best baseline, by point; points that are the same code have the same."""

    fields: tuple[str, ...]
    speedups: Mapping[tuple[int | str, ...], float]

    @property
    def points(self) -> list[Point]:
        return [dict(zip(self.fields, values, strict=True)) for values in self.speedups]


def read_space(path: Path = SPACE) -> MeasuredSpace:
    document = json.loads(path.read_text())
    return MeasuredSpace(
        fields=tuple(document["fields"]),
        speedups={tuple(values): speedup for *values, speedup in document["points"]},
    )


def evaluations_until_good(
    space: MeasuredSpace, strategy: Strategy, seed: int, good_enough: float = GOOD_ENOUGH
) -> int:
    """How many points are measured up to the first that is good enough; illegal and repeated draws cost nothing."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    points, chance = space.points, np.random.default_rng(seed)
    distributions: dict[str, optuna.distributions.BaseDistribution] = {
        field: optuna.distributions.CategoricalDistribution(tuple(dict.fromkeys(point[field] for point in points)))
        for field in space.fields
    }
    study = optuna.create_study(direction="maximize", sampler=strategy(points, seed))
    enough, measured = good_enough * max(space.speedups.values()), 0
    seen: set[tuple[int | str, ...]] = set()
    waiting: list[optuna.trial.Trial] = []
    while True:
        drawn: list[optuna.trial.Trial] = []
        draws = 0
        while len(drawn) < GENERATION and len(seen) < len(points):
            draws += 1
            if draws > MOST_DRAWS:  # a sampler may insist on what it knows
                left = [point for point in points if tuple(point.values()) not in seen]
                study.enqueue_trial(dict(left[int(chance.integers(len(left)))]))
            trial = study.ask(distributions)
            values = tuple(trial.params[field] for field in space.fields)
            if values not in space.speedups or values in seen:
                study.tell(trial, state=TrialState.FAIL)
                continue
            seen.add(values)
            drawn.append(trial)
        for trial in waiting:
            speedup = space.speedups[tuple(trial.params[field] for field in space.fields)]
            measured += 1
            if speedup >= enough:
                return measured
            study.tell(trial, speedup * math.exp(NOISE * chance.standard_normal()))
        waiting = drawn


def make_task(device_id: str) -> KernelTask:
    def tensor(name: str, *shape: int | str) -> TensorSpec:
        order = tuple(range(len(shape)))
        return TensorSpec(name=name, element_type=ElementType.FLOAT32, shape=shape, dim_order=order)

    def given(role: InputRole, name: str, *shape: int | str) -> InputSpec:
        return InputSpec(**tensor(name, *shape).model_dump(), role=role)

    task = KernelTask(
        op="linear_silu",
        site="benchmarks.search_strategies",
        level=SiteLevel.LEAF,
        reference=REFERENCE,
        inputs=(
            given(InputRole.ACTIVATION, "x", "rows", DEPTH),
            given(InputRole.PARAMETER, "weight", COLUMNS, DEPTH),
        ),
        outputs=(tensor("y", "rows", COLUMNS),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": ROWS}, calls_per_hour=1.0),),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id=device_id,
    )
    return task.model_copy(update={"error_bound": derive_error_bound(task)})


def measure(home: Path) -> dict[str, Any]:
    """Every legal schedule of the task as its graph is written, by two screenings each; equal code once."""
    task = make_task(fingerprint_device().id)
    program = write_program(task)
    assert not isinstance(program, NoProgram)
    space = cpp_space(program)
    space = replace(space, choices={**space.choices, "algebra": ("as_written",)})
    of_point = {tuple(space.point(each).values()): emit_candidate(program, each) for each in space.schedules()}
    unique = {key_of(candidate): candidate for candidate in of_point.values()}
    settings = read_settings({**os.environ, "COMPILER_AGENT_HOME": str(home)})
    speedups: dict[str, float] = {}
    with open_workbench(settings) as bench, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        built = dict(zip(unique, pool.map(lambda each: bench.builder.build(task, each), unique.values()), strict=True))
        benchmark = bench.benchmark(task)
        assert benchmark is not None
        for mark, artifact in built.items():
            assert isinstance(artifact, bytes)
            screened = [benchmark.screen(task, unique[mark], artifact) for _ in range(2)]
            assert all(isinstance(each, Measurement) for each in screened)
            speedups[mark] = statistics.geometric_mean(
                each.traffic_weighted_speedup for each in screened if isinstance(each, Measurement)
            )
    return {
        "device": task.device_id,
        "fields": list(space.varying),
        "points": [[*values, round(speedups[key_of(each)], 4)] for values, each in of_point.items()],
    }


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    space = read_space(arguments.space)
    speedups = list(space.speedups.values())
    best = max(speedups)
    rows = []
    for name, strategy in STRATEGIES.items():
        needed = sorted(
            evaluations_until_good(space, strategy, seed, arguments.good_enough) for seed in range(arguments.seeds)
        )
        rows.append(
            {
                "strategy": name,
                "median": statistics.median(needed),
                "mean": round(statistics.mean(needed), 1),
                "p90": needed[math.ceil(0.9 * len(needed)) - 1],
            }
        )
    return {
        "evaluations_until_good": rows,
        "share_of_best_that_is_good": arguments.good_enough,
        "seeds": arguments.seeds,
        "points": len(speedups),
        "good_points": sum(speedup >= arguments.good_enough * best for speedup in speedups),
        "best_over_median": round(best / statistics.median(speedups), 2),
        "machine": fingerprint_device().model_dump(mode="json"),
        "command": " ".join(["python", "-m", "benchmarks.search_strategies", *sys.argv[1:]]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_strategies", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document on one line")
    parser.add_argument("--seeds", type=int, default=20, metavar="N")
    parser.add_argument("--good-enough", type=float, default=GOOD_ENOUGH, metavar="SHARE", help="of the best there is")
    parser.add_argument("--space", type=Path, default=SPACE, metavar="FILE")
    parser.add_argument("--measure", action="store_true", help="measure the space and write the file before")
    arguments = parser.parse_args()
    if arguments.measure:
        with tempfile.TemporaryDirectory(prefix="search-strategies-") as home:
            arguments.space.write_text(json.dumps(measure(Path(home))) + "\n")
    sys.stdout.write(json.dumps(run(arguments), indent=None if arguments.json else 2) + "\n")


if __name__ == "__main__":
    main()
