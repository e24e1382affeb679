"""What workers tell while a run goes on: log lines, figures for Prometheus, spans for a collector."""

import asyncio
import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.null_device.request import make_null_request, make_null_tasks
from benchmarks.null_device.services import QUEUES
from benchmarks.null_device.stack import start_null_run, worker_command
from candidates.ledger.ledger import Ledger
from compiler_agent.child_processes import start_child, stop_children
from compiler_agent.settings import read_settings
from compiler_agent.temporal_server import free_port
from compiler_agent.worker import connect
from compiler_agent.worker_programs import worker_environment
from tests.compiler_agent.figures import WORKER_FIGURES

CANDIDATES = 4


class Collector(BaseHTTPRequestHandler):
    """Takes spans as an OpenTelemetry collector does, over HTTP."""

    spans: ClassVar[set[str]] = set()
    services: ClassVar[set[str]] = set()

    def do_POST(self):
        asked = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in asked.resource_spans:
            self.services.update(
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            )
            for scope in resource.scope_spans:
                self.spans.update(span.name for span in scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def figures_at(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()


@pytest.mark.slow
def test_a_run_is_seen_in_logs_figures_and_spans(server_address, tmp_path, collector):
    settings = read_settings({"COMPILER_AGENT_HOME": str(tmp_path)})
    ledger, request = Ledger(settings.ledger_url), make_null_request(1, hot_ops=1, candidates_per_op=CANDIDATES)
    port = free_port()
    environment = worker_environment(settings, server_address) | {
        "COMPILER_AGENT_LOG_FORMAT": "json",
        "COMPILER_AGENT_WORKER_METRICS": f"127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
    }

    async def run():
        client = await connect(server_address, "default")
        await (await start_null_run(client, ledger, request, "run-told")).result()

    command = worker_command(QUEUES, ["--generation=2", "--source-bytes=500"])
    worker = start_child(command, settings.logs / "worker.log", environment)
    try:
        asyncio.run(run())
        figures = figures_at(port)
    finally:
        stop_children([worker], patience_s=15.0)
    told = [sample for family in text_string_to_metric_families(figures) for sample in family.samples]
    assert {sample.name for sample in told} >= WORKER_FIGURES
    assert sum(sample.value for sample in told if sample.name == "compiler_agent_candidates_total") == CANDIDATES
    ends = {
        (sample.labels["activity_type"], sample.labels["end"]): sample.value
        for sample in told
        if sample.name == "compiler_agent_activity_ends_total"
    }
    assert ends["evaluate_generation", "done"] == CANDIDATES / 2
    lines = [json.loads(line) for line in (settings.logs / "worker.log").read_text().splitlines()]
    judged = [line for line in lines if line["message"].startswith("judged: ")]
    assert {line["candidate_id"] for line in judged} == {
        each.proposal.candidate.id for task in make_null_tasks(request) for each in ledger.attempts("run-told", task.id)
    }
    assert {(line["run_id"], line["activity"]) for line in judged} == {("run-told", "evaluate_generation")}
    assert {"RunWorkflow:TuningRun", "RunActivity:evaluate_generation"} <= Collector.spans
    assert Collector.services == {"compiler-agent"}
