"""What is listed and read of folders, patterns, single files and object stores."""

import itertools
import os
import time
import uuid

import fsspec
import pytest

from tests.traces.sources.traffic_source_contract import Place, TrafficSourceContract
from traces.sources.fsspec_source import BadSourceUrl, FsspecSource
from traces.sources.source import SourceUnavailable


class TestFolder(TrafficSourceContract):
    @pytest.fixture
    def place(self, tmp_path):
        folder, clock = tmp_path / "serving", itertools.count()
        folder.mkdir()

        def put(name, content):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            moment = next(clock)
            os.utime(path, (moment, moment))

        source = FsspecSource(f"{folder}/")
        return Place(source=source, put=put, remove=lambda name: (folder / name).unlink())


class TestObjectStore(TrafficSourceContract):
    @pytest.fixture
    def place(self):
        store, bucket = fsspec.filesystem("memory"), f"/{uuid.uuid4().hex}/serving"
        store.pipe(f"{bucket}-other/a.jsonl", b"of another prefix")
        store.pipe(f"{bucket}/.keep", b"")  # so that there is a folder

        def put(name, content):
            time.sleep(0.001)  # the store knows objects by the time they were put
            store.pipe(f"{bucket}/{name}", content)

        source = FsspecSource(f"memory:/{bucket}/")
        yield Place(source=source, put=put, remove=lambda name: store.rm(f"{bucket}/{name}"))
        store.rm(bucket, recursive=True)


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
        ("simplecache::s3://AKIA:s3cr3t@bucket/logs", "no user or password"),
        ("dir:///logs", "give a path"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_its_secrets(url, words):
    with pytest.raises(BadSourceUrl, match=words) as refused:
        FsspecSource(url)
    assert "s3cr3t" not in str(refused.value)


def test_a_link_stands_for_its_file_and_one_that_leads_to_none_for_nothing(tmp_path):
    folder, log = tmp_path / "logs", tmp_path / "log.1"
    folder.mkdir()
    log.write_text("one")
    for name, target in (("current", log), ("lost", tmp_path / "nowhere"), ("zeros", "/dev/zero"), ("above", tmp_path)):
        (folder / name).symlink_to(target)
    source = FsspecSource(str(folder))
    (before,) = source.list_files()
    assert before.name == "current"
    assert b"".join(source.read("current")) == b"one"
    log.write_text("two")
    os.utime(log, (1, 1))
    assert source.list_files() != [before]


def test_names_and_times_that_no_record_could_hold_are_told_in_others(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.jsonl")).write_text("one")
    path = os.fsencode(tmp_path) + b"/\xff.jsonl"
    os.utime(path, (10**14, 10**14))
    source = FsspecSource(str(tmp_path))
    (file,) = source.list_files()
    assert (file.name, b"".join(source.read(file.name))) == ("\\udcff.jsonl", b"one")
    if os.stat(path).st_mtime > 1e12:  # else the file system has cut it off
        assert file.version.modified_at is None
