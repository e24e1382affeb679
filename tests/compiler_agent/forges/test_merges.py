"""Merged is approved: which builds go live by what people merge."""

import pytest

from candidates.ledger.approvals import Approvals
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.retractions import Retractions
from candidates.promotion import Retraction
from candidates.serving_build.builds import ApprovalAction
from tests.candidates.pull_requests.past_runs import PACKED_LINEAR, Kernel
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
    assert Approvals(runs.ledger).of(build) == (recorded,)
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
    assert Approvals(runs.ledger).of(build) == runs.builds.history()


def test_a_merged_build_that_is_gone_is_said(site, runs):
    build = runs.add("run1", NORM)
    desk(site, runs).open()
    site.merge(1)
    (runs.home / "builds" / build / "manifest.json").unlink()
    approval = desk(site, runs).sync().approval
    assert approval.kind.value == "impossible"
    known = f"builds in {runs.home / 'builds'}: none"
    assert approval.reason == f"no build has an id that starts with {build!r}; {known}"


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


# Only what was really merged


def edited(site, opened):
    """By a person, who then merges."""
    (name,) = [name for name in site.repository.files(opened.branch) if name.endswith(".cpp")]
    site.repository.commit(opened.branch, {name: "// rewritten: the original was wrong\n"})
    site.merge(1)


def narrowed(site, opened):
    (name,) = [name for name in site.repository.files(opened.branch) if name.endswith(".dispatch.json")]
    site.repository.commit(opened.branch, {name: "{}\n"})
    site.merge(1)


def reverted(site, opened):
    site.merge(1)
    names = [name for name in site.repository.files("main") if name != "README.md"]
    site.repository.commit("main", dict.fromkeys(names), "Revert")


def merged_elsewhere(site, opened):
    if site.server is None:
        site.repository.git("update-ref", f"refs/heads/{opened.branch}", "refs/heads/main")
        return
    site.repository.git("branch", "scratch", "main")
    pull = site.server.pulls.one(1)
    site.repository.merge(opened.branch, into="scratch")
    pull.base, pull.state, pull.merged_at = "scratch", "closed", "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("people_do", [edited, narrowed, reverted, merged_elsewhere])
def test_what_the_base_does_not_hold_as_proposed_is_not_approved(site, runs, people_do):
    runs.add("run1", NORM)
    (opened,) = desk(site, runs).open()
    people_do(site, opened)
    assert desk(site, runs).sync().approval is None
    assert runs.builds.current() is None


def test_a_build_of_kernels_that_earlier_merges_brought_is_approved(site, runs):
    runs.add("run1", NORM, PACKED_LINEAR)
    desk(site, runs).open()
    site.merge(1)
    site.merge(2)
    desk(site, runs).sync()
    newer = runs.add("run2", NORM)
    assert desk(site, runs).sync().approval.build_id == newer == runs.builds.current()


def test_a_build_measured_again_within_noise_is_approved(site, runs):
    runs.add("run1", NORM)
    desk(site, runs).open()
    newer = runs.add("run2", Kernel(speedup=1.505))
    site.merge(1)
    assert desk(site, runs).sync().approval.build_id == newer


# Once


def test_a_build_that_was_moved_back_from_stays_so_however_it_went_live(site, runs):
    build = runs.add("run1", NORM)
    desk(site, runs).open()
    runs.builds.approve(build, by="a setting")
    runs.builds.rollback(by="a person")
    site.merge(1)
    assert desk(site, runs).sync().approval is None
    assert runs.builds.current() is None


def test_an_approval_that_was_cut_off_before_it_took_effect_is_given_again(site, runs):
    build = runs.add("run1", NORM)
    desk(site, runs).open()
    site.merge(1)
    runs.builds.approve(build, by="merged pull request x")
    (runs.home / "builds" / "current").unlink()  # as before the pointer moved
    assert desk(site, runs).sync().approval.build_id == build == runs.builds.current()
    assert [approval.action for approval in runs.builds.decisions()] == [ApprovalAction.APPROVE]
    assert Approvals(runs.ledger).of(build) == runs.builds.decisions()


def test_a_merged_build_that_is_gone_does_not_block_another(site, runs):
    older = runs.add("run1", NORM)
    newer = runs.add("run2", PACKED_LINEAR)
    for run_id in ("run1", "run2"):
        desk(site, runs).open(run_id)
    site.merge(1)
    site.merge(2)
    (runs.home / "builds" / newer / "manifest.json").unlink()
    assert desk(site, runs).sync().approval.build_id == older == runs.builds.current()
