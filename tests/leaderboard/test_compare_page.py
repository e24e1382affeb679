"""The comparison of two candidates."""

import html
import re

import pytest

from candidates.measurement import Stage
from tests.candidates.past_searches import double_task
from tests.leaderboard.boards import make_board, visit
from tests.leaderboard.known_kernels import HOSTILE, RIGHT, KnownKernels, measure, wrong
from tests.leaderboard.test_candidate_page import assert_harmless, words


@pytest.fixture
def board(tmp_path):
    return make_board(tmp_path)


@pytest.fixture
def kernels(board):
    return KnownKernels(board)


def compared(board, left, right):
    answer = visit(board).get("/compare", params={"a": left.id, "b": right.id})
    assert answer.status_code == 200
    assert_harmless(answer)
    return answer.text


def test_shows_figures_parameters_and_lines_that_differ(board, kernels):
    left = kernels.winner("int a;\nint b;\nint c;\n", launch_parameters={"tile": 4, "rows": 2})
    right = kernels.put("int a;\nint B;\nint c;\nint d;\n", launch_parameters={"tile": 8, "rows": 2})
    kernels.attempt(right, wrong())
    page = compared(board, left, right)
    assert re.findall(r"<del>(.*?)</del>", page) == ["int b;"]
    assert re.findall(r"<ins>(.*?)</ins>", page) == ["int B;", "int d;"]
    assert "−1 +2 lines" in page
    assert "tile · differs" in words(page).replace("tile differs", "tile · differs")
    assert "2.00×" in page
    assert "rejected" in page


def test_folds_what_is_the_same(board, kernels):
    lines = [f"int a{number};" for number in range(100)]
    left, right = kernels.put("\n".join(lines)), kernels.put("\n".join([*lines[:50], "new", *lines[50:]]))
    page = compared(board, left, right)
    assert page.count("lines are the same") == 2
    assert "int a49;" in page
    assert "int a10;" not in page


def test_says_that_figures_of_different_tasks_are_not_of_the_same_work(board, kernels):
    left, right = kernels.put("int a;"), kernels.put("int b;")
    kernels.attempt(left, RIGHT, screened=measure(2.0, Stage.SCREEN))
    kernels.attempt(right, RIGHT, task=double_task(width=64), screened=measure(3.0, Stage.SCREEN))
    assert "never tried for the same task" in compared(board, left, right)


def test_takes_starts_of_ids_and_asks_for_what_is_missing(board, kernels):
    left, right = kernels.put("int a;"), kernels.put("int b;")
    browser = visit(board)
    answer = browser.get("/compare", params={"a": left.id[:10], "b": f" {right.id} "}, follow_redirects=False)
    assert answer.headers["location"] == f"/compare?a={left.id}&b={right.id}"
    assert "<form" in browser.get("/compare", params={"a": left.id}).text
    assert browser.get("/compare", params={"a": left.id, "b": "no"}).status_code == 404
    assert_harmless(browser.get("/compare", params={"a": HOSTILE}))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x" * 1_000_000, "y" * 1_000_000),
        ("a\n" * 100_000, "b\n" * 100_000),
        ("\n" * 1_000_000, "x\n\n" * 300_000),
        ('"' * 399 + "\n", "'" * 399 + "\n"),
        (("\u202e" * 30 + "\n") * 30_000, (HOSTILE + "\n") * 10_000),
    ],
)
def test_long_and_hostile_sources_are_cut(board, kernels, left, right):
    page = compared(board, kernels.put(left), kernels.put(right))
    assert "<del>" in page or "<ins>" in page
    if len(left) > 60_000:
        assert "Cut:" in page


def test_the_same_candidate_twice_does_not_differ(board, kernels):
    kernel = kernels.put("int a;\n" * 3)
    assert "no line differs" in html.unescape(compared(board, kernel, kernel))
