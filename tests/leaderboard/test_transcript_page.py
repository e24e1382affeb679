"""The page of the dialogue that wrote a candidate."""

import json

import pytest

from candidates.transcript import Transcript, Turn
from compiler_agent.models.completion import Completion, ModelRequest, Reply, UserMessage
from tests.leaderboard.boards import make_board, visit
from tests.leaderboard.known_kernels import HOSTILE, RIGHT, KnownKernels
from tests.leaderboard.test_candidate_page import assert_harmless, words


@pytest.fixture
def board(tmp_path):
    return make_board(tmp_path)


def write_dialogue(board, answers, request_text="make it fast", **changes):
    """The digest of a dialogue with one call an answer."""
    request = ModelRequest(prefix="You write kernels.", messages=(UserMessage(text=request_text),), max_output_tokens=9)
    turns = tuple(
        Turn(
            purpose="draft",
            call_id=f"call-{number}",
            endpoint="small",
            request=board.blobs.put(request.model_dump_json().encode()),
            answer=board.blobs.put(
                Completion(outcome=Reply(text=text), usage=None, model="tiny-1", seconds=2.0).model_dump_json().encode()
            ),
            usd=0.25,
        )
        for number, text in enumerate(answers)
    )
    if changes:
        turns = tuple(turn.model_copy(update=changes) for turn in turns)
    return board.blobs.put(Transcript(turns=turns).model_dump_json().encode())


def written(board, digest):
    kernels = KnownKernels(board)
    kernel = kernels.put()
    kernels.attempt(kernel, RIGHT, agent="llm", model="small", transcript=digest, cost_usd=0.5)
    return kernel


def page_of(board, kernel):
    answer = visit(board).get(f"/candidates/{kernel.id}/transcript")
    assert answer.status_code == 200
    assert_harmless(answer)
    return answer.text


def test_shows_each_call_with_what_was_asked_and_said(board):
    kernel = written(board, write_dialogue(board, ["int first;", "int second;"]))
    page = words(page_of(board, kernel))
    assert "for $0.50, 2 calls" in page
    assert "1. draft small (tiny-1), $0.25, 2 s, call call-0" in page
    for said in ("int first;", "int second;", "make it fast", "You write kernels."):
        assert said in page
    assert "/transcript" in visit(board).get(f"/candidates/{kernel.id}").text


def test_the_whole_of_each_side_is_behind_a_link(board):
    kernel = written(board, write_dialogue(board, ["x" * 50_000]))
    page = page_of(board, kernel)
    assert "Cut here." in page
    browser, place = visit(board), f"/candidates/{kernel.id}/transcript"
    answer = browser.get(f"{place}/0/answer")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert json.loads(answer.text)["outcome"]["text"] == "x" * 50_000
    assert "make it fast" in browser.get(f"{place}/0/request").text
    assert browser.get(f"{place}/1/answer").status_code == 404
    assert browser.get(f"{place}/0/other").status_code == 422
    assert browser.get(place, params={"dialogue": 3}).status_code == 404


def test_takes_keys_out_that_are_known_by_now(tmp_path):
    board = make_board(tmp_path, redact=lambda text: text.replace("hunter2", "[redacted]"))
    kernel = written(board, write_dialogue(board, ["the key is hunter2"], request_text="hunter2?"))
    assert "hunter2" not in page_of(board, kernel)
    assert "hunter2" not in visit(board).get(f"/candidates/{kernel.id}/transcript/0/answer").text


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc/passwd", "\x00"])
def test_says_that_a_dialogue_is_not_here(board, digest):
    assert "is not where this ledger keeps" in page_of(board, written(board, digest))


@pytest.mark.parametrize(
    "blob",
    [
        b"no json",
        b"[]",
        b"[" * 100_000,
        b'{"messages": 3, "outcome": 7}',
        b'{"messages": [1, {"text": 2}]}',
        b'{"seconds": NaN}',
        b'{"seconds": 1' + b"0" * 400 + b"}",
    ],
)
def test_says_that_a_call_is_not_here_or_shows_what_there_is_of_it(board, blob):
    digest = board.blobs.put(blob)
    page_of(board, written(board, write_dialogue(board, ["int a;"], answer=digest)))
    page_of(board, written(board, write_dialogue(board, ["int a;"], answer="0" * 64)))


def test_of_a_request_of_very_many_messages_the_first_are_shown(board):
    messages = [{"role": "user", "content": f"message {number}."} for number in range(5000)]
    request = board.blobs.put(json.dumps({"prefix": "", "messages": messages}).encode())
    page = page_of(board, written(board, write_dialogue(board, ["int a;"], request=request)))
    assert "message 39." in page
    assert "message 40." not in page
    assert "4960 more messages" in page
    assert len(page) < 100_000


def test_says_that_no_model_wrote_it(board):
    kernels = KnownKernels(board)
    kernel = kernels.put()
    assert "No language model wrote" in page_of(board, kernel)
    kernels.attempt(kernel, RIGHT)
    assert "No language model wrote" in page_of(board, kernel)


@pytest.mark.parametrize("unit", [HOSTILE, '"', "<b>", "\u202e", "\ud800"])
def test_hostile_and_endless_dialogues_are_cut(board, unit):
    half = json.dumps({"outcome": {"kind": "reply", "text": unit * 30_000}, "model": unit * 100}).encode()
    digest = write_dialogue(board, ["x"] * 100, request_text=HOSTILE * 1000, answer=board.blobs.put(half))
    assert "40 more calls are left out" in page_of(board, written(board, digest))
