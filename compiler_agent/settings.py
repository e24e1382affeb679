"""Settings: where things are, from the environment, read once at the start of a command.

`configuration` puts beneath the environment what the file `compiler-agent.toml` sets.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from compiler_agent.forge_settings import ForgeSettings, read_forge_settings
from compiler_agent.outcome import UserFault
from compiler_agent.switches import read_switch


class SandboxName(StrEnum):
    """What holds untrusted programs; `SANDBOXES` in `wiring` says which class."""

    BUBBLEWRAP = "bubblewrap"
    DOCKER = "docker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path
    """`COMPILER_AGENT_HOME`: ledger, blobs, models, builds and logs; `./var` by default."""
    ledger_url: str
    """`COMPILER_AGENT_LEDGER`: SQLAlchemy URL, else what the file named by `COMPILER_AGENT_LEDGER_FILE` holds, else
    SQLite under `home`."""
    temporal_address: str | None
    """`COMPILER_AGENT_TEMPORAL`: host:port of a Temporal cluster. None: an embedded dev server is started."""
    temporal_namespace: str
    """`COMPILER_AGENT_TEMPORAL_NAMESPACE`."""
    blobs_place: str | None = None
    """`COMPILER_AGENT_BLOBS`: a folder, or an fsspec URL such as s3://bucket/prefix. None: `blobs` under `home`."""
    sandbox: SandboxName = SandboxName.BUBBLEWRAP
    """`COMPILER_AGENT_SANDBOX`; `--sandbox` of a command goes before it."""
    gpu_uuid: str | None = None
    """`COMPILER_AGENT_GPU`: the GPU, or part of one, that kernels for its architecture are judged on; None: no GPU is
    used."""
    allow_root: bool = False
    """`COMPILER_AGENT_ALLOW_ROOT`: `require_ordinary_user` lets root pass."""
    forge: ForgeSettings | None = None
    """`COMPILER_AGENT_REPOSITORY` and others, see `forge_settings`; None: no pull requests."""

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def cache(self) -> Path:
        """Compiled runners, compile caches: may be deleted at any time."""
        return self.home / "cache"


def read_settings(environment: Mapping[str, str] = os.environ, *, sandbox: SandboxName | None = None) -> Settings:
    """`sandbox` None: as the environment says. Raises UserFault."""
    home = read_home(environment)
    return Settings(
        home=home,
        ledger_url=_ledger_url(environment) or f"sqlite:///{home / 'ledger.sqlite'}",
        blobs_place=environment.get("COMPILER_AGENT_BLOBS") or None,
        temporal_address=environment.get("COMPILER_AGENT_TEMPORAL") or None,
        temporal_namespace=environment.get("COMPILER_AGENT_TEMPORAL_NAMESPACE") or "default",
        gpu_uuid=environment.get("COMPILER_AGENT_GPU") or None,
        allow_root=read_switch(environment, "COMPILER_AGENT_ALLOW_ROOT"),
        forge=read_forge_settings(environment),
        sandbox=sandbox or _sandbox_name(environment.get("COMPILER_AGENT_SANDBOX") or SandboxName.BUBBLEWRAP),
    )


def read_home(environment: Mapping[str, str] = os.environ) -> Path:
    return Path(environment.get("COMPILER_AGENT_HOME") or "var").absolute()


def _ledger_url(environment: Mapping[str, str]) -> str | None:
    url, file = environment.get("COMPILER_AGENT_LEDGER"), environment.get("COMPILER_AGENT_LEDGER_FILE")
    if url or not file:
        return url or None
    try:
        url = Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UserFault(
            f"cannot read the file that COMPILER_AGENT_LEDGER_FILE names ({type(error).__name__}): name one with the "
            "ledger's URL"
        ) from None
    if not url:
        raise UserFault("the file that COMPILER_AGENT_LEDGER_FILE names is empty: write the ledger's URL into it")
    return url


def _sandbox_name(name: str) -> SandboxName:
    try:
        return SandboxName(name)
    except ValueError as error:
        raise UserFault(f"no sandbox {name} (COMPILER_AGENT_SANDBOX): there are {', '.join(SandboxName)}") from error
