"""What `up` refuses before it starts anything."""

import socket
import sys
from dataclasses import replace

import pytest

from compiler_agent.board_settings import read_board_settings
from compiler_agent.local_service import serve_locally
from compiler_agent.metrics_settings import Address, MetricsSettings
from compiler_agent.outcome import UserFault, progress_console
from compiler_agent.settings import read_settings
from compiler_agent.temporal_server import free_port

NO_METRICS = MetricsSettings(service=None, worker=None)


def refusal(home, metrics):
    settings = read_settings({"COMPILER_AGENT_HOME": str(home)})
    with pytest.raises(UserFault) as refused:
        serve_locally(settings, replace(read_board_settings(home, {}), port=0), metrics, progress_console)
    assert not settings.logs.exists()  # nothing was started
    return str(refused.value)


def test_a_package_that_is_missing_is_named_with_what_brings_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refusal(tmp_path, NO_METRICS) == ("the leaderboard needs uvicorn: pip install 'compiler-agent[leaderboard]'")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    asked = replace(NO_METRICS, service=Address("127.0.0.1", free_port()))
    assert "pip install 'compiler-agent[leaderboard,telemetry]'" in refusal(tmp_path, asked)


def test_a_port_of_metrics_that_is_taken_is_named_with_its_setting(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        service = refusal(tmp_path, replace(NO_METRICS, service=Address("127.0.0.1", port)))
        worker = refusal(tmp_path, replace(NO_METRICS, worker=Address("127.0.0.1", port - 1)))
    assert service.startswith(f"the metrics cannot listen at 127.0.0.1:{port} (Address already in use")
    assert service.endswith("set COMPILER_AGENT_METRICS")
    assert f"the metrics of worker author cannot listen at 127.0.0.1:{port}" in worker
    assert worker.endswith("set COMPILER_AGENT_WORKER_METRICS")
