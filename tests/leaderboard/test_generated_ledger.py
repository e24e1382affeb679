"""The ledger that the load benchmark fills: it holds what was asked for, and every page answers over it."""

import random

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks.leaderboard_ledger import fill
from benchmarks.leaderboard_load import Choices
from candidates.ledger.standing_rows import StandingRow
from candidates.ledger.tables import CandidateRow, MeasurementRow, RunRow
from candidates.standing import State
from tests.leaderboard.boards import make_board, visit

CANDIDATES, MEASUREMENTS, RUNS = 200, 150, 12


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    board = make_board(tmp_path_factory.mktemp("generated"))
    fill(board.ledger, candidates=CANDIDATES, measurements=MEASUREMENTS, runs=RUNS, seed=0)
    return board


def test_it_holds_as_many_facts_as_were_asked_for(board):
    kinds = CandidateRow, MeasurementRow, RunRow, StandingRow
    with Session(board.ledger.engine) as session:
        counts = [session.scalar(select(func.count()).select_from(kind)) for kind in kinds]
        states = set(session.scalars(select(StandingRow.state)))
    assert counts == [CANDIDATES, MEASUREMENTS, RUNS, CANDIDATES]
    assert {State.SHIPPED, State.WON, State.SCREENED, State.REJECTED, State.WAITING} <= states


def test_every_page_that_readers_of_the_benchmark_ask_for_answers(board):
    choices, chance = Choices(board.ledger), random.Random(0)
    asked = [choices.choose(chance) for _ in range(40)]
    assert {each.page for each in asked} == {"home", "op", "candidate"}
    with visit(board) as reader:
        for each in asked:
            assert reader.get(each.path).status_code == 200, each.path


@pytest.mark.parametrize("path", ["/runs", "/builds", "/feed.atom", "/api/v1/wins"])
def test_other_pages_answer_too(board, path):
    with visit(board) as reader:
        assert reader.get(path).status_code == 200


def test_a_run_s_page_answers(board):
    with visit(board) as reader:
        for run in board.ledger.runs(limit=3):
            assert reader.get(f"/runs/{run.run_id}").status_code == 200


def test_more_measurements_than_fit_are_refused(tmp_path):
    ledger = make_board(tmp_path).ledger
    with pytest.raises(ValueError, match="do not fit"):
        fill(ledger, candidates=20, measurements=1000, runs=2, seed=0)
