"""The parts of a message that change from round to round: shapes, speed, kernels, history, evidence; each a string.

No part tells anything of a hidden workload, or any seed. What others wrote is quoted (`quoting`).
"""

import re

from candidates.agent import Attempt
from candidates.compiler_reports import without_folders
from candidates.measurement import WorkloadMeasurement
from candidates.task import KernelTask, Workload
from candidates.verdict import Rejected
from compiler_agent.agents.llm.history import AGENT, History, share_of_floor
from compiler_agent.agents.llm.quoting import in_one_line, quote

BEST_SHOWN, LAST_SHOWN = 3, 5
_LAUNCHES_SHOWN = 4
_NOTE_CHARACTERS, _MESSAGE_CHARACTERS, _LOG_CHARACTERS, _SOURCE_CHARACTERS = 300, 1_500, 4_000, 60_000


def shapes_section(task: KernelTask) -> str:
    """Each public workload with its tensors in numbers and its share of the calls."""
    total = sum(workload.calls_per_hour for workload in task.public_workloads) or 1.0
    lines = [
        f"- {workload.name}: {workload.calls_per_hour / total:.1%} of calls; {_tensors(task, workload)}"
        for workload in task.public_workloads
    ]
    return "\n".join(["Shapes that count, in elements:", *lines])


def facts_section(facts: str) -> str:
    return quote("the device", facts) if facts.strip() else ""


def lessons_section(cards: tuple[str, ...]) -> str:
    if not cards:
        return ""
    lessons = "\n".join(in_one_line(card, _MESSAGE_CHARACTERS) for card in cards)
    return quote("lessons of earlier searches, which may not apply here", lessons)


def kernel_section(task: KernelTask, label: str, attempt: Attempt) -> str:
    """Source, speed and counters of a kernel of this task."""
    speed, counters = speed_section(task, attempt), counters_section(task, attempt)
    source = quote(f"source of {label}", attempt.proposal.candidate.source, _SOURCE_CHARACTERS)
    return "\n".join(filter(None, [_header_lines(label, attempt), speed, counters, source]))


def winner_section(attempt: Attempt) -> str:
    """A kernel of a similar task; its shapes are others, so its times say nothing here."""
    speedup = f", {attempt.speedup:.2f}x there" if attempt.speedup is not None else ""
    label = f"source of a kernel that won for a similar op{speedup}"
    return quote(label, attempt.proposal.candidate.source, _SOURCE_CHARACTERS)


def speed_section(task: KernelTask, attempt: Attempt) -> str:
    """Per public workload: time, speedup over the best that PyTorch does, floor; empty where nothing was measured."""
    if attempt.measurement is None:
        return ""
    calls = task.public_calls_per_hour
    shown = [each for each in attempt.measurement.workloads if each.workload in calls]
    total_us = sum(calls[each.workload] * each.candidate_us for each in shown) or 1.0
    lines = [
        f"- {each.workload}: {each.kernel_only_us:.2f} us, {each.speedup_over_best:.2f}x over "
        f"{each.best_baseline.value}, floor {_floor_us(each):.2f} us ({each.share_of_floor:.0%} of it reached), "
        f"{calls[each.workload] * each.candidate_us / total_us:.0%} of the time in traffic"
        for each in shown
    ]
    summary = (
        f"Measured: {attempt.speedup or 0.0:.3f}x over the traffic, {share_of_floor(task, attempt):.0%} of the floor:"
    )
    return "\n".join([summary, *lines])


def counters_section(task: KernelTask, attempt: Attempt) -> str:
    """What a GPU's hardware counted in one call, a line a launch; empty where nothing was."""
    counted = attempt.counters
    if counted is None or counted.workload not in task.public_calls_per_hour:
        return ""
    launches = counted.kernels[:_LAUNCHES_SHOWN]
    lines = [in_one_line(conceal(task, launch.as_text()), _MESSAGE_CHARACTERS) for launch in launches]
    if left_out := len(counted.kernels) - len(launches):
        lines.append(f"and {left_out} more launches")
    return quote(f"hardware counters at {counted.workload}, each launch alone and with empty caches", "\n".join(lines))


def target_section(task: KernelTask, attempt: Attempt) -> str:
    """What a tenth less would be, at the workload that takes most of the time."""
    if attempt.measurement is None:
        return ""
    heaviest = attempt.measurement.heaviest(task.public_calls_per_hour)
    if heaviest.workload not in task.public_calls_per_hour:
        return ""
    return f"Aim for at least a tenth less: below {0.9 * heaviest.kernel_only_us:.2f} us at {heaviest.workload}."


def history_section(task: KernelTask, history: History) -> str:
    """The best and the last of this agent's attempts, a line each: change, what it was made from, what it came to."""
    own = history.own
    best = [attempt for attempt in history.fastest if attempt.proposal.agent == AGENT][:BEST_SHOWN]
    shown = [(number, each) for number, each in enumerate(own, 1) if each in best or number > len(own) - LAST_SHOWN]
    if not shown:
        return ""
    lines = [f"{number}. {_what_it_changed(task, history, attempt)}" for number, attempt in shown]
    return quote(f"the best and the last of {len(own)} attempts so far", "\n".join(lines))


def evidence_section(task: KernelTask, rejected: Rejected) -> str:
    """The judge's own words."""
    evidence = rejected.evidence
    workload = _shown_workload(task, rejected)
    lines = [f"reason: {rejected.reason.value}", f"workload: {workload}"]
    lines.append(f"message: {evidence.message[:_MESSAGE_CHARACTERS]}")
    if evidence.distribution is not None:
        lines.append(f"inputs: {evidence.distribution}")
    # Where an element lies tells how large a hidden shape is.
    if evidence.worst is not None and workload != "hidden":
        worst = evidence.worst
        lines.append(
            f"worst element: {worst.output}{list(worst.index)} is {worst.got}, expected {worst.expected} "
            f"within {worst.bound}"
        )
    if evidence.share_of_elements_wrong is not None:
        lines.append(f"share of elements wrong: {evidence.share_of_elements_wrong:.2%}")
    if evidence.log_tail.strip():
        lines += ["log:", evidence.log_tail[-_LOG_CHARACTERS:]]
    return quote("what the judge says", conceal(task, "\n".join(lines)))


def conceal(task: KernelTask, text: str) -> str:
    """`text` without folders of the machine and, should a kernel have printed one, names of hidden workloads."""
    text = without_folders(text)
    for workload in task.hidden_workloads:
        text = re.sub(rf"(?<![\w,=]){re.escape(workload.name)}(?![\w,])", "hidden", text)
    return text


def _header_lines(label: str, attempt: Attempt) -> str:
    """What header lines say, or would: another agent's source may have none."""
    candidate = attempt.proposal.candidate
    launch = " ".join(f"{name}={value}" for name, value in candidate.launch_parameters.items())
    said = {
        "entry": "" if candidate.entry == "kernel" else candidate.entry,
        "prepare": candidate.prepare or "",
        "launch": launch,
        "flags": " ".join(candidate.build_flags),
    }
    lines = [f"// {key}: {in_one_line(text, _MESSAGE_CHARACTERS)}" for key, text in said.items() if text]
    return quote(f"header lines that {label} was built with", "\n".join(lines)) if lines else ""


def _what_it_changed(task: KernelTask, history: History, attempt: Attempt) -> str:
    before = history.speedup_before(attempt)
    note = in_one_line(conceal(task, attempt.proposal.note), _NOTE_CHARACTERS) or "(no word on the change)"
    return f"{note} | {'new' if before is None else f'{before:.3f}x'} -> {_what_came_of(task, attempt)}"


def _what_came_of(task: KernelTask, attempt: Attempt) -> str:
    if attempt.speedup is not None:
        return f"{attempt.speedup:.3f}x, {share_of_floor(task, attempt):.0%} of the floor"
    match attempt.verdict:
        case Rejected() as rejected:
            message = in_one_line(conceal(task, rejected.evidence.message), _NOTE_CHARACTERS)
            return f"rejected: {rejected.reason.value} ({message})"
        case other:
            return other.outcome


def _shown_workload(task: KernelTask, rejected: Rejected) -> str:
    if rejected.workload is None:
        return "none ran"
    return rejected.workload if rejected.workload in task.public_calls_per_hour else "hidden"


def _tensors(task: KernelTask, workload: Workload) -> str:
    return ", ".join(
        f"{spec.name} {list(spec.sizes(workload.axes))} ({_bytes(spec.size_bytes(workload.axes))})"
        for spec in (*task.inputs, *task.outputs)
    )


def _bytes(count: int) -> str:
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def _floor_us(measured: WorkloadMeasurement) -> float:
    return measured.kernel_only_us * measured.share_of_floor
