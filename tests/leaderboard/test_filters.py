import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.standing import WINS, Cursor, Sort, State
from leaderboard.filters import FiltersRefused, read_filters, write_cursor


def test_an_empty_query_asks_for_the_newest_wins():
    asked = read_filters({})
    assert (asked.filters.states, asked.sort, asked.after, asked.query) == (WINS, Sort.AGE, None, {})


def test_what_a_form_leaves_empty_filters_nothing():
    asked = read_filters({"op": "", "device": "cpu-1", "state": "", "after": "", "utm_source": "x"})
    assert (asked.filters.op, asked.filters.device_id, asked.query) == (None, "cpu-1", {"device": "cpu-1"})


def test_a_link_changes_one_parameter_and_keeps_the_others():
    asked = read_filters({"device": "cpu-1", "class": "chat", "after": "1.0~2"})
    assert asked.but(sort="speedup") == {"device": "cpu-1", "class": "chat", "sort": "speedup"}
    assert asked.but(device=None) == {"device": None, "class": "chat"}


@pytest.mark.parametrize("name", ["wins", "all", *State])
def test_states_go_by_their_names(name):
    assert read_filters({"state": name}).filters.states


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"state": "best"}, "no state best: there are wins, all, live"),
        ({"sort": "name"}, "no order name: there are age, speedup"),
        ({"language": "fortran"}, "language: "),
        ({"after": "x"}, "'x' is no place in the list"),
        ({"after": "nan~1"}, "is no place in the list"),
        ({"after": "1.0~"}, "is no place in the list"),
    ],
)
def test_refuses_what_is_no_filter_and_says_what_is(query, said):
    with pytest.raises(FiltersRefused, match=said):
        read_filters(query)


@given(value=st.floats(allow_nan=False, allow_infinity=False), number=st.integers(0, 2**62))
def test_a_place_in_the_list_survives_its_url(value, number):
    cursor = Cursor(value=value, number=number)
    assert read_filters({"after": write_cursor(cursor)}).after == cursor


@given(st.dictionaries(st.sampled_from(["op", "after", "state", "sort", "language", "run"]), st.text(max_size=30)))
def test_any_query_is_read_or_refused(query):
    with contextlib.suppress(FiltersRefused):
        assert read_filters(query).filters.states
