"""Tables of exams: endpoints side by side, then each one's tasks."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from candidates.exam import ExamReport, Share, TaskResult
from candidates.printable import printable


def print_exams(reports: Sequence[ExamReport], console: Console) -> None:
    """The endpoint with most right tasks first, of equal ones the one with the higher speedup."""
    ordered = sorted(reports, key=lambda r: (-r.tasks_correct.count, -(r.speedup.speedup if r.speedup else 0.0)))
    table = Table(header_style="bold")
    for column in ("endpoint", "tasks right", "samples right", *_fast_columns(ordered), "speedup", "wins", "$ per win",
                   "$", "tokens", "model s"):  # fmt: skip
        table.add_column(column, overflow="fold")
    for report in ordered:
        table.add_row(
            f"{report.endpoint} ({report.model})",
            _share(report.tasks_correct),
            _share(report.samples_accepted),
            *(f"{fast.share.count}/{fast.share.of}" for fast in report.fast_p),
            _speedup(report),
            "not raced" if report.wins is None else str(report.wins),
            _usd(report.usd_per_win),
            _usd(report.spend_usd),
            str(report.spend_tokens),
            f"{report.model_s:.0f}",
        )
    console.print(table)
    console.print(
        "right: accepted by the judge, 95 % Wilson intervals. > p: tasks whose best kernel is faster than p times the "
        "best baseline.\nspeedup: geometric mean over tasks with a right kernel, 95 % bootstrap interval over tasks.",
        highlight=False,
    )
    for report in ordered:
        _print_tasks(report, console)


def _print_tasks(report: ExamReport, console: Console) -> None:
    stopped = ", ".join(f"{reason} {count}" for reason, count in sorted(report.stop_reasons.items()))
    console.print(f"\n{report.endpoint} ({report.run_id}, took {report.wall_s:.0f} s), stopped by: {stopped}",
                  highlight=False, markup=False)  # fmt: skip
    table = Table("task", "samples", "judged", "right", "speedup", "figure of", "decision", "$", "tokens", box=None,
                  header_style="bold")  # fmt: skip
    for task in report.tasks:
        table.add_row(
            task.op,
            *map(str, (task.samples, task.judged, task.accepted)),
            _task_speedup(task),
            task.stage.value if task.stage is not None else "",
            task.decision,
            _usd(task.spend_usd),
            str(task.spend_tokens),
        )
    console.print(table)
    for task in report.tasks:
        if task.decision != "won":
            console.print(printable(f"  {task.op}: {task.reason}"), highlight=False, markup=False, soft_wrap=True)
    for stop in report.budget_stops:
        console.print(f"  budget: {stop}", highlight=False, markup=False)


def _fast_columns(reports: Sequence[ExamReport]) -> list[str]:
    return [f"> {fast.p:g}" for fast in reports[0].fast_p] if reports else []


def _share(share: Share) -> str:
    return f"{share.count}/{share.of} ({share.interval.low:.0%}-{share.interval.high:.0%})"


def _speedup(report: ExamReport) -> str:
    mean = report.speedup
    if mean is None:
        return ""
    stages = "+".join(sorted(stage.value for stage in report.stages))
    return f"{mean.speedup:.2f}x ({mean.interval.low:.2f}-{mean.interval.high:.2f}), {mean.tasks} tasks, {stages}"


def _task_speedup(task: TaskResult) -> str:
    if task.speedup_over_best is None or task.interval is None:
        return ""
    return f"{task.speedup_over_best:.2f}x ({task.interval.low:.2f}-{task.interval.high:.2f})"


def _usd(usd: float | None) -> str:
    return "" if usd is None else f"{usd:.3f}"
