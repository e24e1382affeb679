"""replay_trace: a request trace through an engine model to the steps that a device would run, and how users fared."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from traces.replay.cost import StepCostModel
from traces.replay.engine import Schedule, simulate
from traces.replay.report import Distribution, ReplayReport, RequestCounts
from traces.replay.served_request import ServedRequest
from traces.replay.settings import EngineSettings
from traces.replay.step import EngineStep
from traces.replay.utilisation import Load, scale_arrivals
from traces.requests import RequestTrace, TracedRequest

MOST_BUCKETS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    report: ReplayReport
    steps: tuple[EngineStep, ...]
    """At most MOST_BUCKETS kinds of steps, the one that takes most time first."""
    coverage: float
    """Share of the device's busy time that `steps` stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScaledReplay(Load):
    schedule: Schedule
    requests: list[ServedRequest]


def replay_trace(
    trace: RequestTrace,
    cost_model: StepCostModel,
    engine_settings: EngineSettings,
    *,
    max_context_tokens: int,
    utilisation: float | None = 0.8,
    limit: int | None = None,
) -> Replay:
    """Replays the trace, its arrivals scaled so that the device is busy for `utilisation` of the span; None leaves
    them as recorded.

    Requests beyond `max_context_tokens`, the model's window, are truncated, kept and counted. `limit` replays only
    the first requests by arrival and counts the others as dropped. Same input, same result, but for `wall_s`.

    Raises ValueError when the window is larger than the engine's room for keys and values.
    """
    if max_context_tokens > engine_settings.kv_capacity_tokens:
        raise ValueError(
            f"a window of {max_context_tokens} tokens does not fit in kv_capacity_tokens "
            f"{engine_settings.kv_capacity_tokens}: raise it or lower max_context_tokens"
        )
    if max_context_tokens < 2 or (limit is not None and limit < 1):
        raise ValueError(f"nothing to replay with max_context_tokens {max_context_tokens} and limit {limit}")
    started_s = time.perf_counter()
    traced = trace.requests[:limit]
    workload_classes = sorted({request.workload_class for request in traced})

    def replay_at(arrival_scale: float) -> _ScaledReplay:
        requests = serve_requests(traced, trace.block_tokens, workload_classes, max_context_tokens, arrival_scale)
        schedule = simulate(
            requests,
            settings=engine_settings,
            cost_model=cost_model,
            block_tokens=trace.block_tokens,
            workload_classes=workload_classes,
        )
        return _ScaledReplay(
            arrival_scale=arrival_scale,
            busy_s=schedule.busy_s,
            span_s=schedule.span_s,
            arrival_span_s=requests[-1].arrival_s - requests[0].arrival_s,
            schedule=schedule,
            requests=requests,
        )

    scaled = replay_at(1.0) if utilisation is None else scale_arrivals(replay_at, utilisation)
    steps = scaled.schedule.buckets.largest(MOST_BUCKETS)
    return Replay(
        report=_report(trace, scaled, engine_settings, max_context_tokens, time.perf_counter() - started_s),
        steps=steps,
        coverage=min(1.0, sum(step.duration_s for step in steps) / scaled.busy_s),  # sums round differently
    )


def serve_requests(
    traced: Sequence[TracedRequest],
    block_tokens: int | None,
    workload_classes: Sequence[str],
    max_context_tokens: int,
    arrival_scale: float,
) -> list[ServedRequest]:
    """The requests as the engine gets them: scaled, cut to the window, with the ids of their whole blocks."""
    indices = {name: index for index, name in enumerate(workload_classes)}
    served: list[ServedRequest] = []
    for request in traced:
        prompt_tokens, output_tokens = fit_window(request.prompt_tokens, request.output_tokens, max_context_tokens)
        served.append(
            ServedRequest(
                arrival_s=request.arrival_s * arrival_scale,
                prompt_tokens=prompt_tokens,
                output_tokens=output_tokens,
                workload_class=indices[request.workload_class],
                blocks=request.prefix_blocks[: prompt_tokens // block_tokens] if block_tokens else (),
            )
        )
    return served


def fit_window(prompt_tokens: int, output_tokens: int, window_tokens: int) -> tuple[int, int]:
    """Prompt and output cut to a window: the prompt's end goes first, but never to less than half of the window."""
    if prompt_tokens + output_tokens <= window_tokens:
        return prompt_tokens, output_tokens
    kept_prompt = min(prompt_tokens, max(window_tokens - output_tokens, (window_tokens + 1) // 2))
    return kept_prompt, min(output_tokens, window_tokens - kept_prompt)


def _report(
    trace: RequestTrace, scaled: _ScaledReplay, settings: EngineSettings, max_context_tokens: int, wall_s: float
) -> ReplayReport:
    requests, schedule, span_s = scaled.requests, scaled.schedule, scaled.span_s
    ttft_s = [request.first_token_s - request.arrival_s for request in requests]
    tpot_s = [request.tpot_s for request in requests if request.tpot_s is not None]
    good_tokens = sum(
        request.output_tokens
        for request, request_ttft_s in zip(requests, ttft_s, strict=True)
        if request_ttft_s <= settings.ttft_limit_s and (request.tpot_s or 0.0) <= settings.tpot_limit_s
    )
    return ReplayReport(
        engine=settings,
        max_context_tokens=max_context_tokens,
        requests=_count_requests(trace, len(requests), max_context_tokens),
        prefix_hit_rate=sum(request.hit_tokens for request in requests)
        / sum(request.prompt_tokens for request in requests),
        has_prefix_identity=trace.block_tokens is not None,
        ttft_s=Distribution.of(ttft_s),
        tpot_s=Distribution.of(tpot_s) if tpot_s else None,
        latency_s=Distribution.of([request.finish_s - request.arrival_s for request in requests]),
        throughput_tokens_per_s=sum(request.output_tokens for request in requests) / span_s,
        goodput_tokens_per_s=good_tokens / span_s,
        preemptions=schedule.preemptions,
        steps=schedule.steps,
        distinct_steps=schedule.buckets.kinds,
        wall_s=wall_s,
        utilisation=scaled.utilisation,
        arrival_scale=scaled.arrival_scale,
        span_s=span_s,
    )


def _count_requests(trace: RequestTrace, replayed: int, max_context_tokens: int) -> RequestCounts:
    dropped = dict(trace.counts.dropped)
    if beyond := len(trace.requests) - replayed:
        dropped["beyond_limit"] = beyond
    truncated = sum(
        request.prompt_tokens + request.output_tokens > max_context_tokens for request in trace.requests[:replayed]
    )
    return RequestCounts(read=trace.counts.read, kept=replayed, dropped=dropped, truncated=truncated)
