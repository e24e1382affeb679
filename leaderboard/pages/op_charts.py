"""Charts of the op page from records: speedups by workload, the best over time, and where kernels came from."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from candidates.ledger.op_standings import PastWin
from candidates.measurement import Measurement
from candidates.standing import Standing, State
from candidates.task import KernelTask
from leaderboard import wording
from leaderboard.charts import lineage
from leaderboard.charts.heat_map import HeatCell, HeatMap
from leaderboard.charts.history import Event, History, HistoryPoint
from leaderboard.charts.lineage import Lineage, Node

MOST_CELLS = 120
_MOST_CELLS_OVER_WORKLOADS = 4
"""A grid that would be emptier is one row."""

_MOST_KIN_DRAWN = 28
_LETTERS_OF_AGENT = 6

_NODE_STATES = {
    State.LIVE: lineage.State.PROMOTED,
    State.SHADOW: lineage.State.PROMOTED,
    State.SHIPPED: lineage.State.PROMOTED,
    State.WON: lineage.State.PROMOTED,
    State.RETRACTED: lineage.State.RETRACTED,
    State.REJECTED: lineage.State.REJECTED,
    State.WAITING: lineage.State.WAITING,
}
"""Any other was judged correct and did not win."""

_CORRECT = (State.SCREENED, State.LOST, State.UNDECIDED)


def compose_heat_map(task: KernelTask, measured: Measurement) -> HeatMap:
    """A grid where exactly two axes vary among the workloads; otherwise one row, by the one that does or by name."""
    axes = {workload.name: workload.axes for workload in task.public_workloads}
    speedups = {told.workload: told.speedup_over_best for told in measured.workloads[:MOST_CELLS]}
    known = [axes[name] for name in speedups if name in axes]
    varying = [axis for axis in task.axes if len({sizes[axis] for sizes in known}) > 1]
    sizes_of = {axis: sorted({sizes[axis] for sizes in known}) for axis in varying}
    is_grid = len(varying) in (1, 2) and len(known) == len(speedups)
    if not is_grid or math.prod(map(len, sizes_of.values())) > _MOST_CELLS_OVER_WORKLOADS * len(known):
        cells = tuple(HeatCell(row="speedup", column=name, speedup=speedup) for name, speedup in speedups.items())
        return HeatMap(title="Speedup of the best kernel by workload", row_noun="row", cells=cells)
    by_sizes = {tuple(axes[name][axis] for axis in varying): speedup for name, speedup in speedups.items()}
    fixed = ", ".join(f"{axis}={size}" for axis, size in known[0].items() if axis not in varying) or "speedup"
    *rows, column = varying
    return HeatMap(
        title=f"Speedup of the best kernel by {' and '.join(varying)}",
        row_noun=rows[0] if rows else "row",
        column_noun=column,
        cells=tuple(
            HeatCell(
                row=f"{rows[0]}={sizes[0]}" if rows else fixed,
                column=f"{column}={sizes[-1]}",
                speedup=by_sizes.get(sizes),
            )
            for sizes in itertools.product(*sizes_of.values())
        ),
    )


def compose_history(wins: Iterable[PastWin], others: Iterable[Standing]) -> History:
    """Each kernel at the time at which it was first judged, with what was measured of it last."""
    points = [
        HistoryPoint(
            at=win.proposed_at,
            run=win.run_id or wording.short(win.candidate_id),
            speedup=win.speedup or None,
            low=win.interval.low,
            high=win.interval.high,
            event=Event.RETRACTED if win.state is State.RETRACTED else Event.PROMOTED,
        )
        for win in wins
    ]
    points += [
        HistoryPoint(
            at=each.proposed_at,
            run=each.run_id or wording.short(each.candidate_id),
            speedup=each.speedup,
            low=None if each.interval is None else each.interval.low,
            high=None if each.interval is None else each.interval.high,
        )
        for each in others
        if each.state in _CORRECT
    ]
    return History(title="The best kernel over time", points=tuple(points))


def compose_lineage(best: Standing | None, kin: Sequence[Standing], hrefs: Mapping[str, str]) -> Lineage:
    """`kin` with the best; a candidate may be among them more than once. `hrefs` by candidate id."""
    nodes = tuple(
        Node(
            id=each.candidate_id,
            label=f"{each.agent[:_LETTERS_OF_AGENT]} {each.candidate_id[:8]}",
            state=_NODE_STATES.get(each.state, lineage.State.ACCEPTED),
            speedup=each.speedup,
            href=hrefs[each.candidate_id],
            parents=each.parents,
        )
        for each in kin
    )
    return Lineage(
        title="Where kernels came from",
        nodes=nodes,
        highlighted=None if best is None else best.candidate_id,
        most_drawn=_MOST_KIN_DRAWN,
    )
