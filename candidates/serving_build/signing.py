"""Signatures of builds: made with a key of this home, so that serving processes load only what is from here.

A signature is a line of a file beside the manifest, over the manifest's exact bytes: signed or not, by one or many, a
build keeps its id. Keys are ed25519 (RFC 8032), the private one in a PKCS #8 file without a password.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from candidates.serving_build.runtime import MANIFEST, SIGNATURE, TRUSTED_KEYS, as_keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNING_KEY = "COMPILER_AGENT_SIGNING_KEY"
"""Environment: file of the private key; without it, the one under the home."""

_LINE = re.compile(r"ed25519 (?P<key>[0-9a-f]{64}) [0-9a-f]{128}\n")


class SigningKeyFault(Exception):
    """The private key's file is missing, no key, or readable by others, or a trusted key is none; the message says what
    to do."""


def key_file(home: Path, environment: Mapping[str, str] = os.environ) -> Path:
    return Path(environment.get(SIGNING_KEY) or home / "keys" / "signing.pem")


def make_key(home: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The public key, 64 hexadecimal digits. Raises SigningKeyFault where there is a key already, OSError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = key_file(home, environment)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    private = Ed25519PrivateKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SigningKeyFault(f"{path} is there already: builds are signed with it; move it away first") from None
    with open(descriptor, "wb") as file:
        file.write(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        os.fsync(file.fileno())
    return _public_of(private)


def public_key(home: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """Of the key that signs here; None where there is none. Raises SigningKeyFault."""
    private = _read_key(home, environment)
    return None if private is None else _public_of(private)


def trusted_keys(home: Path, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Whose builds may go live from this home: those that the environment names, and its own key.

    Raises SigningKeyFault.
    """
    try:
        named = as_keys(environment.get(TRUSTED_KEYS, ""))
    except ValueError as error:
        raise SigningKeyFault(f"{TRUSTED_KEYS}: {error}") from error
    own = public_key(home, environment)
    return tuple(dict.fromkeys([*named, *([] if own is None else [own])]))


def sign_manifest(home: Path, manifest: bytes, environment: Mapping[str, str] = os.environ) -> dict[str, bytes]:
    """What is to lie beside a manifest of these bytes, by file name; nothing without a key. Raises SigningKeyFault."""
    private = _read_key(home, environment)
    if private is None:
        return {}
    return {SIGNATURE: f"ed25519 {_public_of(private)} {private.sign(manifest).hex()}\n".encode()}


def sign_build(home: Path, build: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Adds this home's signature, whole or not at all; False where no key is.

    The build must have been verified. Raises SigningKeyFault, OSError.
    """
    own = sign_manifest(home, (build / MANIFEST).read_bytes(), environment).get(SIGNATURE, b"").decode()
    if not own:
        return False
    path = build / SIGNATURE
    present = path.read_text(encoding="ascii") if path.exists() else ""
    others = [line.group() for line in _LINE.finditer(present) if line["key"] not in own]
    # Made beside the folder: while it is written it would be a file that the manifest does not name.
    descriptor, unfinished = tempfile.mkstemp(prefix=".unfinished-", dir=build.parent)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write("".join([*others, own]))
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o644)
    Path(unfinished).replace(path)
    return True


def named_signers(build: Path) -> tuple[str, ...]:
    """Public keys that the build's signature file names; whether they signed, nobody has checked here."""
    try:
        text = (build / SIGNATURE).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ()
    return tuple(line["key"] for line in _LINE.finditer(text))


def _read_key(home: Path, environment: Mapping[str, str]) -> "Ed25519PrivateKey | None":
    path = key_file(home, environment)
    try:
        with path.open("rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read()
    except FileNotFoundError:
        if environment.get(SIGNING_KEY):
            raise SigningKeyFault(
                f"{path} does not exist ({SIGNING_KEY}): `compiler-agent keys new` makes it"
            ) from None
        return None
    if mode & 0o077:
        raise SigningKeyFault(f"{path} may be read or written by others: chmod 600 {path}, or make a new key")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise SigningKeyFault(f"{path} holds no private key without a password: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise SigningKeyFault(f"{path} holds a key that is not ed25519: `compiler-agent keys new` makes one")
    return private


def _public_of(private: "Ed25519PrivateKey") -> str:
    return private.public_key().public_bytes_raw().hex()
