"""Endpoints: which language models may be asked, from the environment and `models.toml`; their keys.

A record of an endpoint names where its key is and never holds it.
"""

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from candidates.record import Record
from compiler_agent.models.prices import Price
from compiler_agent.outcome import UserFault

ENDPOINTS_FILE = "models.toml"
"""In the home folder."""

_NAME = r"^[A-Za-z0-9._-]{1,64}$"


class ApiName(StrEnum):
    ANTHROPIC_MESSAGES = "anthropic-messages"
    OPENAI_RESPONSES = "openai-responses"
    OPENAI_CHAT = "openai-chat"
    """Chat completions: also vLLM, SGLang, Ollama, llama.cpp and most gateways."""


class Endpoint(Record):
    name: str = Field(pattern=_NAME)
    api: ApiName
    model: str = Field(min_length=1)
    base_url: str | None = Field(pattern=r"^https?://", default=None)
    """None: the vendor's own."""
    key_env: str | None = None
    key_file: str | None = None
    """Neither: no key is sent, as local servers want it."""
    server: Literal["vendor", "compatible"] | None = None
    """`compatible` is sent only what every server of the API knows; by default whatever has a `base_url`."""
    usd_per_million_tokens: Price | None = None
    """Over the price table."""

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("give key_env or key_file, not both")
        return self

    @property
    def is_vendors(self) -> bool:
        return self.server == "vendor" or (self.server is None and self.base_url is None)


def read_endpoints(home: Path, environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Those of `models.toml`, then `openai` and `anthropic` where their keys or base URLs are in the environment.

    Raises UserFault for a file that cannot be read, naming what is wrong in it.
    """
    in_file = _read_file(home / ENDPOINTS_FILE)
    names = {endpoint.name for endpoint in in_file}
    return in_file + tuple(endpoint for endpoint in _in_environment(environment) if endpoint.name not in names)


def find_endpoint(endpoints: tuple[Endpoint, ...], name: str | None) -> Endpoint:
    """By name; without one, the only one. Raises UserFault."""
    if not endpoints:
        raise UserFault(
            f"no language model is configured: set OPENAI_API_KEY and OPENAI_MODEL, or ANTHROPIC_API_KEY and "
            f'ANTHROPIC_MODEL, or write {ENDPOINTS_FILE} in the home folder (README, "Use your own models")'
        )
    fitting = [endpoint for endpoint in endpoints if name is None or endpoint.name == name]
    if len(fitting) != 1:
        names = ", ".join(endpoint.name for endpoint in endpoints)
        raise UserFault(f"no endpoint {name}: there are {names}" if name else f"name one of the endpoints: {names}")
    return fitting[0]


def read_key(endpoint: Endpoint, environment: Mapping[str, str]) -> str | None:
    """Raises UserFault where the endpoint names a key that is not there."""
    if endpoint.key_env is not None:
        key = environment.get(endpoint.key_env, "").strip()
        if not key:
            raise UserFault(f"endpoint {endpoint.name} has no key: set {endpoint.key_env}")
        return key
    if endpoint.key_file is None:
        return None
    path = Path(endpoint.key_file).expanduser()
    try:
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserFault(f"endpoint {endpoint.name}: cannot read its key file {path} ({error})") from error
    if not key:
        raise UserFault(f"endpoint {endpoint.name}: its key file {path} is empty")
    return key


def known_secrets(endpoints: tuple[Endpoint, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Every key that is there; what must never be written anywhere."""
    secrets = []
    for endpoint in endpoints:
        try:
            secrets.append(read_key(endpoint, environment))
        except UserFault:
            continue  # a key that is not there cannot leak; who uses the endpoint is told
    return tuple(secret for secret in secrets if secret is not None)


def _in_environment(environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    found = []
    for name, vendors_api, api in (
        ("openai", ApiName.OPENAI_RESPONSES, ApiName.OPENAI_CHAT),
        ("anthropic", ApiName.ANTHROPIC_MESSAGES, ApiName.ANTHROPIC_MESSAGES),
    ):
        key, base_url, model = (environment.get(f"{name.upper()}_{word}") for word in ("API_KEY", "BASE_URL", "MODEL"))
        if not key and not base_url:
            continue
        if not model:
            continue  # a key alone may be there for another program
        content = {
            "name": name,
            "api": api if base_url else vendors_api,
            "model": model,
            "base_url": base_url or None,
            "key_env": f"{name.upper()}_API_KEY" if key else None,
        }
        found.append(_endpoint(content, "the environment"))
    return tuple(found)


def _read_file(path: Path) -> tuple[Endpoint, ...]:
    if not path.exists():
        return ()
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserFault(f"cannot read {path}: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserFault(f'{path}: "{name}" stands outside a table; each endpoint is a table, [name]')
        if any("key" in field and field not in ("key_env", "key_file") for field in table):
            raise UserFault(f"{path}, [{name}]: keys do not belong in this file; use key_env or key_file")
    return tuple(_endpoint({"name": name} | table, str(path)) for name, table in tables.items())


def _endpoint(content: dict[str, Any], source: str) -> Endpoint:
    try:
        return Endpoint.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UserFault(f"endpoint {content.get('name')} in {source}: {field}: {first['msg']}") from error
