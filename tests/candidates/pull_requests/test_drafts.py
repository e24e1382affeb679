"""Text and files of pull requests: what stands first, what is left out, how files are named."""

import subprocess
import sys

import pytest

from candidates.ledger.wins import proposed_of
from candidates.promotion import UNCHANGED, Gate, PromotionDecision
from candidates.pull_requests.body import MOST_CHARACTERS
from candidates.pull_requests.draft import draft_pull_request
from candidates.pull_requests.win import Grouping
from tests.candidates.pull_requests.past_runs import RMSNORM_SOURCE, Kernel, PastRuns

FIRST = ("### What you decide", "### Switch off", "### Gates", "### Provenance")


@pytest.fixture
def runs(tmp_path):
    return PastRuns(tmp_path / "home")


def draft_of(runs, run_id, grouping=Grouping.PROMOTION):
    (proposed,) = proposed_of(runs.ledger, run_id, grouping, ())
    return draft_pull_request(proposed, "kernels")


def test_what_a_reviewer_must_read_comes_before_the_kernels(runs):
    runs.add("run1", Kernel())
    body = draft_of(runs, "run1").text.body
    assert all(body.index(heading) < body.index("### `rmsnorm`") for heading in FIRST)


def test_only_whole_parts_of_kernels_are_left_out(runs):
    kernels = [Kernel(changes={"site": f"s{n}"}, source=f"int x{n};", note="long " * 300) for n in range(40)]
    runs.add("run1", *kernels)
    body = draft_of(runs, "run1", Grouping.OP).text.body
    assert len(body) < MOST_CHARACTERS + 300
    assert all(heading in body for heading in FIRST)
    assert "more parts did not fit: see the manifest" in body
    assert body.rstrip().endswith("-->")
    assert body.count("<details>") == body.count("</details>") > 0


def test_a_kernel_that_was_carried_on_shows_the_gates_that_it_passed(runs):
    runs.add("run1", Kernel())
    (won,) = runs.ledger.promotions("run1")

    def carry(decision):
        unchanged = Gate(name=UNCHANGED, figure="066ca03aacd6", bound="live", passed=True)
        return PromotionDecision(task_id=decision.task_id, candidate_id=decision.candidate_id, gates=(unchanged,))

    runs.add("run2", Kernel(), decide=carry)
    (proposed,) = proposed_of(runs.ledger, "run2", Grouping.PROMOTION, ())
    assert [gate.name for gate in proposed.wins[0].decision.gates] == [*(gate.name for gate in won.gates), UNCHANGED]


def test_no_kernel_is_taken_for_a_test(runs):
    source = "raise SystemExit('ran when tests were collected')\n"
    runs.add("run1", Kernel(changes={"op": "Test.Norm"}, candidate={"language": "triton"}, source=source))
    names = draft_of(runs, "run1").change.files
    (kernel,) = [name for name, content in names.items() if content == source.encode()]
    assert not kernel.startswith("test_")
    assert not kernel.endswith("_test.py")


def test_tests_of_all_folders_can_be_collected_together(runs, tmp_path):
    runs.add("run1", Kernel(), Kernel(changes={"site": "tests.other"}, source=RMSNORM_SOURCE + "// other\n"))
    drafts = [
        draft_pull_request(proposed, "kernels")
        for grouping in Grouping
        for proposed in proposed_of(runs.ledger, "run1", grouping, ())
    ]
    assert len(drafts) == 3
    for draft in drafts:
        folder = tmp_path / draft.change.folder
        folder.mkdir(parents=True)
        for name, content in draft.change.files.items():
            (folder / name).write_bytes(content)
    command = [sys.executable, "-I", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "kernels"]
    collected = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout
