"""Wins of real ledgers as pull requests on every forge: opened once, updated, superseded, left alone, merged."""

import json
import multiprocessing
import re
from pathlib import Path

import pytest

from candidates.forge import ForgeBusy, PullRequestState
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.pull_requests.desk import list_pull_requests
from candidates.pull_requests.facts import Event
from candidates.pull_requests.publish import OutcomeKind
from candidates.pull_requests.win import Grouping
from tests.candidates.pull_requests.past_runs import PACKED_LINEAR, RMSNORM_SOURCE, Kernel, PastRuns
from tests.compiler_agent.forges.desks import FASTER_NORM, NORM, all_of, desk, kinds, open_ones
from tests.compiler_agent.forges.sites import SITES, open_github
from tests.forge_server.faults import Fault

# Idempotent


def again(site, runs):
    """Nothing happened between."""


def base_moved(site, runs):
    site.repository.commit("main", {"elsewhere.txt": "other work\n"})


def ledger_lost(site, runs):
    """Another machine, or a ledger restored from before."""
    lost = runs.home / "ledger.sqlite"
    runs.ledger.engine.dispose()
    for path in lost.parent.glob("ledger.sqlite*"):
        path.unlink()
    runs.ledger = PastRuns(runs.home).ledger
    runs.add("run1", NORM)


def measured_again_within_noise(site, runs):
    runs.add("run2", Kernel(speedup=1.505))


def label_taken_off(site, runs):
    if site.server is not None:
        site.server.pulls.one(1).labels.clear()


UNCHANGED = [again, base_moved, label_taken_off, measured_again_within_noise]


@pytest.mark.parametrize("scenario", [*UNCHANGED, ledger_lost], ids=lambda scenario: scenario.__name__)
def test_pull_request_is_idempotent(site, runs, scenario):
    runs.add("run1", NORM)
    first = desk(site, runs).open()
    assert kinds(first) == ["opened"]
    before, head = site.traces(), site.repository.head(first[0].branch)
    scenario(site, runs)
    if scenario is base_moved and site.server is None:
        before = site.traces()
    (second,) = desk(site, runs).open()
    assert second.url == first[0].url
    assert len(open_ones(site)) == len(all_of(site)) == 1
    assert site.repository.head(second.branch) == head
    if scenario in UNCHANGED:
        assert second.kind is OutcomeKind.UNCHANGED
        assert site.traces() == before
    assert kinds(desk(site, runs).open()) == ["unchanged"]


def test_the_same_win_with_other_figures_updates_its_pull_request(site, runs):
    runs.add("run1", NORM)
    (first,) = desk(site, runs).open()
    runs.add("run2", Kernel(speedup=1.9))
    (second,) = desk(site, runs).open()
    assert (second.kind, second.url) == (OutcomeKind.UPDATED, first.url)
    (shown,) = open_ones(site)
    assert "1.90x" in shown.text.title
    assert len(all_of(site)) == 1


def test_two_at_once_open_one(github, runs, tmp_path):
    """In processes of their own, with one home."""
    runs.add("run1", NORM, PACKED_LINEAR)
    context = multiprocessing.get_context("fork")
    runs.ledger.engine.dispose()

    def work():
        desk(github, runs, forge=open_github(github.server), home=runs.home).open()

    workers = [context.Process(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(github.server.pulls.all) == 2
    assert github.server.pushes() == 2


@pytest.mark.parametrize("moment", ["before_push", "before_opening", "answer_lost", "before_labels"])
def test_what_was_cut_off_is_finished_and_not_repeated(github, runs, moment):
    runs.add("run1", NORM)
    method, path = {
        "before_push": ("POST", "git-receive-pack"),
        "before_opening": ("POST", "/pulls$"),
        "answer_lost": ("POST", "/pulls$"),
        "before_labels": ("POST", "/labels$"),
    }[moment]
    fault = Fault(method=method, path=path, status=502, times=100, is_done=moment == "answer_lost")
    github.server.faults.append(fault)
    if moment == "answer_lost":
        fault.times = 1
        desk(github, runs).open()
    else:
        with pytest.raises(ForgeBusy):
            desk(github, runs).open()
    fault.times = 0
    report = desk(github, runs).sync()
    if moment != "answer_lost" and moment != "before_labels":
        assert kinds(report.outcomes) == ["opened"]
    desk(github, runs).open()
    (pull,) = github.server.pulls.all
    assert pull.labels == ["compiler-agent"]
    assert github.server.pushes() == (2 if moment == "before_push" else 1)


@pytest.mark.parametrize("refusal", ["may_push", "may_write"])
def test_a_token_that_may_not_is_said_and_may_be_mended(github, runs, refusal):
    runs.add("run1", NORM)
    setattr(github.server, refusal, False)
    (outcome,) = desk(github, runs).open()
    assert outcome.kind is OutcomeKind.REFUSED
    assert re.search(r"not allowed|may not", outcome.reason)
    setattr(github.server, refusal, True)
    assert kinds(desk(github, runs).open()) == ["opened"]
    assert len(github.server.pulls.all) == 1


# Other people


def test_a_branch_with_commits_of_others_is_never_touched(site, runs):
    runs.add("run1", NORM)
    (first,) = desk(site, runs).open()
    theirs = site.repository.commit(first.branch, {"note.txt": "mine\n"})
    runs.add("run2", Kernel(speedup=2.5))
    (second,) = desk(site, runs).open()
    assert second.kind is OutcomeKind.LEFT
    assert "commits of others" in second.reason
    assert site.repository.head(first.branch) == theirs
    assert "1.50x" in open_ones(site)[0].text.title


def test_a_closed_pull_request_is_not_opened_again(site, runs):
    runs.add("run1", NORM)
    (first,) = desk(site, runs).open()
    site.close(1)
    for _ in range(2):
        (second,) = desk(site, runs).open()
        assert second.kind is OutcomeKind.LEFT
        assert "not proposed again" in second.reason
    assert desk(site, runs).sync().changes == ()
    assert open_ones(site) == []
    assert len(all_of(site)) == 1
    assert first.url == second.url


@pytest.mark.parametrize(("speedup", "kind"), [(1.52, "left"), (1.8, "opened")])
def test_after_a_no_only_a_clearly_faster_kernel_asks_again(site, runs, speedup, kind):
    runs.add("run1", NORM)
    desk(site, runs).open()
    site.close(1)
    desk(site, runs).sync()
    runs.add("run2", Kernel(source=RMSNORM_SOURCE + "// other\n", speedup=speedup))
    assert kinds(desk(site, runs).open()) == [kind]


def test_a_newer_winner_supersedes_with_a_note_and_closes_the_old(site, runs):
    runs.add("run1", NORM)
    (old,) = desk(site, runs).open()
    runs.add("run2", FASTER_NORM)
    (new,) = desk(site, runs).open()
    assert new.kind is OutcomeKind.OPENED
    assert [each.url for each in open_ones(site)] == [new.url]
    assert new.url in site.comments(1)[0]
    before = site.traces()
    assert kinds(desk(site, runs).open()) == ["unchanged"]
    (late,) = desk(site, runs).open("run1")
    assert late.kind is OutcomeKind.LEFT
    assert site.traces() == before
    assert desk(site, runs).sync().changes == ()
    assert site.repository.head(old.branch) is not None


def test_an_old_one_that_people_work_on_is_told_and_stays_open(site, runs):
    runs.add("run1", NORM)
    (old,) = desk(site, runs).open()
    site.repository.commit(old.branch, {"note.txt": "mine\n"})
    runs.add("run2", FASTER_NORM)
    for _ in range(2):
        desk(site, runs).open()
    assert len(open_ones(site)) == 2
    assert len(site.comments(1)) == 1
    assert "stays open" in site.comments(1)[0]


def test_a_base_that_moved_below_our_folder_has_the_branch_made_anew(site, runs):
    """An older kernel of the same op was merged after the newer one was proposed."""
    runs.add("run1", NORM)
    (old,) = desk(site, runs).open()
    site.repository.commit(old.branch, {"note.txt": "mine\n"})  # so that it is not closed
    runs.add("run2", FASTER_NORM)
    (new,) = desk(site, runs).open()
    site.merge(1)
    (updated,) = desk(site, runs).open()
    assert (updated.kind, updated.url) == (OutcomeKind.UPDATED, new.url)
    base, head = site.repository.head("main"), site.repository.head(new.branch)
    assert site.repository.git("merge-base", base, head) == base
    assert kinds(desk(site, runs).open()) == ["unchanged"]


def test_files_that_people_changed_in_the_base_are_a_conflict_in_words(site, runs):
    runs.add("run1", NORM)
    (first,) = desk(site, runs).open()
    site.merge(1)
    desk(site, runs).sync()
    (name,) = [name for name in site.repository.files("main") if name.endswith(".cpp")]
    site.repository.commit("main", {name: "// mended by hand\n"})
    runs.add("run2", FASTER_NORM)
    (second,) = desk(site, runs).open()
    assert second.kind is OutcomeKind.CONFLICT
    assert Path(name).name in second.reason
    assert open_ones(site) == []
    assert first.url != second.url


def test_a_folder_that_cannot_be_is_a_conflict_in_words(site, runs):
    site.repository.commit("main", {"compiler_agent_kernels": "a file\n"})
    runs.add("run1", NORM)
    (outcome,) = desk(site, runs).open()
    assert outcome.kind is OutcomeKind.CONFLICT
    assert "is a file in main" in outcome.reason


# How many, how


def test_no_more_are_open_than_may_be_and_the_next_gets_its_turn(site, runs):
    runs.add("run1", NORM, PACKED_LINEAR)
    outcomes = desk(site, runs, most_open=1).open()
    assert kinds(outcomes) == ["opened", "deferred"]
    assert outcomes[0].op == "linear"  # takes more time
    assert kinds(desk(site, runs, most_open=1).sync().outcomes) == ["unchanged", "deferred"]
    site.merge(1)
    report = desk(site, runs, most_open=1).sync()
    assert [change.state for change in report.changes] == [PullRequestState.MERGED]
    assert kinds(report.outcomes) == ["left", "opened"]


def test_wins_of_one_op_may_come_together(site, runs):
    other = Kernel(changes={"site": "tests.other"}, source=RMSNORM_SOURCE + "// other\n")
    runs.add("run1", NORM, other, PACKED_LINEAR)
    outcomes = desk(site, runs, grouping=Grouping.OP).open()
    assert kinds(outcomes) == ["opened", "opened"]
    together = next(each for each in open_ones(site) if "2 kernels" in each.text.title)
    files = site.repository.files(together.branch)
    assert sum(name.endswith(".cpp") for name in files) == 2
    assert sum("/test_" in name for name in files) == 2


def test_a_dry_run_shows_text_and_difference_and_changes_nothing(site, runs):
    runs.add("run1", NORM)
    before = site.traces()
    (planned,) = desk(site, runs).open(is_dry_run=True)
    assert planned.kind is OutcomeKind.PLANNED
    assert "### What changes" in planned.body
    assert "+extern" in planned.difference
    assert site.traces() == before
    assert PullRequestFacts(runs.ledger).of(site.forge.repository) == ()


def test_drafts_and_labels(site, runs):
    runs.add("run1", NORM)
    desk(site, runs, is_draft=True).open()
    (shown,) = open_ones(site)
    assert shown.is_draft
    assert shown.labels == ("compiler-agent",)


def test_a_build_that_did_not_pass_its_gates_is_not_proposed(site, runs):
    runs.add("run1", NORM, passes=False)
    assert desk(site, runs).open() == ()
    assert all_of(site) == []


def test_facts_are_added_only_when_something_happened(site, runs):
    runs.add("run1", NORM)
    for _ in range(2):
        desk(site, runs).open()
        desk(site, runs).sync()
    site.merge(1)
    for _ in range(2):
        desk(site, runs).sync()
        desk(site, runs).open()
    facts = PullRequestFacts(runs.ledger).of(site.forge.repository)
    assert [fact.event for fact in facts] == [Event.PUSHING, Event.OPENED, Event.MERGED]
    assert [each.last.event for each in list_pull_requests(runs.ledger, site.forge.repository)] == [Event.MERGED]


def test_every_file_and_the_body_are_the_same_for_equal_records(github, runs, tmp_path):
    runs.add("run1", NORM)
    other = PastRuns(tmp_path / "other")
    other.add("run1", NORM)
    plans = [desk(github, each).open(is_dry_run=True)[0] for each in (runs, other)]
    assert plans[0] == plans[1]
    manifest = re.search(r"^\+\{.*?^\+\}", plans[0].difference, re.MULTILINE | re.DOTALL)
    assert manifest is not None
    assert json.loads(manifest[0].replace("\n+", "\n")[1:])["kernels"][0]["op"] == "rmsnorm"


# Several runs, several wins


def test_an_older_run_does_not_overwrite_figures_of_a_later(site, runs):
    runs.add("run1", NORM)
    desk(site, runs).open()
    runs.add("run2", Kernel(speedup=1.9))
    desk(site, runs).open()
    before = site.traces()
    assert kinds(desk(site, runs).open("run1")) == ["left"]
    assert site.traces() == before
    assert "1.90x" in open_ones(site)[0].text.title
    assert kinds(desk(site, runs).open("run2")) == ["unchanged"]


def test_intervals_that_overlap_are_noise(github, runs):
    outcomes = []
    for night, speedup in enumerate((1.50, 1.54, 1.50, 1.54)):
        runs.add(f"run{night}", Kernel(speedup=speedup))
        outcomes += kinds(desk(github, runs).open())
    assert outcomes == ["opened", "unchanged", "unchanged", "unchanged"]
    assert github.server.pushes() == 1


def test_what_changed_for_any_kernel_of_several_is_no_noise(github, runs):
    other = {"changes": {"site": "tests.other"}, "source": RMSNORM_SOURCE + "// other\n", "share": 0.1}
    runs.add("run1", NORM, Kernel(speedup=2.0, **other))
    desk(github, runs, grouping=Grouping.OP).open()
    runs.add("run2", NORM, Kernel(speedup=1.1, **other))
    assert kinds(desk(github, runs, grouping=Grouping.OP).open()) == ["updated"]
    assert "1.10x" in open_ones(github)[0].text.body


def test_two_wins_of_one_place_both_come(github, runs):
    reference = NORM.task.reference.replace("1e-5", "1e-6") + "\n"
    runs.add("run1", NORM, Kernel(changes={"reference": reference}, source=RMSNORM_SOURCE + "// other\n"))
    (outcome,) = desk(github, runs).open()
    files = github.repository.files(outcome.branch)
    assert sum(name.endswith(".cpp") for name in files) == 2
    assert sum(name.endswith(".dispatch.json") for name in files) == 2
    assert sum("/test_" in name for name in files) == 2


def test_a_refusal_of_one_leaves_the_others(github, runs):
    runs.add("run1", PACKED_LINEAR, NORM)
    hook = github.repository.path / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncase $1 in *linear*) echo 'push protection' >&2; exit 1;; esac\n")
    hook.chmod(0o755)
    outcomes = desk(github, runs).open()
    assert kinds(outcomes) == ["refused", "opened"]
    assert "push protection" in outcomes[0].reason


def test_a_branch_whose_folder_is_obstructed_is_not_ours(site, runs):
    runs.add("run1", NORM, PACKED_LINEAR)
    linear = desk(site, runs).open()[0]
    ours = [name for name in site.repository.files(linear.branch) if name != "README.md"]
    obstructed = dict.fromkeys(ours) | {"compiler_agent_kernels": "a file\n"}
    site.repository.commit(linear.branch, obstructed)
    runs.add("run2", Kernel(speedup=1.9), PACKED_LINEAR)
    outcomes = desk(site, runs).open()
    assert kinds(outcomes) == ["left", "updated"]
    assert "commits of others" in outcomes[0].reason


def test_what_waits_gets_its_turn_only_where_the_newest_run_has_it(site, runs):
    runs.add("run1", PACKED_LINEAR, NORM)
    assert kinds(desk(site, runs, most_open=1).open()) == ["opened", "deferred"]
    runs.add("run2", PACKED_LINEAR)
    desk(site, runs, most_open=1).open()
    site.merge(1)
    assert desk(site, runs, most_open=1).sync().outcomes == ()


def test_a_squash_on_a_local_repository_is_seen_by_its_files(tmp_path, runs):
    with SITES["local"](tmp_path) as site:
        runs.add("run1", NORM)
        (opened,) = desk(site, runs).open()
        repository = site.repository
        tree = repository.git("rev-parse", f"{opened.branch}^{{tree}}")
        squashed = repository.git("commit-tree", tree, "-p", repository.head("main"), "-m", "squash")
        repository.git("update-ref", "refs/heads/main", squashed)
        for _ in range(2):
            assert kinds(desk(site, runs).open()) == ["left"]
        assert [each.last.event for each in list_pull_requests(runs.ledger, site.forge.repository)] == [Event.MERGED]
        assert open_ones(site) == []


def test_another_dispatch_entry_is_no_noise(github, runs):
    """The same figures, for a kernel that serves another range of shapes."""
    runs.add("run1", NORM)
    desk(github, runs).open()
    wider = [workload.model_copy(update={"axes": {"rows": 7}}) for workload in NORM.task.workloads[:1]]
    runs.add("run2", Kernel(changes={"workloads": (*wider, *NORM.task.workloads[1:])}))
    assert kinds(desk(github, runs).open()) == ["updated"]
