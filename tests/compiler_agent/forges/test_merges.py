"""Merged is approved: which builds go live by what people merge."""

from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.retractions import Retractions
from candidates.promotion import Retraction
from tests.candidates.pull_requests.past_runs import PACKED_LINEAR
from tests.compiler_agent.forges.desks import NORM, desk


def test_the_merge_approves_the_build_once(site, runs):
    build = runs.add("run1", NORM)
    (opened,) = desk(site, runs).open()
    assert desk(site, runs).sync().approval is None
    site.merge(1)
    approval = desk(site, runs).sync().approval
    assert approval is not None
    assert runs.builds.current() == approval.build_id == build
    (recorded,) = runs.builds.history()
    assert recorded.by == f"merged pull request {opened.url}"
    assert PullRequestFacts(runs.ledger).approvals(build) == (recorded,)
    runs.builds.rollback(by="a person")
    for _ in range(2):
        assert desk(site, runs).sync().approval is None
    assert runs.builds.current() is None


def test_a_build_waits_until_all_of_its_kernels_are_merged(site, runs):
    build = runs.add("run1", NORM, PACKED_LINEAR)
    desk(site, runs).open()
    site.merge(1)
    assert desk(site, runs).sync().approval is None
    assert runs.builds.current() is None
    site.merge(2)
    assert desk(site, runs).sync().approval.build_id == build


def test_a_kernel_that_people_refused_never_goes_live(site, runs):
    runs.add("run1", NORM, PACKED_LINEAR)
    desk(site, runs).open()
    site.close(1)
    site.merge(2)
    assert desk(site, runs).sync().approval is None


def test_an_older_build_does_not_take_the_place_of_a_newer(site, runs):
    runs.add("run1", NORM)
    desk(site, runs).open()
    newer = runs.add("run2", PACKED_LINEAR)
    runs.builds.approve(newer, by="a person")
    site.merge(1)
    assert desk(site, runs).sync().approval is None
    assert runs.builds.current() == newer


def test_an_approval_that_was_cut_off_gets_into_the_ledger(site, runs):
    build = runs.add("run1", NORM)
    (opened,) = desk(site, runs).open()
    site.merge(1)
    runs.builds.approve(build, by=f"merged pull request {opened.url}")
    desk(site, runs).sync()
    desk(site, runs).sync()
    assert PullRequestFacts(runs.ledger).approvals(build) == runs.builds.history()


def test_a_merged_build_that_is_gone_is_said(site, runs):
    build = runs.add("run1", NORM)
    desk(site, runs).open()
    site.merge(1)
    (runs.home / "builds" / build / "manifest.json").unlink()
    approval = desk(site, runs).sync().approval
    assert approval.kind.value == "impossible"
    assert build[:12] in approval.reason or "no build" in approval.reason


def test_a_build_with_a_retracted_kernel_is_neither_proposed_nor_approved(site, runs):
    runs.add("run1", NORM, PACKED_LINEAR)
    opened = desk(site, runs).open()
    site.merge(1)
    site.merge(2)
    candidate_id = PullRequestFacts(runs.ledger).of(site.forge.repository)[0].candidate_ids[0]
    Retractions(runs.ledger).put(Retraction(candidate_id=candidate_id, reason="wrong at night", by="a person"))
    assert len(opened) == 2
    assert desk(site, runs).open() == ()
    assert desk(site, runs).sync().approval is None
    assert runs.builds.current() is None
