"""The ids of what an activity works on, for whatever is logged and traced meanwhile, also in its thread."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

NAMES = ("run_id", "night_id", "task_id", "candidate_id")
"""As the records that activities are given have them."""

_NOTHING: Mapping[str, str] = MappingProxyType({})
_IDS: ContextVar[Mapping[str, str]] = ContextVar("ids", default=_NOTHING)


@contextmanager
def about(**ids: str) -> Iterator[None]:
    """Beside those of around it."""
    token = _IDS.set({**_IDS.get(), **ids})
    try:
        yield
    finally:
        _IDS.reset(token)


def current_ids() -> Mapping[str, str]:
    return _IDS.get()


def ids_in(argument: object) -> dict[str, str]:
    """Those that a record names."""
    return {name: value for name in NAMES if isinstance(value := getattr(argument, name, None), str)}
