"""write_digest: a night in Markdown, for people who read it in the morning. From records alone.

Everything that others wrote (names, paths, reasons) goes through `hostile_text`; figures come with their intervals.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from candidates.measurement import Interval
from candidates.nightly import Night, NightFailed, NightRan, NightSkipped
from candidates.printable import printable
from candidates.promotion import EndToEnd
from candidates.pull_requests.hostile_text import code, plain_word
from candidates.run import OpDecision, OpReport, RunReport
from candidates.savings import savings_of
from traces.sources.traffic import SeenFile

MOST_CHARACTERS = 30_000
"""Receivers of messages cut or refuse longer ones."""
_MOST_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestFacts:
    night: Night
    report: RunReport | None
    """None: there was no run, or it did not come to its end."""
    failure: str | None
    spend_usd: float
    """What models cost, also where there is no report."""
    without_run: Sequence[Night]
    """Nights since the last one with a run, the newest first."""
    page: str | None
    """Address of the run on the leaderboard."""
    usd_per_device_hour: float | None


def write_digest(facts: DigestFacts) -> str:
    parts = [_summary(facts), _traffic(facts.night)]
    if facts.report is not None:
        parts += [_ops(facts.report), _build(facts.report), _cost(facts.report, facts.usd_per_device_hour)]
    parts.append(_without_run(facts.without_run))
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n\n… cut here"


def _summary(facts: DigestFacts) -> str:
    night, schedule = facts.night, facts.night.schedule
    source = printable(schedule.source).replace("`", "'")  # not divided by blanks: people copy it
    lines = [
        f"# {plain_word(schedule.name)}, {night.began_at:%Y-%m-%d %H:%M} UTC: {_outcome(facts)}",
        "",
        f"Model {code(schedule.template.model)} on {code(schedule.device)}, traffic of `{source}`, night "
        f"{code(night.id)}." + (f" Details: {facts.page}" if facts.page is not None else ""),
    ]
    if facts.failure is not None:
        lines += ["", f"**It failed**: {code(facts.failure, most=500)}. Its traffic is new to the next night."]
        if facts.spend_usd:
            lines.append(f"Models cost ${facts.spend_usd:.2f} until then.")
    return "\n".join(lines)


def _outcome(facts: DigestFacts) -> str:
    match facts.night.outcome:
        case NightSkipped():
            return "skipped"
        case NightFailed():
            return "failed"
        case NightRan():
            if facts.report is None:
                return "failed"
            shipped, build = len(facts.report.shipped), facts.report.build
            if not shipped:
                return "nothing shipped"
            state = "live" if build is not None and build.live else "not live yet"
            return f"{shipped} kernel{'s' if shipped > 1 else ''} shipped, {state}"


def _traffic(night: Night) -> str:
    traffic = night.traffic
    new = [file for file in traffic.files if file.rows]
    lines = ["## Traffic", ""]
    if isinstance(night.outcome, NightSkipped):
        lines += [f"No run: {code(night.outcome.reason, most=500)}.", ""]
    lines.append(
        f"{traffic.requests} new requests in {len(new)} of {len(traffic.files) + traffic.unchanged} files; "
        f"{sum(sum(file.dropped.values()) for file in new)} rows were dropped."
        + (f" {traffic.too_old} files were last written too long ago." if traffic.too_old else "")
    )
    if new:
        lines += ["", "| file | new rows | requests | arrivals, s on its clock | dropped |", "|---|--:|--:|---|---|"]
        lines += [_file_row(file) for file in new[:_MOST_ROWS]]
    if len(new) > _MOST_ROWS:
        lines += ["", f"{len(new) - _MOST_ROWS} more files are in the ledger."]
    if traffic.left_out:
        lines += ["", "Not read, and tried again the next night:", ""]
        lines += [f"- {code(left.name)}: {code(left.reason, most=300)}" for left in traffic.left_out[:_MOST_ROWS]]
    return "\n".join(lines)


def _file_row(file: SeenFile) -> str:
    rows = f"{file.rows_before + 1}-{file.rows_before + file.rows}"
    span = "" if file.earliest_s is None else f"{file.earliest_s:.0f}-{file.latest_s:.0f}"
    dropped = ", ".join(f"{reason} {count}" for reason, count in sorted(file.dropped.items()))
    return f"| {code(file.name)} | {rows} | {file.requests} | {span} | {code(dropped) if dropped else ''} |"


def _ops(report: RunReport) -> str:
    lines = [
        "## Hot ops",
        "",
        f"Ops and shapes that are known cover {report.coverage:.1%} of the device's time.",
        "",
        "| op | share of time | speedup | interval | decision | why |",
        "|---|--:|--:|---|---|---|",
        *(_op_row(op) for op in report.hot_ops[:_MOST_ROWS]),
    ]
    if len(report.hot_ops) > _MOST_ROWS:
        lines += ["", f"{len(report.hot_ops) - _MOST_ROWS} more ops are in the report."]
    return "\n".join(lines)


def _op_row(op: OpReport) -> str:
    speedup = "" if op.speedup_over_best is None else f"{op.speedup_over_best:.2f}x"
    interval = "" if op.interval is None else _interval(op.interval)
    why = "" if op.decision is OpDecision.SHIPPED or not op.reason else code(op.reason, most=200)
    return (
        f"| {code(op.op)} | {op.share_of_time:.1%} | {speedup} | {interval} "
        f"| {op.decision.value.replace('_', ' ')} | {why} |"
    )


def _build(report: RunReport) -> str:
    build = report.build
    lines = ["## Build", ""]
    if build is None:
        lines.append("There is none: nothing won.")
    else:
        state = "live" if build.live else f"waits for `compiler-agent builds approve {build.id[:12]}`"
        passed = "passed every gate" if build.passed else f"did not pass: {_failed_gates(report)}"
        lines.append(f"{code(build.id[:12])} with {build.kernels} kernels {passed}.")
        if build.passed:
            lines.append(f"It is {state}." if build.live else f"It {state}.")
    if report.end_to_end is not None:
        lines += ["", *_end_to_end(report.end_to_end)]
    leaving = [] if report.live is None else [kernel for kernel in report.live.kernels if not kernel.stays]
    if leaving:
        lines += ["", "Of the build that was live:", ""]
        lines += [
            f"- {code(kernel.op)} {code(kernel.candidate_id[:12])} is {kernel.outcome}: {code(kernel.reason)}"
            for kernel in leaving[:_MOST_ROWS]
        ]
    return "\n".join(lines)


def _failed_gates(report: RunReport) -> str:
    gates = () if report.build is None else report.build.gates
    failed = ", ".join(f"{gate.name}: {gate.figure} ({gate.bound})" for gate in gates if not gate.passed)
    return code(failed or "it was not measured", most=500)


def _end_to_end(figures: EndToEnd) -> Iterator[str]:
    yield "| path | decode tokens/s | prefill tokens/s | time to first token, s |"
    yield "|---|--:|--:|--:|"
    for path, decode in figures.decode_tokens_per_s.items():
        prefill, ttft = figures.prefill_tokens_per_s.get(path), figures.ttft_s.get(path)
        yield (
            f"| {path.value} | {decode:.1f} | {'' if prefill is None else f'{prefill:.1f}'} "
            f"| {'' if ttft is None else f'{ttft:.3f}'} |"
        )
    yield ""
    yield (
        f"{figures.speedup:.2f}x of eager over the traffic ({_interval(figures.speedup_interval)}); KL divergence "
        f"{figures.kl_divergence:.1e}, greedy agreement {figures.greedy_agreement:.2%}."
    )


def _cost(report: RunReport, usd_per_device_hour: float | None) -> str:
    lines = ["## Savings and cost", ""]
    savings = savings_of(report)
    if savings is None:
        lines.append("Nothing is saved: no build passed its gates.")
    else:
        dollars = "" if usd_per_device_hour is None else f", ${savings.usd(usd_per_device_hour):.2f}"
        lines.append(
            f"At this traffic the build saves {savings.saved_hours:.1f} device-hours a day "
            f"({_interval(savings.interval)}) of {savings.busy_hours:.1f}{dollars}."
        )
    tokens = f" for {report.spend_tokens} tokens" if report.spend_tokens else ""
    lines.append(f"Models cost ${report.spend_usd:.2f}{tokens}; the run took {report.wall_s / 60:.0f} minutes.")
    lines += [f"- a budget refused a call: {code(str(stop), most=300)}" for stop in report.budget_stops]
    return "\n".join(lines)


def _without_run(nights: Sequence[Night]) -> str:
    if not nights:
        return ""
    lines = ["## Nights without a run before this one", ""]
    for night in nights[:_MOST_ROWS]:
        assert not isinstance(night.outcome, NightRan)
        lines.append(f"- {night.began_at:%Y-%m-%d %H:%M} {night.outcome.kind}: {code(night.outcome.reason, most=300)}")
    return "\n".join(lines)


def _interval(interval: Interval) -> str:
    return f"{interval.low:.2f}-{interval.high:.2f}"
