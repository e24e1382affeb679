"""The file `compiler-agent.toml`: what it sets lies beneath the environment, which the `read_…` functions read.

It is checked here for what a file can have wrong: keys that nobody knows, values of another type, secrets. What a value
means is checked by whoever reads its variable.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from compiler_agent.outcome import UserFault
from compiler_agent.setting_keys import HOME_FOLDER, KEYS, Key, Kind
from compiler_agent.settings import read_home

CONFIG = "COMPILER_AGENT_CONFIG"
FILE_NAME = "compiler-agent.toml"

_TYPES: Mapping[Kind, tuple[type, ...]] = {
    Kind.TEXT: (str,),
    Kind.PATH: (str,),
    Kind.URL: (str,),
    Kind.PLACE: (str,),
    Kind.WHOLE: (int,),
    Kind.NUMBER: (int, float),
    Kind.SWITCH: (bool,),
    Kind.WORDS: (list,),
    Kind.ADDRESSES: (list,),
}


class Source(StrEnum):
    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class InFile:
    text: str
    """As the variable would have it."""
    line: int | None
    """None: its line was not found, as in an inline table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What of the settings is from where."""

    file: Path | None = None
    in_file: Mapping[str, InFile] = field(default_factory=dict)
    """What counts of the file, by variable: not what the environment overrides."""

    def source(self, key: Key, environment: Mapping[str, str]) -> Source:
        if key.variable in self.in_file:
            return Source.FILE
        return Source.ENVIRONMENT if key.variable in environment else Source.DEFAULT

    def explain(self, message: str) -> str:
        """The message, with the place in the file of each variable that it names and that the file set."""
        places = [
            f"{key.variable} is {key.name} in {self._place(key)}"
            for key in KEYS
            if key.variable in self.in_file and re.search(rf"\b{key.variable}\b", message)
        ]
        return f"{message} ({'; '.join(places)})" if places else message

    def _place(self, key: Key) -> str:
        line = self.in_file[key.variable].line
        return f"{self.file}" if line is None else f"{self.file}, line {line}"


@dataclass(slots=True)
class Loaded:
    """What the command has loaded so far: its options come before it."""

    configuration: Configuration = field(default_factory=Configuration)


def find_file(named: Path | None, environment: Mapping[str, str]) -> Path | None:
    """`--config`, else COMPILER_AGENT_CONFIG, else `compiler-agent.toml` where we are, if it is there."""
    if named is None and environment.get(CONFIG):
        named = Path(environment[CONFIG]).expanduser()
    if named is None:
        return Path(FILE_NAME).absolute() if Path(FILE_NAME).exists() else None
    return named.absolute()


def apply_file(file: Path | None, environment: MutableMapping[str, str]) -> Configuration:
    """Sets in `environment` what the file has and it has not, once at the start of a command: so every reader, and
    every program that is started later, goes by the same values. Raises UserFault."""
    if file is None:
        return Configuration()
    counts = {
        variable: found
        for variable, found in read_file(file).items()
        # A file that the environment names holds the value, and the variable itself would go before it.
        if variable not in environment and not environment.get(f"{variable}_FILE")
    }
    environment.update({variable: found.text for variable, found in counts.items()})
    return Configuration(file=file, in_file=counts)


def read_file(file: Path) -> dict[str, InFile]:
    """By variable. Raises UserFault that names the key and the line."""
    try:
        text = file.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise UserFault(f"cannot read {file} ({error.strerror}): give another with --config or {CONFIG}") from error
    except (ValueError, RecursionError) as error:  # its own for wrong TOML tells the line
        raise UserFault(f"{file} is not TOML: {error}") from error
    keys, found = {key.name: key for key in KEYS}, {}
    for name, value in _flatten(tables, ""):
        line = _line_of(name, text)
        place = f"{file}: {name}" if line is None else f"{file}, line {line}: {name}"
        if name not in keys:
            if value == {} and any(key.startswith(f"{name}.") for key in keys):
                continue  # all of a table is commented out
            raise UserFault(f"{place} is no setting{_nearest(name, keys)}")
        if keys[name].variable in found:
            raise UserFault(f"{place} is there twice: a key in quotes is the same as one in a table")
        found[keys[name].variable] = InFile(text=_as_text(keys[name], value, place, file.parent), line=line)
    return found


def _flatten(table: Mapping[str, object], above: str) -> Iterator[tuple[str, object]]:
    for word, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{above}{word}.")
        else:
            yield f"{above}{word}", value


def _line_of(name: str, text: str) -> int | None:
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.fullmatch(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?", line):
            table = f"{_plain(header[1])}."
        elif (key := re.match(r"\s*([\w.\"' -]+?)\s*=", line)) and f"{table}{_plain(key[1])}" == name:
            return number
    return None


def _plain(name: str) -> str:
    return re.sub(r"[\s\"']", "", name)


def _nearest(name: str, keys: Mapping[str, Key]) -> str:
    near = difflib.get_close_matches(name, keys, n=1, cutoff=0.75)
    return f": did you mean {near[0]}?" if near else "; `compiler-agent config show` lists those there are"


def _as_text(key: Key, value: object, place: str, folder: Path) -> str:
    """Raises UserFault, which does not repeat the value: it may be a secret in the wrong place."""
    if key.is_secret:
        raise UserFault(f"{place} is a secret and has no place in a file of settings: set {key.variable}")
    if not isinstance(value, _TYPES[key.kind]) or (isinstance(value, bool) and key.kind is not Kind.SWITCH):
        raise UserFault(f"{place} has a {type(value).__name__}: give a {key.kind}")
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) and word.isprintable() for word in words if not isinstance(word, int | float)):
        raise UserFault(f"{place}: give a {key.kind}, in letters that can be printed")
    match key.kind:
        case Kind.SWITCH:
            return "1" if value else "0"
        case Kind.WORDS:
            return _joined(words, ",", place)
        case Kind.ADDRESSES:
            return _joined(words, " ", place)
        case Kind.PATH:
            return _located(str(value), place, folder) if value else ""
        case Kind.URL | Kind.PLACE if has_password(str(value)):
            raise UserFault(f"{place} has a password in it: leave it out, or set {key.variable} in the environment")
        case Kind.PLACE if value and "://" not in str(value):
            return _located(str(value), place, folder)
        case Kind.PLACE if relative := re.fullmatch(r"(sqlite(?:\+pysqlite)?:///)([^/:?][^:?]*)", str(value)):
            return f"{relative[1]}{_located(relative[2], place, folder)}"
        case _:
            return str(value)


def _located(path: str, place: str, folder: Path) -> str:
    try:
        return str(folder / Path(path).expanduser())
    except RuntimeError:
        raise UserFault(f"{place}: this machine has no user of that name: write the path without ~") from None


def _joined(words: list[object], separator: str, place: str) -> str:
    if not all(isinstance(word, str) and word and separator not in word for word in words):
        raise UserFault(f"{place}: give texts without {'commas' if separator == ',' else 'blanks'} in them")
    return separator.join(str(word) for word in words)


def has_password(url: str) -> bool:
    """Also one that stands behind the `?`, as database drivers take it."""
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password=" in parts.query
    except ValueError:  # whoever reads it says what is wrong
        return "@" in url


def shown(key: Key, text: str) -> str:
    """A value as it may be printed."""
    if key.is_secret:
        return "set" if text.strip() else "not set"
    match key.kind:
        case Kind.URL | Kind.PLACE:
            return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:/?@]*):.*@", r"\1:***@", text))
        case Kind.ADDRESSES:
            return " ".join(_host_alone(address) for address in text.split())
        case _:
            return text


def _host_alone(address: str) -> str:
    try:
        parts = urlsplit(address)
        return f"{parts.scheme}://{parts.hostname}/…"
    except ValueError:
        return "…"


def value_of(key: Key, environment: Mapping[str, str]) -> str:
    """As text, the default where nothing set it."""
    return environment.get(key.variable, key.default.replace(HOME_FOLDER, str(read_home(environment))))
