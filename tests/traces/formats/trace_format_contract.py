"""What every trace format must do. To test a new one: subclass, and say its name, its header and some rows."""

import gzip
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traces.formats.read import FORMATS, read_trace
from traces.requests import RequestTrace, TraceError

JUNK = st.text(st.characters(blacklist_characters="\r\n\ufeff", blacklist_categories=["Cs"])).filter(str.strip)


class TraceFormatContract:
    name: ClassVar[str]
    header: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[tuple[str, ...]]
    """At least three good rows, one second apart, in order of arrival, prompts of distinct lengths."""
    bad_rows: ClassVar[dict[str, str]]
    """A row that is dropped, by the reason that it is counted by, as `reason` or `reason: variant`."""

    def write(self, path: Path, *rows: str, end: str = "\n") -> Path:
        path.write_bytes("\n".join([*self.header, *rows]).encode() + end.encode())
        return path

    def read(self, path: Path) -> RequestTrace:
        return read_trace([path])

    def test_is_recognised_by_content_and_by_nobody_else(self, tmp_path: Path) -> None:
        head = [*self.header, *self.rows]
        assert [known.name for known in FORMATS if known.recognises(head)] == [self.name]
        assert self.read(self.write(tmp_path / "traffic", *self.rows)).format == self.name

    def test_says_how_many_lines_its_rows_need_before_them(self, tmp_path: Path) -> None:
        (known,) = [known for known in FORMATS if known.name == self.name]
        assert known.header_lines == len(self.header)
        assert self.read(self.write(tmp_path / "traffic", *self.rows[1:])).counts.kept == len(self.rows) - 1

    def test_keeps_every_good_row_from_time_zero_on(self, tmp_path: Path) -> None:
        trace = self.read(self.write(tmp_path / "traffic", *self.rows))
        assert (trace.counts.read, trace.counts.kept, trace.counts.dropped) == (len(self.rows), len(self.rows), {})
        assert [request.arrival_s for request in trace.requests] == pytest.approx(range(len(self.rows)), abs=1e-7)

    def test_sorts_by_arrival(self, tmp_path: Path) -> None:
        trace = self.read(self.write(tmp_path / "a", *self.rows))
        shuffled = self.read(self.write(tmp_path / "b", *self.rows[::-1]))
        assert [request.prompt_tokens for request in shuffled.requests] == [
            request.prompt_tokens for request in trace.requests
        ]

    @pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
    def test_takes_any_end_of_file(self, tmp_path: Path, end: str) -> None:
        assert self.read(self.write(tmp_path / "traffic", *self.rows, end=end)).counts.read == len(self.rows)

    def test_takes_crlf_byte_order_mark_and_blank_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "traffic"
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join([*self.header, *self.rows]).encode())
        assert self.read(path).counts.kept == len(self.rows)

    def test_drops_and_counts_each_kind_of_bad_row(self, tmp_path: Path) -> None:
        for label, bad in self.bad_rows.items():
            path = self.write(tmp_path / "traffic", self.rows[0], bad, *self.rows[1:])
            counts = self.read(path).counts
            assert counts.dropped == {label.split(":")[0]: 1}, label
            assert counts.kept == len(self.rows), label
            assert counts.read == counts.kept + 1, label

    def test_survives_a_bad_first_row_when_named(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "traffic", "\x07 ☃ no row", *self.rows)
        assert read_trace([path], format=self.name).counts.kept == len(self.rows)

    # Each subclass runs this with rows of its own, and every example rewrites the one file in its folder.
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(junk=st.lists(JUNK, max_size=6), place=st.integers(1, 3))
    def test_rows_read_are_rows_kept_plus_rows_dropped(self, tmp_path: Path, junk: list[str], place: int) -> None:
        path = self.write(tmp_path / "traffic", *self.rows[:place], *junk, *self.rows[place:])
        counts = self.read(path).counts
        assert counts.kept == len(self.rows)
        assert counts.read == counts.kept + sum(counts.dropped.values())
        assert counts.read == len(self.rows) + len(junk)

    def test_gzip_reads_the_same(self, tmp_path: Path) -> None:
        plain = self.write(tmp_path / "traffic.txt", *self.rows)
        packed = tmp_path / "traffic.gz"
        packed.write_bytes(gzip.compress(plain.read_bytes()))
        assert self.read(packed).requests == self.read(plain).requests

    def test_refuses_gzip_that_ends_too_early(self, tmp_path: Path) -> None:
        plain = self.write(tmp_path / "plain", *self.rows * 200)
        packed = tmp_path / "traffic.gz"
        whole = gzip.compress(plain.read_bytes())
        for length in (3, 12, len(whole) // 2, len(whole) - 1):
            packed.write_bytes(whole[:length])
            with pytest.raises(TraceError, match=r"traffic\.gz.*(ends too early|broken gzip).*fetch"):
                self.read(packed)

    def test_refuses_gzip_with_broken_bytes(self, tmp_path: Path) -> None:
        whole = bytearray(gzip.compress(self.write(tmp_path / "plain", *self.rows * 200).read_bytes()))
        whole[-6] ^= 0xFF
        packed = tmp_path / "traffic.gz"
        packed.write_bytes(whole)
        with pytest.raises(TraceError, match=r"traffic\.gz.*broken gzip.*fetch"):
            self.read(packed)

    def test_refuses_a_file_without_a_usable_row(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "traffic", *self.bad_rows.values())
        with pytest.raises(TraceError, match=f"no usable request among {len(self.bad_rows)} rows"):
            read_trace([path], format=self.name)

    def test_the_class_that_is_asked_for_goes_to_every_request(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "traffic", *self.rows)
        classes = {request.workload_class for request in read_trace([path], workload_class="mine").requests}
        assert classes == {"mine"}
