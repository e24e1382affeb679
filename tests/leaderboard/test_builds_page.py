"""The pages of builds, and rolling back, on real homes."""

import json
import logging
import os
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from candidates.ledger.approvals import Approvals
from candidates.ledger.ledger import Ledger
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.retractions import Retractions
from candidates.measurement import Interval
from candidates.promotion import Retraction
from candidates.pull_requests.facts import Event, PullRequestFact
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore, NothingToRollBack
from leaderboard.access.actions import ActionRefused, Moved
from leaderboard.board import Board
from tests.candidates.serving_build.conftest import linear, rmsnorm, ship  # noqa: F401
from tests.candidates.serving_build.tiny_tasks import local_device
from tests.leaderboard.boards import make_board, visit
from tests.leaderboard.test_runs_page import HOSTILE, assert_harmless

OWN = {"sec-fetch-site": "same-origin"}


class StoreActions:
    """An `Actions` on a store of builds alone."""

    def __init__(self, store: BuildStore, ledger: Ledger) -> None:
        self._store, self._ledger = store, ledger

    def rollback(self, by: str, live: str | None = None) -> Moved:
        try:
            approval = self._store.rollback(by, live=live)
        except NothingToRollBack as error:
            raise ActionRefused(str(error)) from error
        Approvals(self._ledger).put(approval)
        return Moved(live=approval.build_id, previous=approval.previous)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    return make_board(tmp_path, ledger=ledger, actions=StoreActions(BuildStore(tmp_path), ledger))


def make_build(home: Path, model: str, *kernels: ShippedKernel, is_live: bool = False) -> Build:
    build = write_build(home, model, local_device(), list(kernels))
    if is_live:
        BuildStore(home).approve(build.id, by="ann")
    return build


def stamp_of(browser: TestClient) -> str:
    found = re.search(r'name="stamp" value="([0-9a-f]+)"', browser.get("/builds").text)
    assert found is not None
    return found.group(1)


# Reading


def test_a_home_without_builds_says_how_to_make_one(board: Board) -> None:
    page = visit(board).get("/builds")
    assert page.status_code == 200
    assert "compiler-agent run" in page.text
    assert "No build is live" in page.text
    assert visit(board).get("/builds/3f2a").status_code == 404
    assert visit(board).get("/builds/3f2a/diff").status_code == 404


def test_a_build_is_told_in_words(board: Board, tmp_path: Path, rmsnorm: ShippedKernel) -> None:  # noqa: F811
    build = make_build(tmp_path, HOSTILE, rmsnorm, is_live=True)
    browser = visit(board)
    listed, page = browser.get("/builds").text, browser.get(f"/builds/{build.id[:8]}").text
    assert build.id[:12] in listed
    assert "unmeasured" in listed
    for words in (
        "LlamaRMSNorm",
        "batch × tokens 1 to 64",
        "5 modules such as",
        "2.00×",
        f"/candidates/{rmsnorm.candidate.id}",
    ):
        assert words in page
    for each in (listed, page):
        assert 'class="state live"' in each
        assert each.count("<table") == each.count("<caption")
        assert_harmless(each)


def test_a_build_that_was_changed_is_shown_as_refused(board: Board, tmp_path: Path) -> None:
    good, bad = make_build(tmp_path, "good", is_live=True), make_build(tmp_path, "bad")
    browser = visit(board)
    assert "refused" not in browser.get("/builds").text
    runtime = bad.path / "runtime.py"
    runtime.write_bytes(runtime.read_bytes()[:-1] + b"#")
    page = browser.get("/builds").text
    assert page.count('class="state failed">refused') == 1
    assert good.id[:12] in page
    assert str(tmp_path) not in page
    assert "Its folder holds something else" in browser.get(f"/builds/{bad.id}").text
    assert "Its folder holds something else" in browser.get(f"/builds/{bad.id}/diff").text


def test_a_folder_of_any_name_is_shown_as_refused(board: Board, tmp_path: Path) -> None:
    for name in (b"a<b>", b"b\xff", b"c?x=1"):
        folder = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path / "builds"), name)))
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("[" * 100_000)
    page = visit(board).get("/builds")
    assert page.status_code == 200
    assert page.text.count(">refused<") == 3
    assert "<b>" not in page.text


def test_a_kernel_that_was_taken_back_is_told(board: Board, tmp_path: Path, rmsnorm: ShippedKernel) -> None:  # noqa: F811
    build = make_build(tmp_path, "m", rmsnorm, is_live=True)
    board.ledger.put_candidate(rmsnorm.candidate)
    Retractions(board.ledger).put(Retraction(candidate_id=rmsnorm.candidate.id, reason=HOSTILE, by="bob"))
    browser = visit(board)
    assert "has a kernel found wrong" in browser.get("/builds").text
    page = browser.get(f"/builds/{build.id}").text
    assert "May not serve" in page
    assert_harmless(page)


def test_what_serving_counted_is_summed_over_processes(board: Board, tmp_path: Path, rmsnorm: ShippedKernel) -> None:  # noqa: F811
    build = make_build(tmp_path, "m", rmsnorm)
    board.counters.mkdir()
    for process, off in enumerate((None, HOSTILE)):
        kernel = {
            "hits": 1000,
            "misses": 3,
            "miss_reasons": {"shape not won": 3},
            "missed_shapes": {f"batch=1,tokens={HOSTILE}": 3},
            "shadow": {"agreed": 4, "disagreed": process},
            "switched_off": off,
        }
        document = {
            "build_id": build.id,
            "obstacle": HOSTILE if process else None,
            "failures": {},
            "kernels": {rmsnorm.candidate.id: kernel},
        }
        (board.counters / f"{process}.json").write_text(json.dumps(document))
    page = visit(board).get(f"/builds/{build.id}").text
    assert "as 2 processes counted" in page
    assert ">2,000</td>" in page
    assert "6 shape not won" in page
    assert "in 1 of 2" in page
    assert_harmless(page)


def test_pull_requests_of_a_build_are_linked_only_where_a_browser_may_go(board: Board, tmp_path: Path) -> None:
    build = make_build(tmp_path, "m")
    facts = PullRequestFacts(board.ledger)
    for number, url in enumerate(("https://forge.test/pr/1", "javascript:alert(1)")):
        facts.add(
            PullRequestFact(
                repository="own/kernels",
                win=f"win-{number}",
                subject="s",
                branch="b",
                op="Linear",
                run_id="run-1",
                build_id=build.id,
                candidate_ids=("1",),
                places=("Linear at q_proj",),
                intervals=(Interval(1.9, 2.1),),
                files="0",
                speedup=2.0,
                interval=Interval(1.9, 2.1),
                event=Event.OPENED,
                number=number,
                url=url,
            )
        )
    page = visit(board).get("/builds").text
    assert 'href="https://forge.test/pr/1"' in page
    assert "javascript:" not in page


def test_a_difference_is_told_in_words(
    board: Board,
    tmp_path: Path,
    rmsnorm: ShippedKernel,  # noqa: F811
    linear: ShippedKernel,  # noqa: F811
) -> None:
    live, other = make_build(tmp_path, HOSTILE, rmsnorm, is_live=True), make_build(tmp_path, "m", linear)
    browser = visit(board)
    page = browser.get(f"/builds/{other.id}/diff").text
    assert f'href="/builds/{live.id}"' in page
    assert "another model" in page
    assert re.search(r"LlamaRMSNorm</a></th><td><span class=\"state added\"", page)
    assert re.search(r"Linear</a></th><td><span class=\"state removed\"", page)
    assert browser.get(f"/builds/{live.id}/diff?to={other.id}").text.count("state removed") == 1
    assert "same build" in browser.get(f"/builds/{live.id}/diff").text
    assert browser.get(f"/builds/{live.id}/diff?to=ffff").status_code == 404
    assert_harmless(page)


def test_links_lie_below_the_path_that_a_proxy_mounts_the_page_at(board: Board, tmp_path: Path) -> None:
    build = make_build(tmp_path, "m", is_live=True)
    board.tokens.create("ann")
    for path in ("", f"/{build.id}", f"/{build.id}/diff"):
        page = visit(board, root_path="/board").get(f"/board/builds{path}").text
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page)
        assert all(found.startswith("/board/") for found in links), links
        assert links


# Rolling back


def test_without_any_token_the_page_says_how_to_make_one(board: Board, tmp_path: Path) -> None:
    make_build(tmp_path, "m", is_live=True)
    page = visit(board).get("/builds").text
    assert "compiler-agent leaderboard token new NAME" in page
    assert "<form" not in page


def test_who_has_a_token_rolls_back_and_reads_that_it_was_done(board: Board, tmp_path: Path) -> None:
    old, new = make_build(tmp_path, "old", is_live=True), make_build(tmp_path, "new", is_live=True)
    token, browser = board.tokens.create("ann"), visit(board, root_path="/board")
    page = browser.get("/board/builds").text
    assert 'type="password"' in page
    assert 'autocomplete="current-password"' in page
    stamp = re.search(r'name="stamp" value="([0-9a-f]+)"', page)
    assert stamp is not None
    form = {"token": f" {token}\n", "stamp": stamp.group(1), "live": new.id}
    answer = browser.post("/board/builds/rollback", data=form, headers=OWN, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/board/builds")
    assert "set-cookie" not in answer.headers
    assert board.builds.current() == old.id
    assert board.builds.decisions()[-1].by == "ann (leaderboard)"
    page = browser.get("/board/builds").text
    assert re.search(r"Done:</strong> rolled back to", page)
    again = browser.post("/board/builds/rollback", data=form, headers=OWN, follow_redirects=False)
    assert again.status_code == 409
    assert f"build {old.id[:12]} is live by now" in again.text
    assert board.builds.current() == old.id


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"token": ""}, "give a token"),
        ({"token": "cat_wrong"}, "none of this leaderboard"),
        ({"token": HOSTILE}, "none of this leaderboard"),
        ({"stamp": ""}, "too old"),
        ({"stamp": "0" * 64}, "too old"),
    ],
)
def test_nothing_changes_without_token_and_stamp(
    board: Board, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    make_build(tmp_path, "old", is_live=True)
    new = make_build(tmp_path, "new", is_live=True)
    token, browser = board.tokens.create("ann"), visit(board)
    form = {"token": token, "stamp": stamp_of(browser), "live": new.id} | change
    answer = browser.post("/builds/rollback", data=form, headers=OWN)
    assert answer.status_code == 403
    assert words in answer.text
    assert token not in answer.text
    assert_harmless(answer.text)
    assert board.builds.current() == new.id


def test_another_sites_form_is_refused_whatever_it_holds(board: Board, tmp_path: Path) -> None:
    live = make_build(tmp_path, "m", is_live=True)
    token, browser = board.tokens.create("ann"), visit(board)
    form = {"token": token, "stamp": stamp_of(browser), "live": live.id}
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.test"}, {}):
        assert browser.post("/builds/rollback", data=form, headers=headers).status_code == 403
    assert board.builds.current() == live.id


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    board = make_board(tmp_path)
    live = make_build(tmp_path, "m", is_live=True)
    token, browser = board.tokens.create("ann"), visit(board)
    form = {"token": token, "stamp": stamp_of(browser), "live": live.id}
    answer = browser.post("/builds/rollback", data=form, headers=OWN)
    assert answer.status_code == 409
    assert "ann (leaderboard) may not roll back here" in answer.text


def test_tokens_that_cannot_be_read_are_told_to_the_log_alone(
    board: Board, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = make_build(tmp_path, "m", is_live=True)
    token, browser = board.tokens.create("ann"), visit(board)
    form = {"token": token, "stamp": stamp_of(browser), "live": live.id}
    file = tmp_path / "keys" / "leaderboard.json"
    file.chmod(0o644)
    with caplog.at_level(logging.ERROR):
        answer = browser.post("/builds/rollback", data=form, headers=OWN)
    assert answer.status_code == 503
    assert "tokens cannot be read" in answer.text
    assert str(tmp_path) not in answer.text
    assert "chmod 600" in caplog.text
    assert token not in caplog.text
    assert "cannot be read" in browser.get("/builds").text


def test_the_address_that_a_refused_form_leaves_leads_to_the_builds(board: Board) -> None:
    answer = visit(board, "/board").get("/board/builds/rollback", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/board/builds")


def test_the_api_rolls_back_for_a_bearer(board: Board, tmp_path: Path) -> None:
    old, new = make_build(tmp_path, "old", is_live=True), make_build(tmp_path, "new", is_live=True)
    token, browser = board.tokens.create("ci"), visit(board)
    bearer = {"authorization": f"Bearer {token}"}
    stale = browser.post("/api/v1/builds/rollback", json={"live": old.id}, headers=bearer)
    assert stale.status_code == 409
    done = browser.post("/api/v1/builds/rollback", json={"live": new.id}, headers=bearer)
    assert (done.status_code, done.json()) == (200, {"live": old.id, "previous": new.id})
    assert board.builds.decisions()[-1].by == "ci (leaderboard)"
    assert browser.post("/api/v1/builds/rollback", headers=bearer).json() == {"live": None, "previous": old.id}
    nothing = browser.post("/api/v1/builds/rollback", headers=bearer)
    assert nothing.status_code == 409
    assert "no build is live" in nothing.json()["detail"]


def test_the_api_tells_builds_and_which_is_live(board: Board, tmp_path: Path, rmsnorm: ShippedKernel) -> None:  # noqa: F811
    build, changed = make_build(tmp_path, "m", rmsnorm, is_live=True), make_build(tmp_path, "changed")
    (changed.path / "runtime.py").write_text("changed")
    browser = visit(board)
    found = browser.get("/api/v1/builds").json()
    assert found["live"] == build.id
    assert {(each["id"], each["state"], each["is_live"]) for each in found["builds"]} == {
        (build.id, "verified", True),
        (changed.id, "refused", False),
    }
    one = browser.get(f"/api/v1/builds/{build.id[:12]}").json()
    assert [kernel["id"] for kernel in one["manifest"]["kernels"]] == [rmsnorm.candidate.id]
    assert (one["gates"], one["flaws"]) == ([], {})
    assert browser.get("/api/v1/builds/zz").status_code == 404


def test_after_a_rollback_nothing_is_told_live_that_was(board: Board, tmp_path: Path, rmsnorm: ShippedKernel) -> None:  # noqa: F811
    make_build(tmp_path, "m", rmsnorm, is_live=True)
    assert {place.candidate_id for place in board.serving().live} == {rmsnorm.candidate.id}
    bearer = {"authorization": f"Bearer {board.tokens.create('ci')}"}
    assert visit(board).post("/api/v1/builds/rollback", headers=bearer).status_code == 200
    assert not board.serving().live


@pytest.mark.parametrize("authorization", ["Bearer cat_wrong", "Bearer ", "Basic YTpi"])
def test_the_api_asks_for_a_token(board: Board, tmp_path: Path, authorization: str) -> None:
    live = make_build(tmp_path, "m", is_live=True)
    board.tokens.create("ann")
    headers = {"authorization": authorization} | OWN
    answer = visit(board).post("/api/v1/builds/rollback", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert board.builds.current() == live.id


def test_the_api_describes_the_action(board: Board) -> None:
    document = visit(board).get("/api/v1/openapi.json").json()
    assert "post" in document["paths"]["/api/v1/builds/rollback"]
