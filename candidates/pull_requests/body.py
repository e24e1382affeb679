"""write_text: title and body of a pull request, from records alone.

Everything that others wrote (names, notes, messages of gates) goes through `hostile_text`; figures come with their
intervals and counts.
"""

import math
from collections.abc import Iterable, Iterator

from candidates.forge import PullRequestText
from candidates.measurement import Interval, WorkloadMeasurement
from candidates.promotion import Gate, PathName
from candidates.pull_requests.hostile_text import code, fence, plain_word
from candidates.pull_requests.win import Proposed, Provenance, Win
from candidates.serving_build.manifest import ShapeRange
from candidates.serving_build.runtime import KILL_SWITCH

MOST_CHARACTERS = 60_000
_MOST_ROWS = 40
_MARKER = "compiler-agent"


def write_text(proposed: Proposed, folder: str) -> PullRequestText:
    """`folder`: where the files lie in the repository."""
    wins = proposed.wins
    title = f"Faster {plain_word(proposed.op)}: {proposed.speedup:.2f}x over the best of PyTorch"
    if len(wins) > 1:
        title += f" ({len(wins)} kernels)"
    parts = [_summary(proposed, folder), _controls(), _rollback(folder), _gates(proposed), _provenance(proposed)]
    parts += [_reproduce(folder), *(_describe(win) for win in wins)]
    marker = f"<!-- {_MARKER} win={proposed.win} subject={proposed.subject} -->"
    body, left_out = parts[0], 0
    for part in parts[1:]:
        if len(body) + len(part) > MOST_CHARACTERS:
            left_out += 1
        else:
            body += f"\n\n{part}"
    if left_out:
        body += f"\n\n{left_out} more parts did not fit: see the manifest."
    return PullRequestText(title=title, body=f"{body}\n\n{marker}\n")


def _summary(proposed: Proposed, folder: str) -> str:
    lines = ["### What changes", ""]
    for win in proposed.wins[:_MOST_ROWS]:
        measured = win.measurement
        lines.append(
            f"- {code(win.task.op)} at {code(win.task.site)} gets a kernel in {win.candidate.language.value}: "
            f"**{measured.traffic_weighted_speedup:.2f}x** (interval {_interval(measured.interval)}) over the best of "
            f"PyTorch's own ways to run it, weighted by traffic, as dispatched, {measured.threads} thread(s). The op "
            f"takes {win.share_of_time:.1%} of the device's time in the replayed traffic{_classes(win)}, so this "
            f"saves about {win.share_of_time * (1 - 1 / measured.traffic_weighted_speedup):.1%} of it."
        )
    if len(proposed.wins) > _MOST_ROWS:
        lines.append(f"- {len(proposed.wins) - _MOST_ROWS} more kernels are in the manifest.")
    figures = proposed.provenance.end_to_end
    lines += [
        "",
        f"The whole model with all kernels of build {code(proposed.provenance.build_id[:12])}: "
        f"**{figures.speedup:.2f}x** (interval {_interval(figures.speedup_interval)}) of eager, decode "
        f"{figures.decode_speedup:.2f}x ({_interval(figures.decode_speedup_interval)}), prefill "
        f"{figures.prefill_speedup:.2f}x ({_interval(figures.prefill_speedup_interval)}).",
        "",
        f"Everything is in {code(folder)}: the kernel's source, its dispatch entry, a test and a manifest. Nothing "
        "else is touched. Kernels are written by programs; read the source as you would read a stranger's.",
    ]
    return "\n".join(lines)


def _describe(win: Win) -> str:
    task, measured = win.task, win.measurement
    public = {workload.name: workload for workload in task.public_workloads}
    rows = sorted(
        (each for each in measured.workloads if each.workload in public),
        key=lambda each: -public[each.workload].calls_per_hour * each.candidate_us,
    )
    lines = [
        f"### {code(task.op)}",
        "",
        "| workload | calls per hour | best of PyTorch | kernel | speedup | interval | n | of roofline |",
        "|---|--:|--:|--:|--:|---|--:|--:|",
        *(_row(each, public[each.workload].calls_per_hour) for each in rows[:_MOST_ROWS]),
    ]
    if len(rows) > _MOST_ROWS:
        lines.append(f"\n{len(rows) - _MOST_ROWS} more workloads are in the manifest.")
    lines += [
        "",
        "n: pairs of timed samples. The kernel was confirmed in fresh processes, on fresh inputs; its time includes "
        f"the serving runtime's dispatch. These workloads stand for {task.covered_share:.0%} of the op's time.",
        "",
        f"**Where it serves**: {_ranges(win.ranges)}. Every other call keeps the original code.",
    ]
    if measured.prepared_bytes:
        lines.append(
            f"\nIt repacks parameters once: {measured.prepare_us / 1000:.1f} ms and {measured.prepared_bytes:,} bytes "
            f"for all {win.task.instances} of its instances together."
        )
    if win.proposal is not None and win.proposal.note.strip():
        note = fence(win.proposal.note, "text", most=1500)
        lines += ["", "<details><summary>What its author says of it</summary>", "", note, "", "</details>"]
    return "\n".join(lines)


def _row(each: WorkloadMeasurement, calls_per_hour: float) -> str:
    best, best_us = each.best_baseline, each.baselines_us.get(each.best_baseline, math.nan)
    return (
        f"| {code(each.workload)} | {calls_per_hour:,.0f} | {best.value} {best_us:.2f} us "
        f"| {each.candidate_us:.2f} us | {each.speedup_over_best:.2f}x | {_interval(each.interval)} | {each.pairs} "
        f"| {each.share_of_floor:.0%} |"
    )


def _gates(proposed: Proposed) -> str:
    lines = ["### Gates", "", "| of | gate | figure | bound | |", "|---|---|---|---|---|"]
    for win in proposed.wins:
        lines += _gate_rows(code(win.task.op), win.decision.gates)
    lines += _gate_rows("the build", proposed.provenance.gates)
    figures = proposed.provenance.end_to_end
    lines += [
        "",
        f"Quality: KL divergence {figures.kl_divergence:.3g} nats over {figures.positions} positions, greedy agreement "
        f"{figures.greedy_agreement:.4f} over {figures.greedy_positions} positions beyond the model's own noise.",
    ]
    speeds = ", ".join(
        f"{path.value} {figures.decode_tokens_per_s[path]:.1f}"
        for path in PathName
        if path in figures.decode_tokens_per_s
    )
    if speeds:
        lines.append(f"Decode tokens per second: {speeds}.")
    lines += [f"Note: {code(note, most=300)}" for note in figures.notes]
    return "\n".join(lines)


def _gate_rows(of: str, gates: Iterable[Gate]) -> Iterator[str]:
    for gate in gates:
        figure = f"{gate.figure:.4g}" if isinstance(gate.figure, float) else code(gate.figure)
        yield f"| {of} | {code(gate.name)} | {figure} | {code(gate.bound)} | {'passed' if gate.passed else 'FAILED'} |"


def _reproduce(folder: str) -> str:
    return "\n".join(
        [
            "### Reproduce",
            "",
            f"```\npython -m pytest {folder}\n```",
            "",
            "It compiles the kernel, compares every element with PyTorch in float64, and, where pytest-benchmark is "
            "installed, times both. It needs PyTorch, numpy and pytest. The kernel runs there without a sandbox.",
        ]
    )


def _provenance(proposed: Proposed) -> str:
    of: Provenance = proposed.provenance
    lines = [
        "### Provenance",
        "",
        f"- run {code(of.run_id)}, build {code(of.build_id)}",
        f"- traffic: trace {code(of.trace_digest)}, served model {code(of.model)}",
        f"- device: {code(of.device.model)} ({of.device.kind}, {of.device.cores} cores, {code(of.device.id)})",
        "- versions: " + ", ".join(f"{name} {code(version)}" for name, version in of.versions),
    ]
    for win in proposed.wins:
        who = "unknown"
        if (proposal := win.proposal) is not None:
            model = f" with {code(proposal.model)}" if proposal.model is not None else ""
            who = f"{code(proposal.agent)}{model}, {_dollars(proposal.cost_usd)} for this kernel"
            if proposal.transcript is not None:
                who += f", transcript {code(proposal.transcript)}"
        lines.append(f"- {code(win.task.op)}: candidate {code(win.candidate.id)}, written by {who}")
    lines.append(f"- models cost the whole run {_dollars(of.spend_usd)}")
    return "\n".join(lines)


def _rollback(folder: str) -> str:
    return "\n".join(
        [
            "### Switch off",
            "",
            f"Serving: {code('compiler-agent builds rollback')}, or start with "
            f"{code(f'{KILL_SWITCH}=1')}. Repository: revert this merge, or delete {code(folder)}.",
        ]
    )


def _controls() -> str:
    return (
        "### What you decide\n\nMerging this is an approval: once all kernels of its build are merged as they are "
        "here, the build goes live. Closing it means no: this kernel is not proposed again, and another for the same "
        "op only if it is clearly faster. A commit of yours on this branch makes it yours: it is not touched any more."
    )


def _classes(win: Win) -> str:
    shares = [(name, share) for name, share in sorted(win.share_by_class.items()) if share > 0]
    return f" ({', '.join(f'{code(name)} {share:.1%}' for name, share in shares)})" if len(shares) > 1 else ""


def _ranges(ranges: tuple[ShapeRange, ...]) -> str:
    if any(not bounds for bounds in ranges):
        return "every shape"
    return " or ".join(
        " and ".join(f"{bound.low:,} ≤ {code('·'.join(bound.axes))} ≤ {bound.high:,}" for bound in bounds)
        for bounds in ranges
    )


def _interval(interval: Interval) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f}"


def _dollars(amount: float) -> str:
    return f"${amount:.2f}" if amount == 0 or amount >= 0.01 else f"${amount:.4f}"
