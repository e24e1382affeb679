"""Filters in a URL: what a page was asked for, and links that ask for something else."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from candidates.standing import WINS, Cursor, Filters, Sort, State

_NAMES = {
    "op": "op",
    "site": "site",
    "device": "device_id",
    "model": "served_model",
    "language": "language",
    "agent": "agent",
    "endpoint": "endpoint",
    "class": "workload_class",
    "run": "run_id",
    "task": "task_id",
}
"""Of query parameters, and of what they filter."""

_STATES: Mapping[str, tuple[State, ...]] = {"wins": WINS, "all": tuple(State)} | {
    state.value: (state,) for state in State
}


class FiltersRefused(Exception):
    """The URL asks for something that is no filter; the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    filters: Filters
    sort: Sort
    after: Cursor | None
    query: Mapping[str, str]
    """The parameters without the place in the list, as they were given; those that filter nothing are left out."""

    def but(self, **changes: object) -> dict[str, object]:
        """The query with some parameters changed; None takes one away."""
        return {**self.query, **changes}


def read_filters(parameters: Mapping[str, str]) -> Asked:
    """`?state=wins&sort=age&device=…&op=…&class=chat&after=VALUE~NUMBER`; parameters of other names are not looked at.

    Raises FiltersRefused.
    """
    given = {name: value for name, value in parameters.items() if value and name in (*_NAMES, "state", "sort")}
    state, sort = given.get("state", "wins"), given.get("sort", Sort.AGE.value)
    if state not in _STATES:
        raise FiltersRefused(f"no state {state}: there are {', '.join(_STATES)}")
    if sort not in list(Sort):
        raise FiltersRefused(f"no order {sort}: there are {', '.join(Sort)}")
    fields = {field: given[name] for name, field in _NAMES.items() if name in given}
    try:
        filters = Filters.model_validate({"states": _STATES[state], **fields})
    except ValidationError as error:
        first = error.errors()[0]
        raise FiltersRefused(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return Asked(filters=filters, sort=Sort(sort), after=_cursor(parameters.get("after")), query=given)


def write_cursor(cursor: Cursor) -> str:
    return f"{cursor.value!r}~{cursor.number}"


def _cursor(text: str | None) -> Cursor | None:
    if not text:
        return None
    value, _, number = text.partition("~")
    try:
        return Cursor.model_validate({"value": float(value), "number": int(number)})
    except ValueError as error:
        raise FiltersRefused(f"{text[:40]!r} is no place in the list: take the link of the page before") from error
