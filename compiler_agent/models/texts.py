"""Texts of records: changed wherever they stand, and made such that they can be written."""

from collections.abc import Callable
from typing import TypeVar, get_args

from candidates.record import Record

R = TypeVar("R", bound=Record)


def repair_surrogates(text: str) -> str:
    """With split pairs joined and lone halves replaced: endpoints send them as escapes of JSON, UTF-8 has none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def change_texts(record: R, change: Callable[[str], str]) -> R:
    """`record` with each text in it changed, at any depth; names of fields and words of a fixed choice stay."""
    changed = {}
    for name, field in type(record).model_fields.items():
        content = getattr(record, name)
        is_choice = isinstance(content, str) and str not in (field.annotation, *get_args(field.annotation))
        changed[name] = content if is_choice else _changed(content, change)
    return record.model_copy(update=changed)


def _changed(content: object, change: Callable[[str], str]) -> object:
    match content:
        case str():
            return change(content)
        case Record():
            return change_texts(content, change)
        case list() | tuple():
            return type(content)(_changed(each, change) for each in content)
        case dict():
            return {name: _changed(each, change) for name, each in content.items()}
        case _:
            return content
