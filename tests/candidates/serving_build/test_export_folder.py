"""Export folders: whole, and never in place of anything that is not an export of ours."""

import json
from pathlib import Path

import pytest

from candidates.serving_build.export_folder import MARKER, NotOurs, write_export
from candidates.serving_build.target import Export


def export_of(**files: str) -> Export:
    contents = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    return Export(files=contents, carried=("k",), left_out=(), next_step="")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_writes_the_files_and_says_what_they_are(tmp_path: Path) -> None:
    write_export(export_of(a="1", b__c="2"), "any", "b" * 64, tmp_path / "x" / "export")
    found = content(tmp_path / "x" / "export")
    assert {name: found[name] for name in ("a", "b/c")} == {"a": b"1", "b/c": b"2"}
    marker = json.loads(found[MARKER])
    assert (marker["target"], marker["build_id"], sorted(marker["files"])) == ("any", "b" * 64, ["a", "b/c"])
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["export"]


def test_replaces_an_earlier_export_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    write_export(export_of(a="1", old="2"), "any", "b", tmp_path / "export")
    for left in ("__pycache__/a.pyc", "x.egg-info/PKG-INFO", "build/lib/x/a.py"):
        (tmp_path / "export" / left).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "export" / left).write_text("left by Python and pip")
    write_export(export_of(a="3"), "another", "c", tmp_path / "export")
    assert sorted(content(tmp_path / "export")) == ["a", MARKER]
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


@pytest.mark.parametrize("there", ["notes.txt", "a"])
def test_a_folder_with_other_files_is_left_as_it_was(tmp_path: Path, there: str) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / there).write_text("mine")
    with pytest.raises(NotOurs, match="holds no export of ours"):
        write_export(export_of(a="1"), "any", "b", tmp_path / "export")
    assert content(tmp_path / "export") == {there: b"mine"}


@pytest.mark.parametrize(("name", "words"), [("notes.txt", "is not of the export"), ("a", "was changed since")])
def test_an_export_that_somebody_worked_in_is_left_as_it_was(tmp_path: Path, name: str, words: str) -> None:
    write_export(export_of(a="1"), "any", "b", tmp_path / "export")
    (tmp_path / "export" / name).write_text("mine")
    before = content(tmp_path / "export")
    with pytest.raises(NotOurs, match=f"{name} {words}"):
        write_export(export_of(a="2"), "any", "b", tmp_path / "export")
    assert content(tmp_path / "export") == before


def test_a_link_in_an_export_is_not_followed(tmp_path: Path) -> None:
    write_export(export_of(a="1"), "any", "b", tmp_path / "export")
    (tmp_path / "outside").write_text("1")
    (tmp_path / "export" / "a").unlink()
    (tmp_path / "export" / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(NotOurs, match="a was changed"):
        write_export(export_of(a="1"), "any", "b", tmp_path / "export")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotOurs, match="not a folder"):
        write_export(export_of(a="1"), "any", "b", tmp_path / "file")


def test_the_same_export_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_export(export_of(a="1", b="2"), "any", "b", tmp_path / name)
    assert content(tmp_path / "one") == content(tmp_path / "two")
