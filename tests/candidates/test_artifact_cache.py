"""ArtifactCache: what is found again, what is built anew, and how much is kept."""

import os
from pathlib import Path

import pytest

from candidates.artifact_cache import ArtifactCache
from candidates.language import BuildRecipe

RECIPE = BuildRecipe(files={"a": b"1"}, commands=(("cc", "a"),), artifact="out", toolchain="cc 1")


def test_finds_what_was_kept_byte_for_byte(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path / "kept")
    assert cache.get(RECIPE) is None
    cache.put(RECIPE, b"\0hostile\n")
    assert ArtifactCache(tmp_path / "kept").get(RECIPE) == b"\0hostile\n"


@pytest.mark.parametrize(
    "other",
    [
        BuildRecipe(files={"a": b"2"}, commands=RECIPE.commands, artifact="out", toolchain="cc 1"),
        BuildRecipe(files={"b": b"1"}, commands=RECIPE.commands, artifact="out", toolchain="cc 1"),
        BuildRecipe(files=RECIPE.files, commands=(("cc", "-O3", "a"),), artifact="out", toolchain="cc 1"),
        BuildRecipe(files=RECIPE.files, commands=RECIPE.commands, artifact="report", toolchain="cc 1"),
        BuildRecipe(files=RECIPE.files, commands=RECIPE.commands, artifact="out", toolchain="cc 2"),
    ],
    ids=["content", "name", "command", "artifact", "toolchain"],
)
def test_another_build_is_another_entry(tmp_path: Path, other: BuildRecipe) -> None:
    cache = ArtifactCache(tmp_path)
    cache.put(RECIPE, b"1")
    assert cache.get(other) is None


def test_a_recipe_without_toolchain_is_never_kept(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path / "kept")
    recipe = BuildRecipe(files={}, commands=(), artifact="out")
    cache.put(recipe, b"1")
    assert cache.get(recipe) is None
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 40], ids=["empty", "short", "changed"])
def test_a_damaged_entry_is_no_entry(tmp_path: Path, damage: bytes) -> None:
    cache = ArtifactCache(tmp_path)
    cache.put(RECIPE, b"right")
    [entry] = tmp_path.iterdir()
    entry.write_bytes(damage)
    assert cache.get(RECIPE) is None
    cache.put(RECIPE, b"right")
    assert cache.get(RECIPE) == b"right"


def test_what_was_longest_unused_goes_first(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path, most_bytes=250)
    recipes = [BuildRecipe(files={}, commands=(), artifact=f"out{number}", toolchain="cc 1") for number in range(3)]
    for age, recipe in zip((30, 20), recipes[:2], strict=True):
        cache.put(recipe, b"x" * 80)
        [entry] = (path for path in tmp_path.iterdir() if path.stat().st_mtime > 1000)
        os.utime(entry, (age, age))
    assert cache.get(recipes[1]) is not None  # used now, though it was written first by its time
    cache.put(recipes[2], b"x" * 80)
    assert [cache.get(recipe) is not None for recipe in recipes] == [False, True, True]
