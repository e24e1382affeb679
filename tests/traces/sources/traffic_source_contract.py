"""What every traffic source must do. To test a new one: subclass, and say how files come to its place."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from traces.sources.source import SourceUnavailable, TrafficSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    source: TrafficSource
    """Of a folder or prefix called `serving`; nothing is in it."""
    put: Callable[[str, bytes], None]
    """By name, each later than the ones before."""
    remove: Callable[[str], None]


class TrafficSourceContract:
    """Subclasses have the fixture `place`."""

    def test_lists_what_is_there_now_oldest_first(self, place: Place) -> None:
        place.put("b.jsonl", b"one")
        place.put("a.jsonl", b"three")
        place.put("2026/11/c.gz", b"")
        listed = place.source.list_files()
        assert [file.name for file in listed] == ["b.jsonl", "a.jsonl", "2026/11/c.gz"]
        assert [file.version.size_bytes for file in listed] == [3, 5, 0]
        place.remove("b.jsonl")
        assert place.source.list_files() == listed[1:]

    def test_passes_over_hidden_files(self, place: Place) -> None:
        place.put(".partial-1", b"one")
        place.put(".trash/a.jsonl", b"one")
        place.put("a.jsonl", b"one")
        assert [file.name for file in place.source.list_files()] == ["a.jsonl"]

    def test_reads_the_bytes_as_they_are_stored(self, place: Place) -> None:
        content = bytes(range(256)) * 10_000
        place.put("2026/a.jsonl", content)
        place.source.list_files()
        assert b"".join(place.source.read("2026/a.jsonl")) == content

    def test_a_file_that_was_replaced_has_another_version(self, place: Place) -> None:
        place.put("a.jsonl", b"one")
        (before,) = place.source.list_files()
        assert place.source.list_files() == [before]
        place.put("a.jsonl", b"two")
        (after,) = place.source.list_files()
        assert after.name == before.name
        assert after.version != before.version

    def test_a_file_that_has_gone_since_it_was_listed_is_unavailable(self, place: Place) -> None:
        place.put("a.jsonl", b"one")
        place.source.list_files()
        place.remove("a.jsonl")
        with pytest.raises(SourceUnavailable):
            list(place.source.read("a.jsonl"))

    def test_is_called_by_its_folder(self, place: Place) -> None:
        assert place.source.label == "serving"
