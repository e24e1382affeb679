"""The page of a candidate: right, fast, sure, against what, and how to do it again."""

import re
from html.parser import HTMLParser

import pytest

from candidates.compiler_report import CompilerReport, Remark
from candidates.ledger.reports import RecordedReports
from candidates.ledger.retractions import Retractions
from candidates.measurement import Stage
from candidates.promotion import Retraction
from tests.candidates.past_searches import double_task
from tests.leaderboard.boards import make_board, visit
from tests.leaderboard.known_kernels import (
    COUNTED,
    HOSTILE,
    INTERPRETED,
    LANGUAGES,
    NAME,
    RIGHT,
    TASK,
    WAITS,
    KnownKernels,
    measure,
    wrong,
)

MOST_BYTES = 300_000


@pytest.fixture
def board(tmp_path):
    return make_board(tmp_path)


@pytest.fixture
def kernels(board):
    return KnownKernels(board)


def page_of(board, candidate, **query):
    """Checks what holds of every page."""
    answer = visit(board).get(f"/candidates/{candidate.id}", params=query)
    assert answer.status_code == 200
    assert_harmless(answer)
    return answer.text


class Elements(HTMLParser):
    """Of a page: every element with its attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def assert_harmless(answer):
    assert len(answer.content) < MOST_BYTES
    for tag, attributes in Elements(answer.text).found:
        assert tag not in ("style", "img", "iframe", "object", "embed", "base")
        assert tag != "script" or attributes["src"].startswith("/static/")
        assert not any(name == "style" or name.startswith("on") for name in attributes)
        assert not (attributes.get("href") or "").lower().startswith(("javascript:", "data:", "//"))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", answer.text)


def words(page):
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_says_of_a_winner_what_was_found_against_every_baseline_and_how_to_do_it_again(board, kernels):
    best = kernels.winner(launch_parameters={"tile": 8}, build_flags=("-funroll-loops",), prepare="pack")
    page = words(page_of(board, best))
    for said in (
        "Double won",
        "on the task&#39;s device: 1,234 calls checked, worst error 25% of its bound",
        "2.00× 1.90–2.10, 120 pairs, confirm: win",
        "24 µs → 12 µs at rows=4",
        "4.00×",  # over compile
        "24 µs 2.00× best",
        "cold, CUDA graph",
        "takes 1.5 ms once a session and keeps 2 MB",
        f"compiler-agent judge {TASK.id[:12]} {best.id[:12]} --seed 7",
        f"compiler-agent bench {TASK.id[:12]} {best.id[:12]}",
        "tile=8",
        "-funroll-loops",
        "kernel, prepared by pack",
        "confirmed win 2.000 &gt; 1.03 passed",
        "Nobody has asked yet.",
    ):
        assert said in page, said
    for stage, speedup in (("screen", "1.90×"), ("race", "2.10×"), ("confirm", "2.00×")):
        assert re.search(rf"{stage} {speedup} \S+ 120 win", page)


def test_lists_older_runs_newest_first_and_no_more_than_a_page_has_room_for(board, kernels):
    often = kernels.put()
    for number in range(25):
        kernels.attempt(often, RIGHT, f"run-{number}", screened=measure(1.0 + number / 100, Stage.SCREEN))
    page = page_of(board, often)
    assert "The newest 20 times it was tried" in page
    assert "run-24" in page
    assert "run-4<" not in page


def test_shows_what_a_person_found_by_hand(board, kernels):
    kernel = kernels.put()
    kernels.evaluate(kernel, RIGHT, measure(1.5, Stage.RACE))
    page = words(page_of(board, kernel))
    assert "by hand" in page
    assert "1.50×" in page


def test_says_why_a_candidate_was_rejected(board, kernels):
    kernel = kernels.put()
    kernels.attempt(kernel, wrong())
    page = words(page_of(board, kernel))
    assert "Rejected, wrong values on rows=4 element (0, 3) differs: element (0, 3) differs" in page
    assert "[0, 3]" in page
    assert "Elements wrong 50 %" in page
    assert "log element (0, 3) differs" in page
    assert "not measured" in page


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (INTERPRETED, "right where interpreted"),
        (WAITS, "only cuda-77 can tell. bits of bfloat16 are not to be trusted here"),
    ],
)
def test_says_what_waits_for_a_device(board, kernels, verdict, said):
    kernel = kernels.put("x = 1", "triton")
    kernels.attempt(kernel, verdict)
    assert said in words(page_of(board, kernel))


def test_says_who_retracted_a_winner_and_why(board, kernels):
    best = kernels.winner()
    Retractions(board.ledger).put(Retraction(candidate_id=best.id, reason="reads past the end", by="bob"))
    page = words(page_of(board, best))
    assert "Double retracted" in page
    assert "Retracted by bob: reads past the end" in page


def test_says_which_gate_was_not_passed(board, kernels):
    kernel = kernels.put()
    kernels.attempt(kernel, RIGHT, screened=measure(2.0))
    kernels.promote(kernel, passed=False)
    page = words(page_of(board, kernel))
    assert "Double undecided" in page
    assert "no workload slower 0.97 0.99 failed" in page


def test_links_parents_with_their_speed_and_the_fastest_other_to_compare_with(board, kernels):
    parent, child, best = kernels.put("int parent;"), kernels.put("int child;"), kernels.winner()
    kernels.attempt(parent, RIGHT, screened=measure(1.2, Stage.SCREEN))
    kernels.attempt(child, RIGHT, screened=measure(1.3, Stage.SCREEN), parents=(parent.id, "not an id"), note="tiled")
    page = page_of(board, child)
    assert f'href="/candidates/{parent.id}"' in page
    assert f'href="/compare?a={parent.id}&amp;b={child.id}"' in page
    assert f'href="/compare?a={best.id}&amp;b={child.id}"' in page
    assert "1.20×" in page
    assert "tiled" in page
    assert "not an id" not in page


def test_shows_the_recorded_compiler_report_and_counters(board, kernels):
    kernel = kernels.put()
    kernels.attempt(kernel, RIGHT, screened=measure(2.0), counters=COUNTED)
    remark = Remark(line=3, source="for (;;)", is_vectorized=True, text="loop vectorized")
    RecordedReports(board.ledger).put(TASK.id, kernel.id, CompilerReport(remarks=(remark,)))
    page = words(page_of(board, kernel))
    assert "loop vectorized" in page
    assert "double: 61% sm__warps_active.x" in page


def test_shows_each_task_of_a_kernel_that_serves_several(board, kernels):
    other = double_task(width=16)
    kernel = kernels.put()
    kernels.attempt(kernel, RIGHT, screened=measure(1.25, Stage.SCREEN))
    kernels.attempt(kernel, wrong("elsewhere"), task=other)
    assert "Rejected" in page_of(board, kernel, task=other.id[:8])
    page = page_of(board, kernel, task=TASK.id)
    assert "Rejected" not in page
    assert f"task={other.id}" in page
    assert visit(board).get(f"/candidates/{kernel.id}", params={"task": "ffff"}).status_code == 404


def test_shows_a_candidate_that_nobody_tried(board, kernels):
    assert "never judged" in page_of(board, kernels.put())


def test_the_start_of_an_id_leads_to_the_permalink_and_others_to_nothing(board, kernels):
    kernel, browser = kernels.put(), visit(board, root_path="/board")
    answer = browser.get(f"/board/candidates/{kernel.id[:9]}", follow_redirects=False)
    assert answer.headers["location"] == f"/board/candidates/{kernel.id}"
    for number in range(20):
        kernels.put(f"int {'x' * number};;")
    for unknown in ("f" * 64, "%", "0" * 70, "ABC", "zz", "../../etc", ""):
        assert browser.get(f"/board/candidates/{unknown}").status_code in (404, 307), unknown
    ambiguous = [digit for digit in "0123456789abcdef" if browser.get(f"/board/candidates/{digit}").status_code == 404]
    assert ambiguous
    assert browser.get(f"/board/candidates/{'f' * 64}/source").status_code == 404


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_raw_source_is_text_and_nothing_else(board, kernels, language):
    kernel = kernels.put(f"// {HOSTILE} é", language.value)
    answer = visit(board).get(f"/candidates/{kernel.id[:16]}/source")
    assert answer.text == f"// {HOSTILE} é"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == f'inline; filename="{kernel.id[:12]}{language.file_ending}"'


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("unit", ["x", "int a;\n", '"', "<b>", "\u202e", "漢", "/*", "'\\", "\n", "# "])
def test_a_source_of_a_megabyte_is_cut_and_linked(board, kernels, language, unit):
    kernel = kernels.put(unit * (1_000_000 // len(unit)), language.value)
    kernels.attempt(kernel, RIGHT, screened=measure(2.0))
    page = page_of(board, kernel)
    assert "Cut here" in page
    assert f"/candidates/{kernel.id}/source" in page


def test_hostile_text_is_shown_and_does_nothing(board, kernels):
    task = double_task(reference=f"def reference(x):\n    return x + x  # {HOSTILE}\n").model_copy(
        update={"op": NAME, "site": NAME}
    )
    long = HOSTILE * 2000
    kernel = kernels.put(
        long, entry=HOSTILE, prepare=HOSTILE, launch_parameters={long: long}, build_flags=(long, HOSTILE)
    )
    told = {
        "agent": NAME * 2000,
        "model": NAME * 2000,
        "note": long,
        "round_id": long,
        "parents": (HOSTILE,),
        "cost_usd": 1.0,
    }
    kernels.attempt(kernel, RIGHT, "run-1", task=task, screened=measure(2.0, workloads=(long, HOSTILE)), **told)
    kernels.attempt(kernel, wrong(long), "run-2", task=task, **told)
    report = CompilerReport(failure=long)
    RecordedReports(board.ledger).put(task.id, kernel.id, report)
    Retractions(board.ledger).put(Retraction(candidate_id=kernel.id, reason=long, by=long))
    page = page_of(board, kernel)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\\u202e" in page


def test_lone_halves_of_characters_are_shown(board, kernels):
    kernel = kernels.put()
    kernels.attempt(kernel, RIGHT, note="half \ud800 of one")
    assert "half \\ud800 of one" in page_of(board, kernel)


def test_many_workloads_are_left_out_with_their_number(board, kernels):
    kernel = kernels.put()
    kernels.attempt(kernel, RIGHT, screened=measure(2.0, workloads=tuple(f"rows={n}" for n in range(200))))
    assert "184 workloads with less traffic are left out" in page_of(board, kernel)
