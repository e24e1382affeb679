"""LiveRun: what a page says of a run while it goes on, and the events by which the page follows it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from candidates.ledger.ledger import AnyRequest, Ledger, RecordedProgress
from candidates.ledger.model_calls import ModelCalls
from candidates.ledger.run_states import Running, RunState, RunStates
from candidates.run import Stage
from candidates.spending import Amount, run_account
from candidates.time_left import expected_seconds, seconds_left
from leaderboard.http.streams import BEAT, write_event

POLL_S = 1.0
BEAT_S = 15.0
_LINES = 15


class OpSoFar(NamedTuple):
    op: str
    tried: int
    best_speedup: float | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    stages: tuple[Stage, ...]
    """That it goes through, in their order."""
    stage: Stage
    last: RecordedProgress | None
    ops: tuple[OpSoFar, ...]
    """That were searched; the last first."""
    lines: tuple[RecordedProgress, ...]
    """The last first."""
    spent: Amount
    left_s: float
    """Roughly."""

    @property
    def number(self) -> int:
        """Of the last progress; 0: there is none."""
        return 0 if self.last is None else self.last.sequence

    @property
    def words(self) -> str:
        """For who cannot see the page change."""
        op = None if self.last is None else self.last.progress.op
        return self.stage.replace("_", " ") if op is None else f"{self.stage.replace('_', ' ')}: {op}"


class News(NamedTuple):
    progress: tuple[RecordedProgress, ...]
    state: RunState
    spent: Amount


def read_news(ledger: Ledger, run_id: str, after: int) -> News | None:
    """What happened after a progress of this sequence; None: there is no such run."""
    # State first: progress that is written in between is then not lost with the end.
    run = ledger.run(run_id)
    if run is None:
        return None
    state = RunStates(ledger).of([run])[run_id]
    return News(ledger.progress_after(run_id, after), state, ModelCalls(ledger).used(run_account(run_id)))


def sum_up(
    request: AnyRequest, started_at: datetime, progress: Sequence[RecordedProgress], spent: Amount, now: datetime
) -> LiveRun:
    """`progress`: all of the run, in its order."""
    expected_s = expected_seconds(request)
    last = progress[-1] if progress else None
    stage, began_at = next(iter(expected_s)), started_at
    ops: dict[str, OpSoFar] = {}
    for recorded in progress:
        each = recorded.progress
        if each.stage is not stage:
            stage, began_at = each.stage, recorded.recorded_at
        if each.stage is Stage.SEARCH and each.op is not None:
            before = ops.pop(each.op, None)
            tried = max(each.tried, 0 if before is None else before.tried)
            best = each.best_speedup if each.best_speedup is not None or before is None else before.best_speedup
            ops[each.op] = OpSoFar(each.op, tried, best, each.message)
    return LiveRun(
        stages=tuple(expected_s),
        stage=stage,
        last=last,
        ops=tuple(reversed(ops.values())),
        lines=tuple(reversed(progress[-_LINES:])),
        spent=spent,
        left_s=seconds_left(expected_s, stage, (now - began_at).total_seconds()),
    )


async def follow_run(
    read: Callable[[int], News | None],
    describe: Callable[[Sequence[RecordedProgress], Amount], LiveRun],
    draw: Callable[[LiveRun], str],
    seen: int,
    *,
    poll_s: float = POLL_S,
    beat_s: float = BEAT_S,
) -> AsyncIterator[str]:
    """Events `progress`, the whole panel anew, numbered by the last progress in it; `said`, a few words where stage or
    op is another; and `ended` when the run no longer goes on.

    `seen`: the last progress that the client knows. Progress that comes together is one event. `read` and `draw` may
    block.
    """
    known: list[RecordedProgress] = []
    said: str | None = None
    beat_at_s = asyncio.get_running_loop().time() + beat_s
    yield "retry: 3000\n\n"
    while True:
        news = await asyncio.to_thread(read, known[-1].sequence if known else 0)
        if news is None:
            yield write_event("ended", "gone")
            return
        known += news.progress
        live = describe(known, news.spent)
        is_beat = asyncio.get_running_loop().time() >= beat_at_s
        if live.number > seen or is_beat:
            if is_beat:
                yield BEAT
                beat_at_s = asyncio.get_running_loop().time() + beat_s
            seen = max(seen, live.number)
            yield write_event("progress", await asyncio.to_thread(draw, live), live.number)
        if said not in (None, live.words):
            yield write_event("said", live.words)
        said = live.words
        if not isinstance(news.state, Running):
            yield write_event("ended", news.state.word)
            return
        await asyncio.sleep(poll_s)
