"""The home page: wins with filters in the URL, below the last run's headline."""

import re

import pytest

from candidates.promotion import Gate, PromotionDecision
from tests.candidates.past_searches import REQUEST, attempt, double_task, measurement
from tests.leaderboard.boards import make_board, visit

TASK = double_task()
SCRIPT = '"><script>alert(1)</script>'


@pytest.fixture
def board(tmp_path):
    board = make_board(tmp_path)
    board.ledger.open_run(REQUEST, "run-1")
    return board


def keep(board, source, task=TASK, **proposal):
    kernel = attempt(source, measurement(2.0), **proposal)
    board.ledger.put_task(task)
    board.ledger.put_candidate(kernel.proposal.candidate)
    board.ledger.put_attempt("run-1", task.id, kernel)
    return kernel.proposal.candidate.id


def promote(board, candidate_id, task=TASK):
    gate = Gate(name="confirmed", figure=2.0, bound="> 1.03", passed=True)
    board.ledger.put_promotion("run-1", PromotionDecision(task_id=task.id, candidate_id=candidate_id, gates=(gate,)))


def rows(page):
    return re.findall(r'href="/candidates/([0-9a-f]{64})"', page.text)


def test_shows_wins_and_below_them_what_did_not_win_with_why(board):
    won, wrong = keep(board, "won"), keep(board, "wrong", is_accepted=False)
    promote(board, won)
    page = visit(board).get("/")
    assert rows(page) == [won, wrong]
    assert "its run has made no build" in page.text
    assert "crashed: no" in page.text
    assert rows(visit(board).get("/?state=won")) == [won]


def test_a_run_that_goes_on_is_said(board):
    assert 'Going on:</strong> <a href="/runs/run-1">' in visit(board).get("/").text


def test_the_next_page_goes_on_where_this_one_ends(board):
    for number in range(60):
        promote(board, keep(board, f"kernel {number}"))
    client = visit(board)
    first = client.get("/?sort=speedup")
    following = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert following is not None
    second = client.get(following.group(1).replace("&amp;", "&"))
    assert len(set(rows(first)) | set(rows(second))) == 60
    assert 'rel="next"' not in second.text


def test_a_filter_that_is_none_is_refused_in_words(board):
    page = visit(board).get("/?state=best")
    assert page.status_code == 400
    assert "no state best" in page.text


def test_a_filtered_page_s_address_holds_what_filters_alone(board):
    asked = {"state": "all", "op": "", "device": "", "sort": "speedup"}
    answer = visit(board, root_path="/wins").get("/", params=asked, headers={"hx-request": "true"})
    assert answer.headers["hx-push-url"] == "/wins/?state=all&sort=speedup"
    assert "hx-push-url" not in visit(board).get("/", params=asked).headers


def test_hostile_names_are_text(board):
    task = TASK.model_copy(update={"op": SCRIPT})
    promote(board, keep(board, "kernel", task, agent=SCRIPT), task)
    page = visit(board).get("/", params={"op": SCRIPT})
    assert "<script>alert" not in page.text
    assert len(rows(page)) == 1
    assert not re.search(r"\sstyle=|\son[a-z]+=", page.text)


def test_below_a_proxy_s_prefix_every_link_keeps_it(board):
    promote(board, keep(board, "kernel"))
    for path in ("/wins/", "/"):  # a proxy may strip its prefix or not
        page = visit(board, root_path="/wins").get(path)
        assert page.status_code == 200
        links = re.findall(r'(?:href|src|action|hx-get)="([^"#]+)"', page.text)
        assert links
        assert [link for link in links if not link.startswith("/wins/")] == []


def test_answers_carry_the_guard_s_headers(board):
    for path in ("/", "/nope", "/static/style.css", "/api/v1/wins"):
        headers = visit(board).get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
    assert visit(board).get("/", headers={"host": "evil.example"}).status_code == 421
