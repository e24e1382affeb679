"""Pull requests that were closed, by people or by us, and what people do to them afterwards."""

import pytest

from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.retractions import Retractions
from candidates.promotion import Retraction
from candidates.pull_requests.desk import list_pull_requests
from candidates.pull_requests.facts import Event
from candidates.pull_requests.win import Grouping
from candidates.run import LIVE_CHECKS, LiveCheck, LiveChecks
from tests.candidates.pull_requests.past_runs import Kernel
from tests.compiler_agent.forges.desks import FASTER_NORM, NORM, desk, kinds, open_ones
from tests.compiler_agent.forges.sites import open_github
from tests.forge_server.faults import Fault


def events(site, runs):
    return [fact.event for fact in PullRequestFacts(runs.ledger).of(site.forge.repository)]


def candidate_of(site, runs):
    return PullRequestFacts(runs.ledger).of(site.forge.repository)[0].candidate_ids[0]


def reopen(site, number):
    site.server.pulls.one(number).state = "open"


def retracted(site, runs):
    fact = Retraction(candidate_id=candidate_of(site, runs), reason="wrong at night", by="a person")
    Retractions(runs.ledger).put(fact)


def wrong_in_service(site, runs):
    check = LiveCheck(
        candidate_id=candidate_of(site, runs), op="rmsnorm", task_id=None, outcome="wrong", reason="wrong at night"
    )
    runs.add("run2")
    runs.ledger.put_stage("run2", LIVE_CHECKS, LiveChecks(build_id="b", kernels=(check,)))


@pytest.mark.parametrize("flaw", [retracted, wrong_in_service])
def test_what_brings_a_wrong_kernel_is_closed_with_a_word(site, runs, flaw):
    runs.add("run1", NORM)
    desk(site, runs).open()
    flaw(site, runs)
    (change,) = desk(site, runs).sync().changes
    assert "wrong at night" in change.reason
    assert open_ones(site) == []
    assert "wrong at night" in site.comments(1)[0]
    before = site.traces()
    assert desk(site, runs).sync().changes == ()
    assert site.traces() == before
    assert [each.last.event for each in list_pull_requests(runs.ledger, site.forge.repository)] == [Event.WITHDRAWN]
    assert desk(site, runs).open("run1") == ()


def test_a_wrong_kernel_that_is_merged_all_the_same_is_not_approved(site, runs):
    runs.add("run1", NORM)
    desk(site, runs).open()
    wrong_in_service(site, runs)
    site.merge(1)
    assert desk(site, runs).sync().approval is None


def test_a_branch_that_people_work_on_is_only_told(site, runs):
    runs.add("run1", NORM)
    (opened,) = desk(site, runs).open()
    site.repository.commit(opened.branch, {"note.txt": "mine\n"})
    retracted(site, runs)
    for _ in range(2):
        desk(site, runs).sync()
    assert len(open_ones(site)) == 1
    assert len(site.comments(1)) == 1


def test_what_was_cut_off_while_it_was_closed_is_no_closing_of_others(github, runs):
    runs.add("run1", NORM)
    desk(github, runs).open()
    retracted(github, runs)
    fault = Fault(method="PATCH", path="/pulls/1$", status=502, times=100)
    github.server.faults.append(fault)
    with pytest.raises(Exception, match="GitHub fails"):
        desk(github, runs, forge=open_github(github.server)).sync()
    fault.times = 0
    desk(github, runs).sync()
    assert open_ones(github) == []
    assert desk(github, runs).sync().changes == ()
    assert {*events(github, runs)} == {Event.PUSHING, Event.OPENED, Event.WITHDRAWN}


def test_closed_and_reopened_is_followed_to_its_merge(github, runs):
    build = runs.add("run1", NORM)
    desk(github, runs).open()
    github.close(1)
    desk(github, runs).sync()
    reopen(github, 1)
    assert [change.state.value for change in desk(github, runs).sync().changes] == ["open"]
    assert desk(github, runs).sync().changes == ()
    assert kinds(desk(github, runs).open()) == ["unchanged"]
    github.merge(1)
    assert desk(github, runs).sync().approval.build_id == build
    assert events(github, runs)[-1] is Event.MERGED


def test_superseded_reopened_and_merged_between_two_looks_is_seen(github, runs):
    runs.add("run1", NORM)
    desk(github, runs).open()
    runs.add("run2", FASTER_NORM)
    desk(github, runs).open()
    github.close(2)
    desk(github, runs).sync()
    reopen(github, 1)
    github.merge(1)
    assert [change.state.value for change in desk(github, runs).sync().changes] == ["merged"]


def test_what_people_reopen_is_not_closed_again(github, runs):
    runs.add("run1", NORM)
    desk(github, runs).open()
    runs.add("run2", FASTER_NORM)
    desk(github, runs).open()
    reopen(github, 1)
    desk(github, runs).sync()
    runs.add("run3", FASTER_NORM)
    desk(github, runs).open()
    assert len(open_ones(github)) == 2


@pytest.mark.parametrize("fate", ["closed", "merged"])
def test_another_grouping_proposes_nothing_again(site, runs, fate):
    runs.add("run1", NORM, Kernel(changes={"site": "tests.other"}, share=0.1))
    desk(site, runs).open()
    for number in (1, 2):
        (site.close if fate == "closed" else site.merge)(number)
    desk(site, runs).sync()
    outcomes = desk(site, runs, grouping=Grouping.OP).open()
    assert kinds(outcomes) == ["left"]
    assert fate in outcomes[0].reason


def test_one_for_all_is_not_proposed_again_one_by_one(site, runs):
    runs.add("run1", NORM, Kernel(changes={"site": "tests.other"}, share=0.1))
    desk(site, runs, grouping=Grouping.OP).open()
    assert kinds(desk(site, runs).open()) == ["left", "left"]
    site.merge(1)
    desk(site, runs, grouping=Grouping.OP).sync()
    assert kinds(desk(site, runs).open()) == ["left", "left"]
