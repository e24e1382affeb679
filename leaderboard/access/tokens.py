"""TokenFile: the tokens with which people act on the page; the file holds their hashes alone.

A token is 256 bits from the system's generator. Slow, salted hashes are for what people choose: nobody finds one of
2**256 by trying, however fast a try is, and no table of them can be made. So sha256 does, and a request stays cheap.
"""

import hashlib
import hmac
import os
import re
import secrets
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from candidates.file_lock import hold_lock
from candidates.record import Record
from candidates.whole_file import write_whole

TOKEN_START = "cat_"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}"


class TokenFault(Exception):
    """The file is not to be trusted, or a name cannot be had; the message says what to do."""


class StoredToken(Record):
    name: str = Field(pattern=f"^{_NAME}$")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    created_at: datetime


class _Stored(Record):
    tokens: tuple[StoredToken, ...] = ()


class TokenFile:
    def __init__(self, path: Path) -> None:
        """`path` need not be there. It is read anew each time: what is removed stops at once."""
        self._path = path

    def create(self, name: str) -> str:
        """The token, which nobody can show again. Raises TokenFault, OSError."""
        if not re.fullmatch(_NAME, name):
            raise TokenFault(f"{name!r} is no name for a token: give up to 64 letters, digits and . _ @ -")
        token = TOKEN_START + secrets.token_urlsafe(32)
        with self._locked():
            stored = self._read()
            if any(each.name == name for each in stored):
                raise TokenFault(f"there is a token named {name}: remove it first, or choose another name")
            self._write((*stored, StoredToken(name=name, sha256=_hash_of(token), created_at=datetime.now(UTC))))
        return token

    def verify(self, token: str) -> str | None:
        """The name of a token; None: it is none of ours. Takes as long for each of them, and for none.

        Raises TokenFault, OSError.
        """
        given, found = _hash_of(token), None
        for each in self._read():
            if hmac.compare_digest(each.sha256, given):
                found = each.name
        return found

    def remove(self, name: str) -> None:
        """Raises TokenFault where there is none of that name, OSError."""
        with self._locked():
            stored = self._read()
            left = tuple(each for each in stored if each.name != name)
            if left == stored:
                known = ", ".join(each.name for each in stored) or "none"
                raise TokenFault(f"there is no token named {name!r}; there are: {known}")
            self._write(left)

    def names(self) -> tuple[str, ...]:
        """Oldest first. Raises TokenFault, OSError."""
        return tuple(each.name for each in self._read())

    def _read(self) -> tuple[StoredToken, ...]:
        try:
            with self._path.open("rb") as file:
                status, content = os.fstat(file.fileno()), file.read()
        except FileNotFoundError:
            return ()
        if status.st_mode & 0o077:
            raise TokenFault(
                f"{self._path} may be read or written by others, so anybody's token may be in it: look at it, then "
                f"chmod 600 {self._path}"
            )
        if status.st_uid not in (os.geteuid(), 0):
            raise TokenFault(f"{self._path} belongs to user {status.st_uid}: give it to the one who runs this")
        try:
            return _Stored.model_validate_json(content).tokens
        except ValidationError:
            raise TokenFault(f"{self._path} holds no tokens of ours: move it away and make them again") from None

    def _write(self, tokens: tuple[StoredToken, ...]) -> None:
        content = _Stored(tokens=tokens).model_dump_json(indent=2).encode() + b"\n"
        write_whole(self._path, content, mode=0o600)

    def _locked(self) -> AbstractContextManager[None]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return hold_lock(self._path.with_name(f"{self._path.name}.lock"))


def _hash_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
