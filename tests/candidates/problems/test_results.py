"""Results leave as a FlashInfer-Bench dataset: every verdict in its words, nothing of theirs overwritten."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from suite_files import RMSNORM, RMSNORM_KERNEL, Imported, write_rmsnorm_dataset

from candidates.agent import Attempt
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.device import DeviceFingerprint
from candidates.exported_op import Obstructed
from candidates.ledger.latest_words import Evaluation
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.problems.dataset import write_results
from candidates.problems.documents import Solution, Status, Trace
from candidates.problems.flashinfer_bench import read_document, read_lines
from candidates.problems.problem import ProblemError
from candidates.problems.read import read_problems
from candidates.problems.results import Results, describe_results, status_of
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
from candidates.verdict import Accepted, Evidence, EvidenceKind, Reason, Rejected, Verdict, WorstElement

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DEVICE = DeviceFingerprint(
    kind="cpu", model="EPYC of tests", features=("avx2",), cores=2, cache_bytes=(1 << 15,), compiler="g++ 12",
    torch_version="2.13.0",
)  # fmt: skip
CANDIDATE = Candidate(language=LanguageName.CPP, source=RMSNORM_KERNEL, launch_parameters={"EPS": 1})
ACCEPTED = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=4, worst_error_in_bounds=0.25)


def measurement_of(*names: str) -> Measurement:
    workloads = tuple(
        WorkloadMeasurement(
            workload=name,
            candidate_us=2.0,
            kernel_only_us=1.5,
            baselines_us={Baseline.EAGER: 8.0, Baseline.FUSED: 4.0},
            best_baseline=Baseline.FUSED,
            speedup_over_best=2.0,
            interval=Interval(1.9, 2.1),
            pairs=100,
            share_of_floor=0.5,
            parameters_are_cold=False,
            decision=Decision.WIN,
        )
        for name in names
    )
    return Measurement(
        stage=Stage.CONFIRM,
        device_id="cpu-test",
        threads=1,
        workloads=workloads,
        traffic_weighted_speedup=2.0,
        interval=Interval(1.9, 2.1),
        decision=Decision.WIN,
        wall_s=1.0,
    )


def evaluated(verdict: Verdict, measurement: Measurement | None = None, candidate: Candidate = CANDIDATE) -> Evaluation:
    proposal = Proposal(candidate=candidate, agent="hand")
    return Evaluation(Attempt(proposal=proposal, verdict=verdict, measurement=measurement), AT, None)


def rejected(reason: Reason, workload: str | None, worst: WorstElement | None = None) -> Rejected:
    return Rejected(reason=reason, workload=workload, evidence=Evidence(message="why", worst=worst), seed=1)


def describe(imported: Imported, *evaluations: Evaluation, with_rejected: bool = False) -> Results:
    return describe_results(imported.task, imported.documents, evaluations, DEVICE, with_rejected=with_rejected)


def fields(document: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document.model_dump_json())
    return found


def test_a_measured_kernel_passes_on_every_line_of_its_shape(imported_rmsnorm: Imported) -> None:
    results = describe(imported_rmsnorm, evaluated(ACCEPTED, measurement_of("batch=3", "batch=20")))
    assert [trace.workload.uuid for trace in results.traces] == ["wl-0", "wl-2", "wl-1"]
    trace = fields(results.traces[0])
    assert trace["workload"]["source"] == "a trace"
    evaluation = trace["evaluation"]
    assert evaluation["status"] == "PASSED"
    assert evaluation["environment"] == {
        "hardware": "EPYC of tests",
        "libs": {"torch": "2.13.0", "compiler": "g++ 12"},
    }
    assert evaluation["timestamp"] == "2026-01-02T03:04:05+00:00"
    performance = evaluation["performance"]
    assert (performance["latency_ms"], performance["reference_latency_ms"]) == (0.002, 0.008)
    assert performance["speedup_factor"] == 4.0
    assert performance["compiler_agent"]["speedup_over_best"] == 2.0
    assert 0 < evaluation["correctness"]["max_relative_error"] < 1e-5
    assert 0 < evaluation["correctness"]["max_absolute_error"] < 1e-4
    assert trace["solution"] == results.solutions[0].name


def test_a_kernel_without_measurement_is_a_solution_without_traces(imported_rmsnorm: Imported) -> None:
    results = describe(imported_rmsnorm, evaluated(ACCEPTED))
    assert (len(results.solutions), results.traces) == (1, ())


def test_the_binding_checks_what_the_kernel_takes_for_granted(imported_rmsnorm: Imported) -> None:
    (solution,) = describe(imported_rmsnorm, evaluated(ACCEPTED)).solutions
    files = {source.path: source.content for source in solution.sources}
    assert solution.spec.entry_point == "binding.cpp::run"
    assert files["kernel.h"] == "#define LAUNCH_EPS 1\n" + RMSNORM_KERNEL
    binding = files["binding.cpp"]
    assert "TensorView x, tvm::ffi::TensorView weight, double scalar2, tvm::ffi::TensorView y" in binding
    assert "TVM_FFI_ICHECK_EQ(scalar2, 1e-05);" in binding
    assert "TVM_FFI_ICHECK_EQ(x.size(1), 64);" in binding
    assert binding.count("IsContiguous()") == 3
    assert "static_cast<float*>(y.data_ptr()), x.size(0));" in binding


def test_rejected_kernels_are_left_out_unless_asked_for(imported_rmsnorm: Imported) -> None:
    rejection = evaluated(rejected(Reason.CRASHED, "batch=3"))
    results = describe(imported_rmsnorm, rejection)
    assert results.solutions == ()
    assert [each.reason for each in results.left_out] == ["it was rejected: crashed"]
    results = describe(imported_rmsnorm, rejection, with_rejected=True)
    assert len(results.solutions) == 1
    assert [trace.workload.uuid for trace in results.traces] == ["wl-0", "wl-2"]
    evaluation = fields(results.traces[0])["evaluation"]
    assert (evaluation["status"], evaluation["log"]) == ("RUNTIME_ERROR", "crashed: why")
    assert "correctness" not in evaluation
    assert "performance" not in evaluation


def test_what_failed_before_any_call_failed_on_every_workload(imported_rmsnorm: Imported) -> None:
    failed = evaluated(rejected(Reason.BUILD_FAILED, None))
    results = describe(imported_rmsnorm, failed, with_rejected=True)
    assert {fields(trace)["evaluation"]["status"] for trace in results.traces} == {"COMPILE_ERROR"}
    assert len(results.traces) == 3


def test_a_hidden_shape_stays_hidden(imported_rmsnorm: Imported) -> None:
    results = describe(imported_rmsnorm, evaluated(rejected(Reason.WRONG_VALUES, "hidden")), with_rejected=True)
    assert results.solutions == ()
    assert {line.workload.axes["batch"] for line in results.workloads} == {3, 20}


@pytest.mark.parametrize(
    ("expected", "got", "errors"),
    [
        ("2", "2.5", {"max_relative_error": 0.25, "max_absolute_error": 0.5}),
        ("0", "1", {"max_relative_error": "Infinity", "max_absolute_error": 1.0}),
        ("1", "nan", {"max_relative_error": "Infinity", "max_absolute_error": "Infinity"}),
    ],
)
def test_a_wrong_value_says_how_wrong(
    imported_rmsnorm: Imported, expected: str, got: str, errors: dict[str, Any]
) -> None:
    worst = WorstElement(output="y", index=(0,), expected=expected, got=got, bound="1e-6")
    failed = evaluated(rejected(Reason.WRONG_VALUES, "batch=20", worst))
    (trace,) = describe(imported_rmsnorm, failed, with_rejected=True).traces
    assert fields(trace)["evaluation"]["correctness"] == errors


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_status(reason: Reason) -> None:
    assert status_of(reason) in set(Status) - {Status.PASSED}


def test_a_kernel_that_packs_is_left_out(imported_rmsnorm: Imported) -> None:
    packing = CANDIDATE.model_copy(update={"prepare": "pack"})
    results = describe(imported_rmsnorm, evaluated(ACCEPTED, candidate=packing))
    assert results.solutions == ()
    assert "packs parameters" in results.left_out[0].reason


def test_a_written_dataset_is_read_again_as_it_was(imported_rmsnorm: Imported, tmp_path: Path) -> None:
    results = describe(imported_rmsnorm, evaluated(ACCEPTED, measurement_of("batch=3", "batch=20")))
    path = write_results(results, tmp_path)
    assert json.loads(path.read_text()) == RMSNORM
    assert list(json.loads(path.read_text())) == list(RMSNORM)
    (problem,) = read_problems(tmp_path)
    assert problem.documents == imported_rmsnorm.documents
    (solution,) = (tmp_path / "solutions" / "compiler-agent" / "rmsnorm" / "rmsnorm_h64").iterdir()
    assert read_document(Solution, solution) == results.solutions[0]
    traces = tmp_path / "traces" / "compiler-agent" / "rmsnorm" / "rmsnorm_h64.jsonl"
    assert tuple(read_lines(Trace, traces)) == results.traces


def test_writing_twice_changes_nothing_and_what_was_there_stays(imported_rmsnorm: Imported, tmp_path: Path) -> None:
    definition = write_rmsnorm_dataset(tmp_path, RMSNORM | {"description": "edited"})
    traces = tmp_path / "traces" / "compiler-agent" / "rmsnorm" / "rmsnorm_h64.jsonl"
    traces.parent.mkdir(parents=True)
    traces.write_text('{"somebody": "else"}')
    before = definition.read_text()
    results = describe(imported_rmsnorm, evaluated(ACCEPTED, measurement_of("batch=3")))
    write_results(results, tmp_path)
    once = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    write_results(results, tmp_path)
    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == once
    assert definition.read_text() == before
    assert traces.read_text().startswith('{"somebody": "else"}\n{"definition"')
    assert len(traces.read_text().splitlines()) == 3


def test_another_definition_of_that_name_is_not_overwritten(imported_rmsnorm: Imported, tmp_path: Path) -> None:
    write_rmsnorm_dataset(tmp_path, RMSNORM | {"reference": "def run(x, weight, eps): return x"})
    with pytest.raises(ProblemError, match="another definition"):
        write_results(describe(imported_rmsnorm), tmp_path)


def spec(name: str, shape: tuple[int | str, ...], order: tuple[int, ...], role: InputRole) -> InputSpec:
    return InputSpec(name=name, element_type=ElementType.FLOAT32, shape=shape, dim_order=order, role=role)


def served_task(order: tuple[int, ...] = (0, 1), role: InputRole = InputRole.ACTIVATION) -> KernelTask:
    return KernelTask(
        op="LlamaMLP.region0",
        site="model.layers.*.mlp",
        level=SiteLevel.LEAF,
        reference="def reference(weight, x):\n    return x * weight\n",
        inputs=(spec("weight", (8,), (0,), InputRole.PARAMETER), spec("x", ("tokens", 8), order, role)),
        outputs=(TensorSpec(name="y", element_type=ElementType.FLOAT32, shape=("tokens", 8), dim_order=(0, 1)),),
        axes=("tokens",),
        workloads=(
            Workload(axes={"tokens": 4}, calls_per_hour=1.0),
            Workload(axes={"tokens": 5}, calls_per_hour=0.0, is_hidden=True),
        ),
        error_bound=ErrorBound(scaled_error=1e-7),
        device_id="cpu-test",
    )


def test_a_task_of_a_served_model_becomes_a_definition_that_reads(tmp_path: Path) -> None:
    task = served_task()
    results = describe_results(task, None, [evaluated(ACCEPTED, measurement_of("tokens=4"))], None)
    write_results(results, tmp_path)
    (problem,) = read_problems(tmp_path)
    assert problem.name == f"llamamlp_region0_{task.id[:8]}"
    definition = results.definition
    assert fields(definition)["axes"] == {"tokens": {"type": "var"}, "size_8": {"type": "const", "value": 8}}
    assert definition.inputs["x"].shape == ("tokens", "size_8")
    assert "def run(weight, x):" in definition.reference
    assert [line.workload.axes for line in results.workloads] == [{"tokens": 4}]
    assert [trace.workload.uuid for trace in results.traces] == [results.workloads[0].workload.uuid]


@pytest.mark.parametrize(
    ("task", "words"),
    [(served_task(order=(1, 0)), "lie in memory"), (served_task(role=InputRole.STATE), "do not change")],
)
def test_what_the_layout_has_no_words_for_is_refused(task: KernelTask, words: str) -> None:
    with pytest.raises(Obstructed, match=words):
        describe_results(task, None, [], None)
