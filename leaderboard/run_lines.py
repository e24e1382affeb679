"""RunLine: a run as one line of the list: what it was for, how it stands, what it came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath

from candidates.exam import ExamReport, ExamRequest
from candidates.ledger.ledger import AnyReport, AnyRequest, RunEntry
from candidates.ledger.run_states import Failed, RunState, Stopped
from candidates.measurement import Interval
from candidates.run import PromoteRequest, RunReport, RunRequest, TuneReport, TuneRequest
from leaderboard.wording import count_nouns, moment


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    run: RunEntry
    state: RunState
    kind: str
    subject: str
    """What it was for: the model, the op, the language model."""
    beside: str
    """The traces, the agents, the number of tasks."""
    speedup: float | None
    interval: Interval | None
    words: str
    """What it came to beside the speedup; or why it did not."""
    spend_usd: float | None
    wall_s: float | None


def kind_of(request: AnyRequest) -> str:
    match request:
        case PromoteRequest():
            return "promote"
        case RunRequest():
            return "run"
        case TuneRequest():
            return "tune"
        case ExamRequest():
            return "exam"


def line_of(run: RunEntry, state: RunState) -> RunLine:
    subject, beside = _subject(run.request)
    speedup, interval, words = _outcome(run.report, state)
    return RunLine(
        run=run,
        state=state,
        kind=kind_of(run.request),
        subject=subject,
        beside=beside,
        speedup=speedup,
        interval=interval,
        words=words,
        spend_usd=None if run.report is None else run.report.spend_usd,
        wall_s=_wall_s(run, state),
    )


def _subject(request: AnyRequest) -> tuple[str, str]:
    match request:
        case PromoteRequest():
            return request.model, f"{count_nouns(len(request.task_ids), 'kernel')} onto {request.base_run}"
        case RunRequest():
            return request.model, ", ".join(PurePath(trace).name for trace in request.traces)
        case TuneRequest():
            return request.op, f"by {', '.join(request.agents)}"
        case ExamRequest():
            return f"{request.endpoint} ({request.model})", count_nouns(len(request.tasks), "task")


def _outcome(report: AnyReport | None, state: RunState) -> tuple[float | None, Interval | None, str]:
    match report:
        case RunReport():
            words = f"{len(report.shipped)} of {len(report.hot_ops)} ops shipped"
            if report.build is None:
                words += "; no build"
            elif not report.build.passed:
                words += "; the build did not pass its gates" if report.build.gates else "; the build was not measured"
            figures = report.end_to_end
            return (None, None, words) if figures is None else (figures.speedup, figures.speedup_interval, words)
        case TuneReport():
            words = f"{report.decision.replace('_', ' ')} after {report.tried} candidates"
            return report.speedup_over_best, report.interval, words
        case ExamReport():
            right = report.tasks_correct
            words = f"{right.count} of {right.of} tasks right"
            words += "" if report.wins is None else f", {report.wins} won"
            mean = report.speedup
            return (None, None, words) if mean is None else (mean.speedup, mean.interval, words)
        case None:
            return None, None, _why_not(state)


def _why_not(state: RunState) -> str:
    match state:
        case Failed():
            return state.message
        case Stopped():
            return f"no progress since {moment(state.since)}"
        case _:
            return ""


def _wall_s(run: RunEntry, state: RunState) -> float | None:
    """Of a run that has not ended, until what is last known of it."""
    match state:
        case Failed():
            until = state.at
        case Stopped():
            until = state.since
        case _:
            until = datetime.now(UTC)
    return run.report.wall_s if run.report is not None else max(0.0, (until - run.started_at).total_seconds())


def settings_of(request: AnyRequest) -> Sequence[tuple[str, str]]:
    """What was asked for, in words; what was not set is left out."""
    return tuple(_flat("", request.model_dump(mode="json")))


def _flat(name: str, value: object) -> Sequence[tuple[str, str]]:
    match value:
        case None | "" | []:
            return []
        case dict():
            return [
                pair for key, inner in value.items() for pair in _flat(f"{name} {key}".strip().replace("_", " "), inner)
            ]
        case [dict(), *_]:
            return [(name, str(len(value)))]
        case list():
            return [(name, ", ".join(map(str, value)))]
        case bool():
            return [(name, "yes" if value else "no")]
        case _:
            return [(name, str(value))]
