"""The op page: the best kernel where the op is tuned, whatever it is called and however much was tried for it."""

import json
import re
from html import unescape
from urllib.parse import quote

import pytest
from sqlalchemy import insert

from candidates.device import BandwidthCeiling, DeviceCeilings
from candidates.ledger.retractions import Retractions
from candidates.ledger.standing_rows import StandingRow
from candidates.measurement import Baseline
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.run import RunRequest
from candidates.task import Workload
from leaderboard.charts.roofline import Series
from leaderboard.pages.op_charts import compose_heat_map
from leaderboard.pages.op_roofline import Measured, compose_roofline
from tests.candidates.past_searches import REQUEST, attempt, double_task, measurement
from tests.leaderboard.boards import make_board, visit

TASK = double_task(rows=(4, 16), hidden_rows=(77,))
WORKLOADS = ("rows=4", "rows=16")
SCRIPT = '"><script>alert(1)</script>'
LEVELS = tuple(
    BandwidthCeiling(working_set_bytes=size, bytes_per_s=rate) for size, rate in ((32 << 10, 1e11), (64 << 20, 1e10))
)
CEILINGS = DeviceCeilings(
    device_id="cpu-0", threads=1, read=LEVELS, copy_bandwidth=LEVELS, flops_per_s={"float32": 1e11}, dispatch_us=2.0
)


@pytest.fixture
def board(tmp_path):
    board = make_board(tmp_path)
    board.ledger.open_run(REQUEST, "run-1")
    return board


def keep(board, source, speedup=2.0, task=TASK, run_id="run-1", **proposal):
    kernel = attempt(source, measurement(speedup, workloads=WORKLOADS), **proposal)
    board.ledger.put_task(task)
    board.ledger.put_candidate(kernel.proposal.candidate)
    board.ledger.put_attempt(run_id, task.id, kernel)
    return kernel.proposal.candidate.id


def promote(board, candidate_id, task=TASK):
    gate = Gate(name="confirmed", figure=2.0, bound="> 1.03", passed=True)
    board.ledger.put_promotion("run-1", PromotionDecision(task_id=task.id, candidate_id=candidate_id, gates=(gate,)))


def page_of(board, op="Double", **query):
    answer = visit(board).get(f"/ops/{quote(op, safe='')}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


def best_of(page):
    """Id of the kernel in the head of the page."""
    head = page[page.index('<section class="headline"') : page.index("</section>")]
    (candidate_id,) = re.findall(r'href="/candidates/([0-9a-f]{64})"', head)
    return candidate_id


def listed(page):
    """Ids in the table of the fastest."""
    table = page[page.index('id="fastest"') : page.index('id="task"')]
    return re.findall(r'<th scope="row" class="nowrap"><a href="/candidates/([0-9a-f]{64})"', table)


@pytest.mark.parametrize(
    "op",
    [
        "Linear[576,1536].decode",
        "a/b//c",
        "é ★",
        "100%&?#=;",
        SCRIPT,
        "x" * 256,
        "' OR 1=1 --",
        "{{ 7*7 }}",
        "a\u202eb",
        ".x",
    ],
)
def test_an_op_may_be_called_anything(board, op):
    keep(board, "kernel", task=TASK.model_copy(update={"op": op}))
    page = page_of(board, op)
    assert "<script>alert" not in page
    assert "49" not in re.findall("<h1>(.*?)</h1>", page)[0]
    assert "\u202e" not in page
    assert visit(board).get("/", params={"op": op, "state": "all"}).status_code == 200


def test_links_of_the_home_page_lead_here(board):
    candidate_id = keep(board, "kernel", task=TASK.model_copy(update={"op": "Linear[4,4].decode/x"}))
    home = visit(board).get("/", params={"state": "all"}).text
    (address,) = {unescape(each) for each in re.findall(r'href="(/ops/[^"]*)"', home)}
    assert best_of(visit(board).get(address).text) == candidate_id


def test_pages_hold_no_script_and_no_style(board):
    promote(board, keep(board, "kernel", agent=SCRIPT, task=TASK))
    page = page_of(board)
    assert not re.search(r"<style|\sstyle=|<script(?! src=)|\son[a-z]+=|javascript:", page)


def test_the_best_is_the_fastest_win_that_stands(board):
    screened, wrong, best = keep(board, "screened", 9.0), keep(board, "wrong", 8.0), keep(board, "best", 3.0)
    promote(board, wrong)
    promote(board, best)
    Retractions(board.ledger).put(Retraction(candidate_id=wrong, reason="races", by="ann"))
    page = page_of(board)
    assert best_of(page) == best
    assert listed(page) == [screened, wrong, best]
    assert f'href="/compare?a={best}&amp;b={screened}"' in page
    assert "retracted" in page


def test_without_a_win_the_fastest_correct_kernel_is_shown_as_what_it_is(board):
    candidate_id = keep(board, "screened", 1.4)
    page = page_of(board)
    assert best_of(page) == candidate_id
    assert '<span class="state screened">' in page


def test_an_op_that_was_never_measured_has_its_task_and_its_outcomes(board):
    keep(board, "wrong", is_accepted=False)
    page = page_of(board)
    assert "Nothing of this op was measured here yet." in page
    assert "rejected 1</a>" in page
    assert "return x + x" in page


def test_outcomes_lead_to_the_kernels_that_ended_so(board):
    keep(board, "one", is_accepted=False)
    keep(board, "two", is_accepted=False)
    (address,) = re.findall(r'<a class="state rejected" href="([^"]+)">rejected 2</a>', page_of(board))
    found = visit(board).get(unescape(address)).text
    assert len(set(re.findall(r"/candidates/[0-9a-f]{64}", found))) == 2


def test_hidden_workloads_are_shown_by_their_number_alone(board):
    keep(board, "kernel")
    page = page_of(board)
    assert "rows=4" in page
    assert "1 more workloads are hidden" in page
    document = visit(board).get(f"/api/v1/tasks/{TASK.id}")
    assert f'href="/api/v1/tasks/{TASK.id}"' in page
    assert [each["axes"]["rows"] for each in document.json()["task"]["workloads"]] == [4, 16]
    assert document.json()["hidden_workloads"] == 1
    for text in (page, json.dumps(document.json()).replace(TASK.id, "")):
        assert not re.search(r"\b77\b", text)
    assert visit(board).get("/api/v1/tasks/0123").status_code == 404


def test_workloads_have_the_times_of_every_baseline(board):
    keep(board, "kernel", 4.0)
    page = page_of(board)
    table = page[page.index('aria-label="Times of each workload"') :]
    row = table[table.index("rows=16") :]
    assert [cell in row[: row.index("</tr>")] for cell in ("10 µs", "2.5 µs", "4.00×", "3.96–4.04")] == [True] * 4


def test_of_many_workloads_those_with_most_traffic_are_shown(board):
    calls = [(number * 7) % 50 + 1 for number in range(50)]
    names = [f"rows={number + 1}" for number in range(50)]
    workloads = tuple(Workload(axes={"rows": number + 1}, calls_per_hour=each) for number, each in enumerate(calls))
    task = TASK.model_copy(update={"workloads": workloads})
    kernel = attempt("kernel", measurement(2.0, workloads=tuple(names)))
    board.ledger.put_task(task)
    board.ledger.put_candidate(kernel.proposal.candidate)
    board.ledger.put_attempt("run-1", task.id, kernel)
    page = page_of(board)
    by_calls = [names[calls.index(each)] for each in range(50, 10, -1)]
    for part in (page[page.index('aria-label="Times of each') :], page[page.index('aria-label="Workloads"') :]):
        assert re.findall(r'<th scope="row" class="nowrap">(rows=\d+)<', part)[:40] == by_calls
    assert "Not shown: 10 workloads with less traffic." in page
    assert "Not shown: 10 workloads called less often." in page


def test_of_several_devices_the_latest_is_shown_and_the_others_are_linked(board):
    keep(board, "here")
    there = keep(board, "there", task=double_task(rows=(4, 16), device_id="cpu-1"))
    board.ledger.open_run(RunRequest(traces=("/t",), trace_digest="1", model="other"), "run-2")
    other = keep(board, "of another model", task=double_task(rows=(4, 16), device_id="cpu-1"), run_id="run-2")
    page = page_of(board, device="cpu-1")
    assert 'href="/ops/Double?device=cpu-0"' in page
    assert best_of(page_of(board, device="cpu-1", model="m")) == there
    assert best_of(page_of(board, device="cpu-1", model="other")) == other
    assert re.search(
        r'<nav class="choices" aria-label="Model">.*aria-current="true">other<',
        page_of(board, device="cpu-1", model="other"),
        re.S,
    )


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("Triple", {}),
        ("Double", {"device": "cpu-9"}),
        ("Double", {"site": "elsewhere"}),
        ("Double", {"model": "other"}),
        ("Double", {"model": ""}),
        ("", {}),
        ("%ff", {}),
        (quote(SCRIPT, safe=""), {"device": SCRIPT}),
    ],
)
def test_what_was_never_tried_is_not_found(board, path, query):
    keep(board, "kernel")
    answer = visit(board).get(f"/ops/{path}", params=query)
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text


def test_links_stay_below_the_prefix_of_a_proxy(board):
    promote(board, keep(board, "kernel"))
    keep(board, "another")
    page = visit(board, root_path="/leaderboard").get("/leaderboard/ops/Double").text
    assert page
    assert not [each for each in re.findall(r'href="([^"]*)"', page) if not each.startswith(("/leaderboard/", "#"))]


def test_thousands_of_kernels_make_no_larger_page(board):
    promote(board, keep(board, "kernel", agent="&" * 200, note="n"))
    with board.ledger.engine.begin() as connection:
        row = dict(connection.execute(StandingRow.__table__.select()).mappings().one())
        ids = [f"{number:064x}" for number in range(5000)]
        states = ("won", "retracted", "screened", "rejected", "lost")
        connection.execute(
            insert(StandingRow),
            [
                {
                    **row,
                    "number": number + 10,
                    "candidate_id": candidate_id,
                    "state": states[number % 5],
                    "speedup": 1 + number % 97 / 50,
                    "reason": '"&' * 250,
                    "endpoint": "'" * 500,
                    "parents": ids[max(0, number - 40) : number],
                    "updated_s": row["updated_s"] + number,
                    "proposed_s": row["proposed_s"] + 1000 * number,
                }
                for number, candidate_id in enumerate(ids)
            ],
        )
    page = page_of(board)
    assert len(page.encode()) < 300_000
    assert len(listed(page)) == 50
    assert "rejected 1,000</a>" in page


def drawn(task, told, ceilings=CEILINGS, others=()):
    measured = [Measured(label="kernel", href="/candidates/0", measurement=each) for each in (told, *others)]
    return compose_roofline(task, ceilings, measured[0], measured[1:])


def telling(told, **changes):
    """The measurement with its workloads changed."""
    return told.model_copy(update={"workloads": tuple(each.model_copy(update=changes) for each in told.workloads)})


def test_matrix_products_are_drawn_as_flops_over_intensity():
    told = telling(
        measurement(2.0, workloads=WORKLOADS),
        flops=4000,
        moved_bytes=2000,
        baselines_us={Baseline.EAGER: 10.0, Baseline.COMPILE: 8.0, Baseline.CURRENT: 6.0, Baseline.FUSED: 7.0},
    )
    picture = drawn(TASK, told, others=(measurement(1.5, workloads=WORKLOADS),))
    assert picture.roofline is not None
    assert picture.roofline.x_unit == "flop/byte"
    assert [roof.label for roof in picture.roofline.roofs] == [
        "multiply-adds 100 Gflop/s",
        "L1 100 GB/s",
        "memory 10 GB/s",
    ]
    by_series = {point.series: point for point in picture.roofline.points}
    assert set(by_series) == set(Series)
    assert (by_series[Series.BEST].x, by_series[Series.BEST].y) == (2.0, pytest.approx(4000 / 4.5e-6))
    assert by_series[Series.EAGER].y == pytest.approx(4000 / 10e-6)


@pytest.mark.parametrize(("flops", "why"), [(0, "has no matrix product"), (None, "were not recorded")])
def test_ops_without_matrix_products_are_drawn_as_bandwidth(flops, why):
    picture = drawn(TASK, telling(measurement(2.0, workloads=WORKLOADS), flops=flops))
    assert picture.roofline is not None
    assert picture.roofline.y_unit == "B/s"
    moved = [TASK.moved_bytes(workload) for workload in TASK.public_workloads]
    assert {point.x for point in picture.roofline.points} == set(moved)
    assert [roof.label.split()[0] for roof in picture.roofline.roofs] == ["L1", "memory"]
    assert why in picture.sentence


def test_it_is_said_when_parameters_come_from_memory():
    told = telling(measurement(2.0, workloads=WORKLOADS), parameters_are_cold=True)
    assert "from memory at every call" in drawn(TASK, told).sentence


def test_what_a_call_moves_may_be_unknown():
    told = telling(measurement(2.0, workloads=("rows=5",)), flops=None)
    picture = drawn(TASK.model_copy(update={"workloads": TASK.hidden_workloads}), told)
    assert picture.roofline is None
    assert "share of the floor" in picture.sentence


def test_a_device_that_was_never_measured_has_no_roof():
    picture = drawn(TASK, measurement(2.0, workloads=WORKLOADS), ceilings=None)
    assert picture.roofline is not None
    assert picture.roofline.roofs == ()
    assert "no roof" in picture.sentence


def grid_task(sizes):
    workloads = tuple(Workload(axes={"rows": rows, "columns": columns}, calls_per_hour=1.0) for rows, columns in sizes)
    return TASK.model_copy(update={"axes": ("rows", "columns"), "workloads": workloads})


def mapped(sizes):
    task = grid_task(sizes)
    cells = compose_heat_map(task, measurement(2.0, workloads=tuple(each.name for each in task.workloads))).cells
    return [(cell.row, cell.column) for cell in cells]


def test_two_axes_that_vary_make_a_grid_in_the_order_of_sizes():
    assert mapped([(16, 2), (4, 8), (4, 2)]) == [
        ("rows=4", "columns=2"),
        ("rows=4", "columns=8"),
        ("rows=16", "columns=2"),
        ("rows=16", "columns=8"),
    ]


def test_one_axis_that_varies_makes_a_row():
    assert mapped([(1, 16), (1, 2)]) == [("rows=1", "columns=2"), ("rows=1", "columns=16")]


def test_a_grid_that_would_be_almost_empty_is_a_row():
    sizes = [(number, number) for number in range(1, 9)]
    assert mapped(sizes) == [("speedup", f"columns={number},rows={number}") for number in range(1, 9)]


def test_one_workload_is_one_cell():
    assert mapped([(1, 2)]) == [("speedup", "columns=2,rows=1")]
