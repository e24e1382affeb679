import os
import re
from pathlib import Path

import pytest

from leaderboard.access.tokens import TokenFault, TokenFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "board.json"


def test_a_token_is_known_by_its_name_until_it_is_removed(path: Path) -> None:
    tokens = TokenFile(path)
    ann, bob = tokens.create("ann"), tokens.create("bob@example.org")
    assert re.fullmatch(r"cat_[A-Za-z0-9_-]{43}", ann)
    assert (tokens.verify(ann), tokens.verify(bob)) == ("ann", "bob@example.org")
    assert tokens.names() == ("ann", "bob@example.org")
    other = TokenFile(path)
    other.remove("ann")
    assert (tokens.verify(ann), tokens.verify(bob)) == (None, "bob@example.org")


def test_no_token_is_known_where_there_is_no_file(path: Path) -> None:
    assert TokenFile(path).verify("cat_") is None
    assert TokenFile(path).names() == ()


@pytest.mark.parametrize("token", ["", "cat_", "ann", "\ud800", "ä" * 43, "\0"])
def test_what_is_no_token_is_nobodys(path: Path, token: str) -> None:
    tokens = TokenFile(path)
    tokens.create("ann")
    assert tokens.verify(token) is None


def test_neither_the_hash_nor_a_part_of_a_token_is_one(path: Path) -> None:
    tokens = TokenFile(path)
    token = tokens.create("ann")
    stored = re.findall(r"[0-9a-f]{64}", path.read_text())
    assert [tokens.verify(each) for each in (*stored, token[:-1], token + "A", token.upper())] == [None] * 4


def test_the_file_holds_no_token_and_is_its_owners_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        token = TokenFile(path).create("ann")
    finally:
        os.umask(before)
    assert token not in path.read_text()
    assert token.removeprefix("cat_") not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in path.parent.iterdir()) == ["board.json", "board.json.lock"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o640, 0o604])
def test_refuses_a_file_that_others_can_reach(path: Path, mode: int) -> None:
    tokens = TokenFile(path)
    token = tokens.create("ann")
    path.chmod(mode)
    for act in (lambda: tokens.verify(token), tokens.names, lambda: tokens.create("bob"), lambda: tokens.remove("ann")):
        with pytest.raises(TokenFault, match="chmod 600"):
            act()


def test_refuses_a_file_that_is_none_of_ours(path: Path) -> None:
    tokens = TokenFile(path)
    tokens.create("ann")
    path.write_text('{"tokens": [{"name": "ann", "sha256": ""}]}')
    with pytest.raises(TokenFault, match="holds no tokens"):
        tokens.names()


@pytest.mark.parametrize("name", ["", " ", "a b", "<b>", "a" * 65, "-a", "a\n", "ä"])
def test_refuses_a_name_that_pages_and_ledgers_cannot_hold(path: Path, name: str) -> None:
    with pytest.raises(TokenFault, match="no name"):
        TokenFile(path).create(name)


def test_a_name_has_one_token(path: Path) -> None:
    tokens = TokenFile(path)
    token = tokens.create("ann")
    with pytest.raises(TokenFault, match="remove it first"):
        tokens.create("ann")
    with pytest.raises(TokenFault, match="there are: ann"):
        tokens.remove("bob")
    assert tokens.verify(token) == "ann"
