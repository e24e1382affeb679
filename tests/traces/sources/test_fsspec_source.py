"""What is listed and read of folders, patterns, single files and object stores."""

import os
import time

import fsspec
import pytest

from traces.sources.fsspec_source import BadSourceUrl, FsspecSource
from traces.sources.source import SourceUnavailable


@pytest.fixture
def folder(tmp_path):
    """In `logs`: two files, one within a folder, a hidden one."""
    logs = tmp_path / "logs.d"
    for number, name in enumerate(("b.jsonl", "a.jsonl", "2026/11/c.jsonl.gz", ".partial", ".hidden/d")):
        path = logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (number, number))
    return logs


def names(source):
    return [file.name for file in source.list_files()]


def test_a_folder_is_listed_oldest_first_with_what_lies_within_and_without_hidden_files(folder):
    source = FsspecSource(str(folder))
    assert names(source) == ["b.jsonl", "a.jsonl", "2026/11/c.jsonl.gz"]
    assert b"".join(source.read("2026/11/c.jsonl.gz")) == b"2026/11/c.jsonl.gz"
    assert (source.label, source.url) == ("logs", f"file://{folder}")


def test_a_pattern_names_some_files_and_a_path_one(folder):
    assert names(FsspecSource(f"file://{folder}/*.jsonl")) == ["b.jsonl", "a.jsonl"]
    assert names(FsspecSource(f"{folder}/20*/*/*")) == ["2026/11/c.jsonl.gz"]
    single = FsspecSource(str(folder / "a.jsonl"))
    assert names(single) == ["a.jsonl"]
    assert b"".join(single.read("a.jsonl")) == b"a.jsonl"
    assert FsspecSource(f"{folder}/a*").label == "logs"
    assert single.label == "a"


def test_ways_to_write_one_place_are_one_place(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    places = ("logs.d", "./logs.d/", f"{folder}/", f"file://{folder}", f"file://{folder}/")
    assert {FsspecSource(place).url for place in places} == {f"file://{folder}"}


def test_a_file_that_grew_or_was_replaced_has_another_version(folder):
    source = FsspecSource(str(folder / "a.jsonl"))
    (first,) = source.list_files()
    assert source.list_files() == [first]
    (folder / "a.jsonl").write_text("A.jsonl")
    (second,) = source.list_files()
    assert second.version.size_bytes == first.version.size_bytes
    assert second.version != first.version


def test_an_object_store_is_read_by_its_url():
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/night/a.jsonl", b"one")
    time.sleep(0.001)  # the store knows objects by the time they were put
    source = FsspecSource("memory://bucket/night/")
    (first,) = source.list_files()
    store.pipe("/bucket/night/b.jsonl", b"two")
    store.pipe("/bucket/other/c.jsonl", b"three")
    assert names(source) == ["a.jsonl", "b.jsonl"]
    assert b"".join(source.read("b.jsonl")) == b"two"
    assert (source.label, first.version.size_bytes) == ("night", 3)
    assert first.version.modified_at is not None


def test_a_file_that_has_gone_since_it_was_listed_is_unavailable(folder):
    source = FsspecSource(str(folder))
    source.list_files()
    (folder / "a.jsonl").unlink()
    with pytest.raises(SourceUnavailable, match="FileNotFoundError"):
        list(source.read("a.jsonl"))


def test_a_place_that_is_not_there_cannot_be_listed_and_an_empty_one_is_empty(tmp_path):
    with pytest.raises(SourceUnavailable, match="cannot be listed"):
        FsspecSource(str(tmp_path / "nowhere")).list_files()
    assert FsspecSource(str(tmp_path)).list_files() == []
    assert FsspecSource(f"{tmp_path}/*.jsonl").list_files() == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("gopher://logs", "gopher"),
        ("s3://AKIA:s3cr3t@bucket/logs", "no user or password"),
        ("https://me@host/log", "no user or password"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_its_secrets(url, words):
    with pytest.raises(BadSourceUrl, match=words) as refused:
        FsspecSource(url)
    assert "s3cr3t" not in str(refused.value)
