"""The API, CSV and feed say what the ranking says, to machines that take nothing for granted."""

import csv
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from candidates.ledger.retractions import Retractions
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.standing import State
from tests.candidates.past_searches import REQUEST, attempt, double_task, measurement
from tests.leaderboard.boards import make_board, visit

TASK = double_task()
ATOM = "{http://www.w3.org/2005/Atom}"
HOSTILE = '=HYPERLINK("http://evil")\x07</title><script>alert(1)</script>'


@pytest.fixture
def board(tmp_path):
    board = make_board(tmp_path)
    board.ledger.open_run(REQUEST, "run-1")
    board.ledger.put_task(TASK)
    return board


def won(board, source, speedup, **proposal):
    kernel = attempt(source, measurement(speedup), **proposal)
    candidate = kernel.proposal.candidate
    board.ledger.put_candidate(candidate)
    board.ledger.put_attempt("run-1", TASK.id, kernel)
    gate = Gate(name="confirmed", figure=speedup, bound="> 1.03", passed=True)
    decision = PromotionDecision(task_id=TASK.id, candidate_id=candidate.id, gates=(gate,))
    board.ledger.put_promotion("run-1", decision)
    return candidate.id


def test_wins_are_the_ranking_page_by_page(board):
    ids = [won(board, f"kernel {number}", 1.5 + number / 10) for number in range(5)]
    client = visit(board)
    first = client.get("/api/v1/wins", params={"sort": "speedup", "limit": 3}).json()
    rest = client.get("/api/v1/wins", params={"sort": "speedup", "limit": 3, "after": first["next"]}).json()
    listed = [standing["candidate_id"] for page in (first, rest) for standing in page["standings"]]
    assert listed == ids[::-1]
    assert rest["next"] is None
    assert {standing["state"] for standing in first["standings"]} == {State.WON}


def test_filters_are_those_of_the_page(board):
    won(board, "by search", 2.0)
    by_llm = won(board, "by a model", 1.5, agent="llm")
    found = visit(board).get("/api/v1/wins?agent=llm&state=won").json()["standings"]
    assert [standing["candidate_id"] for standing in found] == [by_llm]


@pytest.mark.parametrize(
    ("query", "status"),
    [("state=x", 400), ("after=x", 400), ("limit=0", 422), ("limit=1000", 422), ("colour=red", 422), ("sort=x", 422)],
)
def test_refuses_what_it_does_not_know(board, query, status):
    assert visit(board).get(f"/api/v1/wins?{query}").status_code == status


def test_csv_has_the_same_rows_and_no_formulas(board):
    won(board, "a", 2.0, agent=HOSTILE)
    won(board, "b", 1.5)
    answer = visit(board).get("/api/v1/wins.csv?sort=speedup")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [float(row["speedup"]) for row in rows] == [2.0, 1.5]
    assert rows[0]["agent"].startswith("'=HYPERLINK")
    assert float(rows[0]["speedup_low"]) < 2.0 < float(rows[0]["speedup_high"])


def test_the_feed_is_well_formed_whatever_the_names(board):
    first = won(board, "a", 2.0)
    won(board, "b", 1.5, agent=HOSTILE)
    Retractions(board.ledger).put(Retraction(candidate_id=first, reason=HOSTILE, by="ann"))
    feed = ElementTree.fromstring(visit(board).get("/feed.atom").text)
    entries = feed.findall(f"{ATOM}entry")
    titles = [entry.findtext(f"{ATOM}title") for entry in entries]
    assert sorted(titles) == ["Double: 1.50×, won", "Double: 2.00×, retracted"]
    links = [entry.find(f"{ATOM}link").attrib["href"] for entry in entries]
    assert f"http://board.test/candidates/{first}" in links
    assert len({entry.findtext(f"{ATOM}id") for entry in entries}) == 2


def test_an_empty_ledger_has_an_empty_feed_and_page(tmp_path):
    client = visit(make_board(tmp_path))
    assert ElementTree.fromstring(client.get("/feed.atom").text).findall(f"{ATOM}entry") == []
    assert client.get("/api/v1/wins").json() == {"standings": [], "next": None}
    page = client.get("/")
    assert page.status_code == 200
    assert "No run of a trace has ended yet" in page.text


def test_a_candidate_is_given_with_its_source_and_standings(board):
    candidate_id = won(board, "void kernel() {}", 2.0)
    client = visit(board)
    found = client.get(f"/api/v1/candidates/{candidate_id[:10]}").json()
    assert (found["id"], found["candidate"]["source"]) == (candidate_id, "void kernel() {}")
    assert [standing["speedup"] for standing in found["standings"]] == [2.0]
    missing = client.get("/api/v1/candidates/zz")
    assert (missing.status_code, missing.json()) == (404, {"detail": "candidate zz is not in the ledger"})


def test_what_was_found_of_a_candidate_at_a_task_is_given_whole(board):
    candidate_id = won(board, "kernel", 2.0)
    board.ledger.put_measurement("run-1", TASK.id, candidate_id, measurement(1.8, stage="confirm"))
    client = visit(board)
    found = client.get(f"/api/v1/candidates/{candidate_id}/tasks/{TASK.id[:9]}").json()
    assert [each["stage"] for each in found["trials"][0]["measurements"]] == ["screen", "confirm"]
    assert found["trials"][0]["attempt"]["verdict"]["outcome"] == "accepted"
    assert [gate["name"] for gate in found["promotion"]["gates"]] == ["confirmed"]
    assert client.get(f"/api/v1/candidates/{candidate_id}/tasks/zz").status_code == 404


def test_runs_are_listed_newest_first_and_one_by_one(board):
    board.ledger.open_run(REQUEST.model_copy(update={"model": "other"}), "run-2")
    client = visit(board)
    first = client.get("/api/v1/runs?limit=1").json()
    second = client.get(f"/api/v1/runs?limit=1&before={first['next']}").json()
    assert [page["runs"][0]["run_id"] for page in (first, second)] == ["run-2", "run-1"]
    assert second["next"] is None
    run = client.get("/api/v1/runs/run-1").json()
    assert (run["kind"], run["ended_at"], run["report"]) == ("run", None, None)
    assert client.get("/api/v1/runs/run-9").status_code == 404


def test_the_api_describes_exactly_what_the_docs_list(board):
    paths = visit(board).get("/api/v1/openapi.json").json()["paths"]
    docs = (Path(__file__).parents[2] / "docs" / "leaderboard.md").read_text()
    told = {path.removeprefix("/api/v1") for path in paths}
    assert told == set(re.findall(r"^\| (?:GET|POST) `(/[^`?]+)", docs, re.MULTILINE))
