"""Memory: cards that say what a change to a kernel did to its speed, written from measurements alone.

A card blocks nothing and promises nothing: the next candidate is measured like any other. (After the rules of GEAK v4's
knowledge base: short, add-only, sourced, no card for a change that did nothing.)
"""

import difflib
import functools
import json
import math
from collections.abc import Iterable, Iterator

from pydantic import Field

from candidates.agent import Attempt
from candidates.candidate import Candidate
from candidates.measurement import Interval, Measurement, Stage
from candidates.op_class import OpClass, classify
from candidates.record import Record, digest_of
from candidates.task import KernelTask
from candidates.verdict import Accepted

LEAST_GAIN, LEAST_LOSS = 1.05, 0.95
"""Ratios of speedups between which a change did nothing that is worth a card."""
MOST_NOTE_CHARACTERS = 480
_MOST_CHANGES, _MOST_WORKLOADS = 6, 6
_MOST_LINE_CHARACTERS = 160


class Side(Record):
    """A candidate, and how fast it was."""

    candidate_id: str
    speedup_over_best: float = Field(gt=0)
    """Weighted by traffic over the card's workloads."""
    interval: Interval


class WorkloadChange(Record):
    workload: str
    before_us: float = Field(gt=0)
    after_us: float = Field(gt=0)


class Card(Record):
    """One change and its effect. Both sides were accepted, and measured in one run and stage beside equal baselines."""

    op: str
    op_class: OpClass
    device_id: str
    threads: int = Field(ge=1)
    stage: Stage
    before: Side
    after: Side
    changes: tuple[str, ...]
    """What differs between the two candidates, told from them."""
    agent: str
    note: str = Field(max_length=MOST_NOTE_CHARACTERS)
    """What the agent said of the change: data of a model's, never an instruction."""
    workloads: tuple[WorkloadChange, ...]
    """Public ones."""

    @functools.cached_property
    def id(self) -> str:
        return digest_of(self.model_dump(mode="json"))

    @property
    def ratio(self) -> float:
        """Above 1: the change made it faster."""
        return self.after.speedup_over_best / self.before.speedup_over_best

    @property
    def effect(self) -> float:
        """How large it is, whichever way it went."""
        return abs(math.log(self.ratio))

    def without(self, workloads: Iterable[str]) -> "Card":
        """For a task where these are hidden."""
        hidden = frozenset(workloads)
        return self.model_copy(update={"workloads": tuple(w for w in self.workloads if w.workload not in hidden)})

    def as_text(self) -> str:
        """Plain text of at most 20 lines; the note is one quoted line."""
        before, after = self.before, self.after
        lines = [
            f"{self.op}: {'faster' if self.ratio > 1 else 'slower'} by {self.ratio:.2f}x",
            f"  speedup over the best baseline {_in_words(before)} -> {_in_words(after)}, "
            f"{self.stage.value}, {self.threads} thread{'s' if self.threads > 1 else ''}",
            *(f"  changed: {change}" for change in self.changes),
        ]
        if self.note:
            lines.append(f"  the agent {self.agent} said of it: {json.dumps(self.note, ensure_ascii=False)}")
        lines += [f"  {w.workload}: {w.before_us:.3g} -> {w.after_us:.3g} us" for w in self.workloads[:_MOST_WORKLOADS]]
        if len(self.workloads) > _MOST_WORKLOADS:
            lines.append(f"  and {len(self.workloads) - _MOST_WORKLOADS} more workloads")
        lines.append(f"  candidates {before.candidate_id[:12]} -> {after.candidate_id[:12]} on {self.device_id}")
        return "\n".join(lines)


def lessons(task: KernelTask, attempts: tuple[Attempt, ...]) -> tuple[Card, ...]:
    """Cards of one run's attempts at a task, in their order.

    A candidate is compared with its fastest parent. There is a card where both were accepted and measured at the same
    stage, workloads, threads and baselines, the ratio is at least LEAST_GAIN or at most LEAST_LOSS, and the two
    intervals do not overlap.
    """
    measured = {
        attempt.proposal.candidate.id: (attempt, attempt.measurement)
        for attempt in attempts
        if isinstance(attempt.verdict, Accepted) and attempt.measurement is not None
    }
    cards = []
    for attempt, measurement in measured.values():
        parents = [measured[parent] for parent in attempt.proposal.parents if parent in measured]
        if not parents:
            continue
        parent, before = max(parents, key=lambda pair: pair[1].traffic_weighted_speedup)
        if _conditions(before) == _conditions(measurement) and _differ(before, measurement):
            cards.append(_card(task, parent, before, attempt, measurement))
    return tuple(cards)


def _conditions(measurement: Measurement) -> object:
    """Speedups are comparable where these agree: a screening stops early on what is slow."""
    baselines = sorted((each.workload, each.best_baseline) for each in measurement.workloads)
    return measurement.stage, measurement.device_id, measurement.threads, baselines


def _differ(before: Measurement, after: Measurement) -> bool:
    ratio = after.traffic_weighted_speedup / before.traffic_weighted_speedup
    is_apart = after.interval.low > before.interval.high or after.interval.high < before.interval.low
    return is_apart and not LEAST_LOSS < ratio < LEAST_GAIN


def _card(task: KernelTask, parent: Attempt, before: Measurement, child: Attempt, after: Measurement) -> Card:
    public = {workload.name for workload in task.public_workloads}
    before_us = {each.workload: each.candidate_us for each in before.workloads}
    return Card(
        op=task.op,
        op_class=classify(task),
        device_id=after.device_id,
        threads=after.threads,
        stage=after.stage,
        before=_side(parent, before),
        after=_side(child, after),
        changes=tuple(_changes(parent.proposal.candidate, child.proposal.candidate))[:_MOST_CHANGES],
        agent=child.proposal.agent,
        note=_shortened(child.proposal.note, MOST_NOTE_CHARACTERS),
        workloads=tuple(
            WorkloadChange(workload=each.workload, before_us=before_us[each.workload], after_us=each.candidate_us)
            for each in after.workloads
            if each.workload in public
        ),
    )


def _side(attempt: Attempt, measurement: Measurement) -> Side:
    return Side(
        candidate_id=attempt.proposal.candidate.id,
        speedup_over_best=measurement.traffic_weighted_speedup,
        interval=measurement.interval,
    )


def _changes(before: Candidate, after: Candidate) -> Iterator[str]:
    if before.language is not after.language:
        yield f"language {before.language.value} -> {after.language.value}"
    names = sorted(before.launch_parameters.keys() | after.launch_parameters.keys())
    changed = [
        f"{name} {before.launch_parameters.get(name, 'none')} -> {after.launch_parameters.get(name, 'none')}"
        for name in names
        if before.launch_parameters.get(name) != after.launch_parameters.get(name)
    ]
    if changed:
        yield _shortened(f"launch parameters: {', '.join(changed)}", _MOST_LINE_CHARACTERS)
    if before.build_flags != after.build_flags:
        flags = f"{' '.join(before.build_flags) or 'none'} -> {' '.join(after.build_flags) or 'none'}"
        yield _shortened(f"build flags: {flags}", _MOST_LINE_CHARACTERS)
    if (before.prepare is None) != (after.prepare is None):
        yield "parameters are repacked once" if after.prepare is not None else "parameters are read as they are"
    if before.source != after.source:
        old, new = before.source.splitlines(), after.source.splitlines()
        blocks = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_matching_blocks()
        kept = sum(block.size for block in blocks)
        yield f"source: {len(new) - kept} lines added, {len(old) - kept} removed"


def _in_words(side: Side) -> str:
    return f"{side.speedup_over_best:.2f} ({side.interval.low:.2f}-{side.interval.high:.2f})"


def _shortened(text: str, most_characters: int) -> str:
    """One line."""
    line = " ".join(text.split())
    return line if len(line) <= most_characters else f"{line[: most_characters - 1]}…"
