"""What Prometheus reads of the service as a whole."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import RunStates
from compiler_agent.service_metrics import ServiceMetrics
from compiler_agent.settings import read_settings
from tests.candidates.past_searches import REQUEST, attempt, double_task, measurement
from tests.compiler_agent.figures import SERVICE_FIGURES, WORKER_FIGURES


@pytest.fixture
def settings(tmp_path):
    return read_settings({"COMPILER_AGENT_HOME": str(tmp_path), "COMPILER_AGENT_TEMPORAL": "127.0.0.1:1"})


def figures(settings):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceMetrics(settings))
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def test_counts_are_those_of_the_ledger(settings):
    ledger, task = Ledger(settings.ledger_url), double_task()
    ledger.open_run(REQUEST, "run-1")
    ledger.put_task(task)
    tried = [attempt("a", measurement(2.0)), attempt("b", measurement(3.0)), attempt("c", is_accepted=False)]
    for each in tried:
        ledger.put_candidate(each.proposal.candidate)
        ledger.put_attempt("run-1", task.id, each)
    RunStates(ledger).put_failure("run-1", "the disk is full")
    found = figures(settings)
    assert found["compiler_agent_attempts_total", "accepted"] == 2
    assert found["compiler_agent_attempts_total", "rejected"] == 1
    assert found[("compiler_agent_runs_begun_total",)] == 1
    assert found[("compiler_agent_runs_ended_total",)] == 0
    assert found[("compiler_agent_run_failures_total",)] == 1
    assert found[("compiler_agent_home_free_bytes",)] > 0
    assert {name for name, *_ in found} <= SERVICE_FIGURES


def test_many_that_ask_at_once_are_one_reading(settings):
    Ledger(settings.ledger_url)
    metrics = ServiceMetrics(settings)
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda _: metrics.collect(), range(200)))
    assert all(each is found[0] for each in found)


def test_what_is_away_is_a_problem_and_everything_else_is_told(settings):
    Ledger(settings.ledger_url)
    found = figures(settings)
    assert found[("compiler_agent_problems",)] >= 1  # nobody answers at Temporal's address
    assert found[("compiler_agent_runs_begun_total",)] == 0


def test_a_home_that_is_not_there_is_a_problem(tmp_path):
    lost = read_settings({"COMPILER_AGENT_HOME": str(tmp_path / "nowhere")})
    assert figures(lost) == {("compiler_agent_problems",): 1.0}


def test_every_figure_is_in_the_documents():
    text = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
    section = text[text.index("## Watching it") : text.index("## Many machines")]
    documented = re.findall(r"`(?:compiler_agent)?_(\w+)`", section)
    assert {f"compiler_agent_{name}" for name in documented} == SERVICE_FIGURES | WORKER_FIGURES
