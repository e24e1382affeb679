"""Tables that commands print on standard output."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from candidates.run import OpDecision, OpReport, RunReport, TuneReport

_STYLES = {
    OpDecision.SHIPPED: "bold green",
    OpDecision.WON_NOT_SHIPPED: "yellow",
    OpDecision.LOST: "red",
    OpDecision.REJECTED: "red",
}


def print_run_report(report: RunReport, console: Console) -> None:
    """Op, share of traffic time, best baseline, speedup with interval, share of floor, decision; then the whole model,
    what leaves of the live build, and the build."""
    table = Table(title=f"{report.run_id}: hot ops", title_justify="left", header_style="bold")
    for column, justify in (
        ("op", "left"),
        ("level", "left"),
        ("share of time", "right"),
        ("by class", "left"),
        ("best baseline", "left"),
        ("speedup", "right"),
        ("interval", "left"),
        ("of floor", "right"),
        ("decision", "left"),
    ):
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for op in report.hot_ops:
        table.add_row(*_cells(op))
    console.print(table)
    console.print(f"coverage: {report.coverage:.1%} of device time has a known op and shape", highlight=False)
    for pair, correlation in report.rank_correlation.items():
        console.print(f"rank correlation {pair}: {correlation:.2f}", highlight=False)
    if report.end_to_end is not None:
        _print_end_to_end(report, console)
    for kernel in () if report.live is None else report.live.kernels:
        if not kernel.stays:
            console.print(
                f"  live {kernel.op} {kernel.candidate_id[:12]} is {kernel.outcome}: {kernel.reason}",
                highlight=False,
                markup=False,
            )
    if report.build is not None:
        build = report.build
        for gate in build.gates:
            figure = f"{gate.figure:.4g}" if isinstance(gate.figure, float) else gate.figure
            console.print(
                f"  {'pass' if gate.passed else 'FAIL'}  {gate.name}: {figure} ({gate.bound})", highlight=False
            )
        state = "live" if build.live else "waits for approval: compiler-agent builds approve " + build.id[:12]
        console.print(f"build {build.id[:12]} with {build.kernels} kernels at {build.path}: {state}", highlight=False)
    _print_spend(report, console)


def print_tune_report(report: TuneReport, console: Console) -> None:
    """Candidate, speedup with interval, share of floor; how the search ended and why; what it cost."""
    style = "bold green" if report.decision == "won" else "yellow"
    reason = "" if report.reason == report.stop_reason else f" ({escape(report.reason)})"
    console.print(
        f"{escape(report.op)}: [{style}]{report.decision}[/] after {report.tried} candidates{reason}",
        highlight=False,
    )
    if report.candidate is not None:
        console.print(f"candidate {report.candidate}", highlight=False)
    if report.speedup_over_best is not None and report.interval is not None:
        console.print(
            f"{report.speedup_over_best:.2f}x of the best baseline "
            f"({report.interval.low:.2f}-{report.interval.high:.2f}), weighted by traffic",
            highlight=False,
        )
    if report.best_baseline is not None and report.share_of_floor is not None:
        console.print(
            f"{report.share_of_floor:.0%} of floor; heaviest workload: best baseline {report.best_baseline.value}",
            highlight=False,
        )
    console.print(f"stopped: {report.stop_reason}", highlight=False, markup=False)
    _print_spend(report, console)


def _print_spend(report: RunReport | TuneReport, console: Console) -> None:
    tokens = f" ({report.spend_tokens} tokens)" if report.spend_tokens else ""
    console.print(f"took {report.wall_s:.0f} s, models cost ${report.spend_usd:.2f}{tokens}", highlight=False)
    for stop in report.budget_stops:
        console.print(f"  budget: {stop}", highlight=False, markup=False)


def _cells(op: OpReport) -> tuple[str, ...]:
    style = _STYLES.get(op.decision, "dim")
    reason = f" ({escape(op.reason)})" if op.reason and op.decision is not OpDecision.SHIPPED else ""
    return (
        op.op,
        op.level.value,
        f"{op.share_of_time:.1%}",
        " ".join(f"{name} {share:.1%}" for name, share in sorted(op.share_by_class.items())),
        op.best_baseline.value if op.best_baseline is not None else "",
        f"{op.speedup_over_best:.2f}x" if op.speedup_over_best is not None else "",
        f"{op.interval.low:.2f}-{op.interval.high:.2f}" if op.interval is not None else "",
        f"{op.share_of_floor:.0%}" if op.share_of_floor is not None else "",
        f"[{style}]{op.decision.value}[/]{reason}",
    )


def _print_end_to_end(report: RunReport, console: Console) -> None:
    figures = report.end_to_end
    assert figures is not None
    table = Table(title=f"end to end, {figures.threads} threads", title_justify="left", header_style="bold")
    table.add_column("path")
    for column in ("decode tokens/s", "prefill tokens/s", "time to first token s"):
        table.add_column(column, justify="right")
    for path, decode in figures.decode_tokens_per_s.items():
        table.add_row(
            path.value,
            f"{decode:.1f}",
            f"{figures.prefill_tokens_per_s[path]:.1f}" if path in figures.prefill_tokens_per_s else "",
            f"{figures.ttft_s[path]:.3f}" if path in figures.ttft_s else "",
        )
    console.print(table)
    low, high = figures.decode_speedup_interval
    console.print(
        f"decode {figures.decode_speedup:.2f}x of eager ({low:.2f}-{high:.2f}), KL {figures.kl_divergence:.1e} over "
        f"{figures.positions} positions, greedy agreement {figures.greedy_agreement:.2%} of {figures.greedy_positions}",
        highlight=False,
    )
    if figures.over_current is not None:
        low, high = figures.over_current
        console.print(f"{low:.2f}-{high:.2f}x of the live build {(figures.current_build or '')[:12]}", highlight=False)
