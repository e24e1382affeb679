"""Names for what an export defines: of ops and models, which may be called anything, letters and digits stay."""

import hashlib
import keyword
import re
from collections.abc import Collection

_LENGTH = 48
_TAKEN = {"self", "torch", "nn", "serve", "serve_function"}
"""Names that generated code uses itself."""


def module_name(text: str) -> str:
    """A Python identifier in lower case: `LlamaMLP.decode` gives `llama_mlp_decode`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", _plain(text))
    name = re.sub(r"_+", "_", words.lower()).strip("_")[:_LENGTH].rstrip("_")
    return _identifier(name, text)


def class_name(text: str) -> str:
    """`apply_rotary_pos_emb` gives `ApplyRotaryPosEmb`, `Linear[64,64]` gives `Linear64x64`."""
    text_of_sizes = re.sub(r"(?<=\d),(?=\d)", "x", text)
    words = [word for word in _plain(text_of_sizes).split("_") if word]
    return _identifier("".join(word[0].upper() + word[1:] for word in words)[:_LENGTH], text)


def distribution_name(text: str) -> str:
    """Words of lower-case letters and digits joined by `-`, as pip takes them."""
    return module_name(text).strip("_").replace("_", "-")


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, or the first of `name_2`, `name_3` that is not taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def argument_names(names: Collection[str]) -> list[str]:
    """One identifier for each of `names`, all distinct and none that generated code uses itself."""
    found: list[str] = []
    for name in names:
        found.append(free_name(_identifier(_plain(name), name), found))
    return found


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")


def _identifier(name: str, text: str) -> str:
    """For a name of which nothing is left, one made of the digest of what it was."""
    if not name:
        name = f"unnamed_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    if name[0].isdigit():
        name = f"op_{name}"
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _TAKEN else name
