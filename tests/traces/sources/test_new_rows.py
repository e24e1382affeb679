"""What is new at a source: no row is lost and none is taken twice, whatever becomes of the files meanwhile."""

import gzip
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traces.formats.read import read_trace
from traces.sources.fsspec_source import FsspecSource
from traces.sources.new_rows import NewRows, find_new_rows
from traces.sources.traffic import SeenFile

HEADER = json.dumps({"format": "compiler-agent-requests", "version": 1, "block_tokens": None})


def row(number: int) -> str:
    return json.dumps({"arrival_s": float(number), "prompt_tokens": number + 1, "output_tokens": 1})


def mooncake_row(number: int) -> str:
    return json.dumps({"timestamp": number, "input_length": number + 1, "output_length": 1, "hash_ids": [0]})


class Nights:
    """A folder that a server writes to, and what each night takes from it."""

    def __init__(self, tmp: Path, url: str | None = None) -> None:
        self.folder, self.kept = tmp / "serving", tmp / "traffic"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.source = FsspecSource(url or str(self.folder))
        self.known: list[SeenFile] = []
        self.taken: list[int] = []
        """Prompt lengths, which stand for the requests."""
        self._incoming = tmp / "incoming"
        self.last: NewRows

    def night(self, not_before: datetime | None = None) -> list[int]:
        shutil.rmtree(self._incoming, ignore_errors=True)
        self._incoming.mkdir()
        self.last = find_new_rows(self.source, self.known, self.kept, self._incoming, None, not_before)
        traffic, paths = self.last.keep_in(self.kept)
        self.known.extend(traffic.files)
        new = sorted(request.prompt_tokens for path in paths for request in read_trace([path]).requests)
        assert len(new) == traffic.requests
        self.taken += new
        return new

    def write(self, name: str, *numbers: int, end: str = "\n", header: str | None = HEADER) -> None:
        lines = [*([] if header is None else [header]), *map(row, numbers)]
        (self.folder / name).write_text("\n".join(lines) + end)

    def append(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(text)


@pytest.fixture
def nights(tmp_path):
    return Nights(tmp_path)


def test_takes_what_was_appended_since(nights):
    nights.write("a.jsonl", 1, 2)
    assert nights.night() == [2, 3]
    nights.append("a.jsonl", row(3) + "\n")
    assert nights.night() == [4]
    assert nights.night() == []
    assert nights.last.traffic.unchanged == 1


def test_a_rotated_log_shows_only_what_it_got_before_it_was_rotated(nights):
    nights.write("a.jsonl", 1, 2)
    nights.night()
    nights.append("a.jsonl", row(3) + "\n")
    (nights.folder / "a.jsonl").rename(nights.folder / "a.jsonl.1")
    nights.write("a.jsonl", 4)
    assert nights.night() == [4, 5]
    with (nights.folder / "a.jsonl.1").open("rb") as plain, gzip.open(nights.folder / "a.jsonl.2.gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    (nights.folder / "a.jsonl").rename(nights.folder / "a.jsonl.1")
    nights.write("a.jsonl", 5)
    assert nights.night() == [6]


def test_a_row_that_is_being_written_waits_and_is_then_taken_whole(nights):
    nights.write("a.jsonl", 1)
    nights.append("a.jsonl", row(2)[:20])
    assert nights.night() == [2]
    nights.append("a.jsonl", row(2)[20:])
    assert nights.night() == [3]
    nights.append("a.jsonl", "\n" + row(3) + "\n")
    assert nights.night() == [4]


def test_the_last_row_of_a_table_waits_for_its_line_end(nights):
    path = nights.folder / "a.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.0,5,1\n2023-11-16 18:17:04.0,6,1")
    assert nights.night() == [5]
    nights.append("a.csv", "0\n2023-11-16 18:17:05.0,7,2\n")
    assert nights.night() == [6, 7]


def test_an_archive_that_is_being_written_waits(nights):
    nights.write("a.jsonl", 1, 2, 3)
    packed = gzip.compress((nights.folder / "a.jsonl").read_bytes())
    nights.night()
    (nights.folder / "b.gz").write_bytes(packed[:-12])
    assert nights.night() == []
    assert [left.name for left in nights.last.traffic.left_out] == ["b.gz"]
    (nights.folder / "b.gz").write_bytes(packed)
    assert nights.night() == []
    assert not nights.last.traffic.left_out


def test_a_copy_is_not_new_and_neither_is_a_part_of_one(nights):
    nights.write("a.jsonl", 1, 2, 3)
    nights.write("b.jsonl", 1, 2)
    assert nights.night() == [2, 3, 4]
    nights.write("c.jsonl", 1)
    nights.write("d.jsonl", 1, 2, 3, 4)
    assert nights.night() == [5]


def test_where_the_kept_rows_of_a_night_are_gone_its_end_is_known(nights):
    nights.write("a.jsonl", 1, 2)
    nights.night()
    nights.append("a.jsonl", row(3) + "\n" + row(4) + "\n")
    nights.night()
    shutil.rmtree(nights.kept)
    nights.append("a.jsonl", row(5) + "\n")
    assert nights.night() == [6]
    nights.write("b.jsonl", 1, 2, 3)  # 3 lies within a night
    assert nights.night() == [4]


@pytest.mark.parametrize(
    "rubbish",
    [
        b'{"prompt": "' + b"a" * 200_000 + b'"}\n',
        b"one\rtwo\r",
        b"[" * 200_000,
        b"\0" * 100,
        b'"\n"',
        bytes(range(256)),
    ],
    ids=["long field", "carriage returns", "deep", "zeros", "quotes", "bytes"],
)
def test_rubbish_takes_nothing_from_the_files_beside_it(nights, rubbish):
    (nights.folder / "rubbish").write_bytes(rubbish)
    nights.write("good.jsonl", 1, 2)
    assert nights.night() == [2, 3]
    assert [left.name for left in nights.last.traffic.left_out] == ["rubbish"]


def test_a_file_that_no_format_knows_is_left_out_until_it_is_known(nights):
    nights.write("a.jsonl", 1)
    (nights.folder / "notes.txt").write_text("remember the milk\n")
    assert nights.night() == [2]
    (left,) = nights.last.traffic.left_out
    assert left.name == "notes.txt"
    assert str(nights.folder.parent) not in left.reason
    nights.write("notes.txt", 7)
    assert nights.night() == [8]


def test_prefix_blocks_that_cannot_be_leave_the_file_out_and_nothing_of_it_is_seen(nights):
    bad = json.dumps({"timestamp": 2, "input_length": 5000, "output_length": 1, "hash_ids": [1]})
    (nights.folder / "a").write_text(mooncake_row(1) + "\n" + bad + "\n")
    (nights.folder / "b").write_text(mooncake_row(3) + "\n")
    assert nights.night() == [4]
    assert "prefix blocks" in nights.last.traffic.left_out[0].reason
    (nights.folder / "a").write_text(mooncake_row(1) + "\n")
    assert nights.night() == [2]


def test_files_that_were_last_written_too_long_ago_are_passed_over(nights):
    for number, name in enumerate(("a.jsonl", "b.jsonl", "c.jsonl")):
        nights.write(name, number)
        os.utime(nights.folder / name, (number, number))
    assert nights.night(datetime.fromtimestamp(1, UTC)) == [2, 3]
    assert nights.last.traffic.too_old == 1
    nights.append("a.jsonl", row(7) + "\n")
    assert nights.night(datetime.fromtimestamp(1, UTC)) == [1, 8]


def test_formats_and_headers_make_a_trace_each(nights):
    nights.write("a.jsonl", 1)
    nights.write("b.jsonl", 2, header=HEADER.replace("null", "64"))
    (nights.folder / "c").write_text(mooncake_row(3) + "\n")
    nights.write("d.jsonl", 4)
    nights.night()
    assert sorted(nights.taken) == [2, 3, 4, 5]
    assert len({file.kept.trace for file in nights.known}) == 3


def test_the_record_says_which_rows_of_which_bytes(nights):
    nights.write("a.jsonl", 1, 2)
    nights.append("a.jsonl", "{}\n")
    nights.night()
    nights.append("a.jsonl", row(3) + "\n" + row(4) + "\n")
    nights.night()
    _, second = nights.known
    assert (second.rows_before, second.rows, second.requests, second.dropped) == (3, 2, 2, {})
    assert (second.earliest_s, second.latest_s) == (3.0, 4.0)
    assert second.version.size_bytes == (nights.folder / "a.jsonl").stat().st_size
    trace = nights.kept / second.kept.trace / "serving.trace"
    assert trace.read_bytes()[second.kept.begin_byte : second.kept.end_byte].decode() == f"{row(3)}\n{row(4)}\n"
    assert read_trace([trace]).digest == second.kept.trace


MOVES = st.sampled_from(
    [
        "append",
        "append",
        "append_part",
        "rotate",
        "pack",
        "copy",
        "copy_part",
        "cut",
        "empty",
        "remove",
        "night",
        "night",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(MOVES, st.integers(0, 9), st.integers(1, 4)), min_size=5, max_size=40))
def test_no_row_is_lost_and_none_is_taken_twice(tmp_path_factory, moves):
    """A server appends rows; in between logs are rotated, packed, copied, cut off and removed, in any order. What was
    there on some night has been taken once, what was gone before any night saw it not at all."""
    nights = Nights(tmp_path_factory.mktemp("nights"))
    log, folder, written = nights.folder / "a.jsonl", nights.folder, 0
    log.write_text(HEADER + "\n")
    part, there = "", set()

    def rows_in(path):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in content.split(b"\n")[1:]:
            try:
                yield json.loads(line)["prompt_tokens"]
            except ValueError:
                continue

    def close():
        """What a server does before its log is moved away."""
        nonlocal part
        if part:
            with log.open("a") as file:
                file.write(part + "\n")
            part = ""

    for number, (move, which, count) in enumerate(moves):
        others = sorted(path for path in folder.iterdir() if path != log)
        other = others[which % len(others)] if others else None
        match move:
            case "append":
                close()
                with log.open("a") as file:
                    file.writelines(row(written + index) + "\n" for index in range(count))
                written += count
            case "append_part":
                close()
                text, length = row(written), 5 * count
                with log.open("a") as file:
                    file.write(text[:length])
                part, written = text[length:], written + 1
            case "rotate":
                close()
                log.rename(folder / f"a.{number}")
                log.write_text(HEADER + "\n")
            case "pack" if other is not None and other.suffix != ".gz":
                (folder / f"{other.name}.gz").write_bytes(gzip.compress(other.read_bytes()))
                other.unlink()
            case "copy":
                close()
                shutil.copy(log, folder / f"copy.{number}")
            case "copy_part":
                close()
                content = log.read_bytes()
                (folder / f"copy.{number}").write_bytes(content[: max(len(HEADER) + 1, len(content) * which // 10)])
            case "cut":  # to some of its rows; the server goes on behind them
                close()
                lines = log.read_text().splitlines(keepends=True)
                log.write_text("".join(lines[: 1 + len(lines) * which // 10]))
            case "empty":
                close()
                log.write_text(HEADER + "\n")
            case "remove" if other is not None:
                other.unlink()
            case "night":
                there |= {prompt for path in folder.iterdir() for prompt in rows_in(path)}
                nights.night()
                assert not nights.last.traffic.left_out
        os.utime(log, (number, number))  # what the system's clock says is too coarse for moves this close together
    assert sorted(nights.taken) == sorted(there)
