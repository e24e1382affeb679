"""The export as a FlashInfer-Bench dataset, read by our reader and by theirs."""

import dataclasses
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from target_contract import ServingTargetContract

from candidates.problems.documents import Solution
from candidates.problems.flashinfer_bench import read_document
from candidates.problems.problem import DefinitionSource
from candidates.problems.read import read_problems
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.export_folder import write_export
from candidates.serving_build.target import ServingTarget
from candidates.serving_build.targets.flashinfer_trace import FlashinferTrace


class TestFlashinferTrace(ServingTargetContract):
    @pytest.fixture
    def target(self) -> ServingTarget:
        return FlashinferTrace()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, build: Build) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "dataset"
    write_export(FlashinferTrace().export(build), "flashinfer-trace", build.id, folder)
    return folder


def test_our_reader_finds_the_definitions_of_the_builds_tasks(dataset: Path, rmsnorm: ShippedKernel) -> None:
    problems = {problem.name: problem.source for problem in read_problems(dataset)}
    source = problems[f"llamarmsnorm_{rmsnorm.task.id[:8]}"]
    assert isinstance(source, DefinitionSource)
    assert [argument.shape for argument in source.arguments] == [("batch", "tokens", 64), (64,)]
    assert [each.axes for each in source.workloads if not each.is_hidden] == [{"batch": 1, "tokens": 1}]


def test_solutions_hold_the_source_of_the_kernel(dataset: Path, rmsnorm: ShippedKernel) -> None:
    (path,) = dataset.glob(f"solutions/compiler-agent/*/*/*_{rmsnorm.candidate.id[:12]}.json")
    sources = {each.path: each.content for each in read_document(Solution, path).sources}
    assert sources["kernel.h"] == rmsnorm.candidate.source


def test_says_why_a_kernel_is_left_out(build: Build, linear: ShippedKernel, rope: ShippedKernel) -> None:
    reasons = {each.kernel_id: each.reason for each in FlashinferTrace().export(build).left_out}
    assert set(reasons) == {linear.candidate.id, rope.candidate.id}
    assert "packs parameters once per session" in reasons[linear.candidate.id]
    assert "lie in memory as" in reasons[rope.candidate.id]


def test_a_kernel_that_needs_launch_parameters_is_left_out(
    tmp_path: Path, rmsnorm: ShippedKernel, build: Build
) -> None:
    candidate = rmsnorm.candidate.model_copy(update={"source": "// LAUNCH_BLOCK", "launch_parameters": {"BLOCK": 4}})
    kernel = dataclasses.replace(rmsnorm, candidate=candidate)
    export = FlashinferTrace().export(write_build(tmp_path, "tiny", build.manifest.device, [kernel]))
    assert export.files == {}
    assert ["launch parameters" in each.reason for each in export.left_out] == [True]


def by_flashinfer_bench(code: str, dataset: Path) -> Any:
    """What a process prints as JSON that has their package's view of the dataset as `found`."""
    head = "import json, sys\nfrom flashinfer_bench.data import TraceSet\nfound = TraceSet.from_path(sys.argv[1])\n"
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))  # ninja lies there
    done = subprocess.run(
        [sys.executable, "-c", head + code, dataset],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": path, "FIB_CACHE_PATH": str(dataset.parent / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_flashinfer_bench_reads_the_dataset(dataset: Path) -> None:
    definitions, solutions, workloads = by_flashinfer_bench(
        "print(json.dumps([sorted(found.definitions), sorted(s.name for g in found.solutions.values() for s in g),"
        " [t.workload.axes for g in found.workloads.values() for t in g]]))",
        dataset,
    )
    assert len(definitions) == len(solutions) == 2
    assert all(solution.startswith(tuple(definitions)) for solution in solutions)
    assert workloads == [{"batch": 1, "tokens": 1}] * 2


@pytest.mark.slow
def test_flashinfer_bench_compiles_and_runs_a_solution(dataset: Path, rmsnorm: ShippedKernel) -> None:
    error = by_flashinfer_bench(
        "import torch\n"
        "from flashinfer_bench.compile import BuilderRegistry\n"
        f"name = 'llamarmsnorm_{rmsnorm.task.id[:8]}'\n"
        "definition, (solution,) = found.definitions[name], found.solutions[name]\n"
        "registry = BuilderRegistry.get_instance()\n"
        "x, weight, y = torch.randn(2, 3, 64), torch.randn(64), torch.full((2, 3, 64), torch.nan)\n"
        "registry.build(definition, solution).call_destination_passing(x, weight, y)\n"
        "expected = registry.build_reference(definition).call_value_returning(x, weight)\n"
        "print(json.dumps(float((y - expected).abs().max())))",
        dataset,
    )
    assert error < 1e-5
