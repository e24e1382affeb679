"""Cards in the ledger: kept once, found by op class and device, the largest effects first."""

import pytest

from candidates.ledger.cards import Cards
from candidates.ledger.ledger import Ledger
from candidates.memory import Card, lessons
from candidates.task import KernelTask
from tests.candidates.past_searches import attempt, double_task, measurement


@pytest.fixture
def cards(ledger_url):
    return Cards(Ledger(ledger_url))


def card(ratio: float, name: str = "a", task: KernelTask | None = None, before: float = 1.0) -> Card:
    task = task or double_task()
    rows = tuple(workload.name for workload in task.public_workloads)
    parent = attempt(f"parent {name}", measurement(before, workloads=rows, device_id=task.device_id))
    made = attempt(
        f"child {name}", measurement(before * ratio, workloads=rows, device_id=task.device_id), parents=(parent,)
    )
    (found,) = lessons(task, (parent, made))
    return found


def test_a_card_is_kept_once(cards):
    cards.put((card(2.0), card(2.0)))
    cards.put((card(2.0),))
    assert cards.search(double_task()) == cards.newest(9) == (card(2.0),)


def test_the_largest_effects_come_first_whichever_way_they_went(cards):
    cards.put((card(1.1, "b"), card(0.25, "c"), card(2.0, "d")))
    assert [round(found.ratio, 2) for found in cards.search(double_task())] == [0.25, 2.0, 1.1]
    assert len(cards.search(double_task(), most=2)) == 2


def test_no_more_than_eight_are_given(cards):
    cards.put(card(1.1 + number / 10, str(number)) for number in range(12))
    found = cards.search(double_task())
    assert len(found) == 8
    assert found[0].ratio == pytest.approx(2.2)


def test_of_two_cards_about_one_pair_the_newer_counts(cards):
    cards.put((card(3.0), card(2.0, before=1.1)))
    assert [round(found.ratio, 2) for found in cards.search(double_task())] == [2.0]


def test_other_ops_and_other_devices_have_their_own(cards):
    cards.put((card(2.0),))
    assert cards.search(double_task(width=512)) != ()
    assert cards.search(double_task(device_id="cpu-1")) == ()
    assert cards.search(double_task(reference="def reference(x):\n    return x.exp()\n")) == ()


def test_what_is_hidden_in_the_task_that_asks_is_not_shown(cards):
    cards.put((card(2.0, task=double_task(rows=(4, 9))),))
    (found,) = cards.search(double_task(rows=(4,), hidden_rows=(9,)))
    assert [change.workload for change in found.workloads] == ["rows=4"]
