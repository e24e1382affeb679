"""What a worker process tells of itself: metrics to Prometheus, spans to an OpenTelemetry collector.

Spans need no setting of ours: `OTEL_EXPORTER_OTLP_ENDPOINT` and its kin are read by OpenTelemetry itself.
"""

import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from temporalio.client import Interceptor
from temporalio.runtime import PrometheusConfig

from compiler_agent.metrics_settings import read_metrics_settings
from compiler_agent.outcome import UserFault

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_COLLECTORS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def metrics_config(environment: Mapping[str, str] = os.environ) -> PrometheusConfig | None:
    """Of the SDK: its figures and those of `workflows.activities.telemetry`. Raises UserFault."""
    address = read_metrics_settings(environment).worker
    if address is None:
        return None
    return PrometheusConfig(
        bind_address=str(address), counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True
    )


def tracing(environment: Mapping[str, str] = os.environ) -> Sequence[Interceptor]:
    """For the client of a process: its workers trace too. Empty where no collector is named. Raises UserFault where
    OpenTelemetry is not installed."""
    if not any(environment.get(name) for name in _COLLECTORS):
        return ()
    try:
        from temporalio.contrib.opentelemetry import TracingInterceptor

        tracer = _provider().get_tracer("compiler_agent")
        # Also of what a schedule began, where no client has a span.
        return (TracingInterceptor(tracer, always_create_workflow_spans=True),)
    except ImportError as error:
        raise UserFault(f"traces need {error.name}: pip install 'compiler-agent[telemetry]'") from error


def flush_spans() -> None:
    """Sends what was not sent yet; the process is about to end."""
    if _provider.cache_info().currsize:
        _provider().shutdown()


@functools.cache
def _provider() -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before our name.
    named = Resource.create({"service.name": "compiler-agent"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
