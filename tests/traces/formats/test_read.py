import hashlib
import json
from pathlib import Path

import pytest

from traces.formats.read import read_trace
from traces.requests import TraceError


def write_project(path: Path, *rows: dict[str, object], block_tokens: int | None = 64) -> Path:
    header = {"format": "compiler-agent-requests", "version": 1, "block_tokens": block_tokens}
    path.write_text("".join(f"{json.dumps(row)}\n" for row in (header, *rows)))
    return path


def request(arrival_s: float, **more: object) -> dict[str, object]:
    return {"arrival_s": arrival_s, "prompt_tokens": 64, "output_tokens": 1} | more


def write_azure(path: Path, *seconds: int) -> Path:
    rows = "".join(f"2023-11-16 18:17:{second:02}.0000000,{second + 1},1\r\n" for second in seconds)
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + rows)
    return path


def test_merges_files_by_arrival_each_from_its_own_start(tmp_path: Path) -> None:
    coding = write_project(tmp_path / "coding.jsonl", request(10), request(12), request(14))
    chat = write_azure(tmp_path / "chat.csv", 30, 31)
    trace = read_trace([coding, chat])
    assert [(each.arrival_s, each.workload_class) for each in trace.requests] == [
        (0, "coding"),
        (0, "chat"),
        (1, "chat"),
        (2, "coding"),
        (4, "coding"),
    ]
    assert (trace.counts.read, trace.counts.kept) == (5, 5)
    assert (trace.format, trace.block_tokens) == ("project+azure_llm", 64)


def test_adds_up_what_each_file_dropped(tmp_path: Path) -> None:
    bad = request(0) | {"output_tokens": 0}
    paths = [write_project(tmp_path / name, request(0), bad, bad) for name in ("a", "b")]
    counts = read_trace(paths).counts
    assert (counts.read, counts.kept, counts.dropped) == (6, 2, {"zero_output_tokens": 4})


def test_keeps_block_ids_and_sessions_of_different_files_apart(tmp_path: Path) -> None:
    rows = [request(0, prefix_blocks=[7], session="s"), request(1, prefix_blocks=[7], session="s")]
    trace = read_trace([write_project(tmp_path / name, *rows) for name in ("a", "b")])
    of_a = [each for each in trace.requests if each.workload_class == "a"]
    of_b = [each for each in trace.requests if each.workload_class == "b"]
    assert of_a[0].prefix_blocks == of_a[1].prefix_blocks
    assert of_b[0].prefix_blocks == of_b[1].prefix_blocks
    assert of_a[0].prefix_blocks != of_b[0].prefix_blocks
    assert of_a[0].session == of_a[1].session != of_b[0].session


def test_refuses_to_merge_blocks_of_different_sizes(tmp_path: Path) -> None:
    paths = [
        write_project(tmp_path / "a", request(0)),
        write_project(tmp_path / "b", request(0), block_tokens=16),
    ]
    with pytest.raises(TraceError, match=r"different sizes: .*a \(64\), .*b \(16\).*one by one"):
        read_trace(paths)


def test_digest_is_the_sha256_of_the_bytes(tmp_path: Path) -> None:
    path = write_azure(tmp_path / "chat.csv", 1, 2)
    assert read_trace([path]).digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_trace([path, path]).digest != read_trace([path]).digest


def test_class_defaults_to_the_name_of_the_file_without_its_endings(tmp_path: Path) -> None:
    path = write_azure(tmp_path / "evening.csv.old", 1)
    assert read_trace([path]).requests[0].workload_class == "evening"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty file"),
        (b"\n \n\r\n", "empty file"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0", "binary"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "binary"),
        ("TIMESTAMP,ContextTokens".encode("utf-16"), "binary"),
        (b"hello\nworld\n", "unknown format.*project, mooncake, azure_llm"),
        (b'{"timestamp": 1}\n', "unknown format"),
        (b"[]", "unknown format"),
    ],
)
def test_refuses_what_is_no_trace(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "traffic"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=rf"traffic.*{complaint}"):
        read_trace([path])


def test_refuses_an_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "traffic"
    path.write_bytes(b'{"timestamp":' + b" " * (17 << 20))
    with pytest.raises(TraceError, match="line 1: a line longer than 16 MiB"):
        read_trace([path])


def test_refuses_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere: no such file: check the path"):
        read_trace([tmp_path / "nowhere"])
    with pytest.raises(TraceError, match="not a regular file"):
        read_trace([tmp_path])
    with pytest.raises(TraceError, match="name at least one"):
        read_trace([])


def test_refuses_a_format_that_nobody_knows(tmp_path: Path) -> None:
    path = write_azure(tmp_path / "chat.csv", 1)
    with pytest.raises(TraceError, match=r"unknown format 'sharegpt': known are project, mooncake, azure_llm"):
        read_trace([path], format="sharegpt")


def test_refuses_a_file_of_another_format_than_named(tmp_path: Path) -> None:
    path = write_azure(tmp_path / "chat.csv", 1)
    with pytest.raises(TraceError, match=r"no usable request among 2 rows \(bad_json 2\).*mooncake"):
        read_trace([path], format="mooncake")
