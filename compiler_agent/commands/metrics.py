"""`compiler-agent metrics`: what Prometheus reads of the service as a whole."""

import ipaddress
import logging
import signal
from socketserver import StreamRequestHandler

from compiler_agent import readiness
from compiler_agent.log_lines import configure_logs
from compiler_agent.metrics_settings import Address, read_metrics_settings
from compiler_agent.ordinary_user import require_ordinary_user
from compiler_agent.outcome import ExitCode, UserFault
from compiler_agent.settings import read_settings

_USUAL = Address("127.0.0.1", 9464)
_MOST_WAITING = 128
_PATIENCE_S = 15.0
"""For a scraper to say what it wants, and to take it."""


def metrics() -> ExitCode:
    """Serves /metrics until TERM or Ctrl-C: queues, workers, runs, candidates, model spend, disk.

    At COMPILER_AGENT_METRICS (metrics.address), 127.0.0.1:9464 where that is not set.

    Example: compiler-agent metrics
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from compiler_agent.service_metrics import ServiceMetrics
    except ModuleNotFoundError as error:
        raise UserFault(f"metrics need {error.name}: pip install 'compiler-agent[telemetry]'") from error
    settings, address = read_settings(), read_metrics_settings().service or _USUAL
    if not ipaddress.ip_address(address.host).is_loopback:
        require_ordinary_user(settings, f"metrics that others reach ({address})")
    configure_logs()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceMetrics(settings))
    try:
        server, _ = start_http_server(address.port, addr=address.host, registry=registry)
    except OSError as error:
        raise UserFault(f"cannot listen at {address} ({error.strerror}): set COMPILER_AGENT_METRICS") from error
    # Each scraper has a thread: one that says nothing more would keep it for ever. More than five may come at once.
    handler = server.RequestHandlerClass
    assert isinstance(handler, type)
    assert issubclass(handler, StreamRequestHandler)
    handler.timeout = _PATIENCE_S
    server.socket.listen(_MOST_WAITING)
    logging.getLogger(__name__).info("metrics at http://%s/metrics", address)
    readiness.tell(is_ready=True)
    try:
        signal.pause()
    finally:
        server.shutdown()
    return ExitCode.DONE
