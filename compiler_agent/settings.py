"""Settings: where things are, from the environment, read once at the start of a command."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path
    """`COMPILER_AGENT_HOME`: ledger, blobs, models, builds and logs; `./var` by default."""
    ledger_url: str
    """`COMPILER_AGENT_LEDGER`: SQLAlchemy URL; SQLite under `home` by default."""
    temporal_address: str | None
    """`COMPILER_AGENT_TEMPORAL`: host:port of a Temporal cluster. None: an embedded dev server is started."""
    temporal_namespace: str
    """`COMPILER_AGENT_TEMPORAL_NAMESPACE`."""

    @property
    def blobs(self) -> Path:
        return self.home / "blobs"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def cache(self) -> Path:
        """Compiled runners, compile caches: may be deleted at any time."""
        return self.home / "cache"


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    home = Path(environment.get("COMPILER_AGENT_HOME", "var")).absolute()
    return Settings(
        home=home,
        ledger_url=environment.get("COMPILER_AGENT_LEDGER", f"sqlite:///{home / 'ledger.sqlite'}"),
        temporal_address=environment.get("COMPILER_AGENT_TEMPORAL") or None,
        temporal_namespace=environment.get("COMPILER_AGENT_TEMPORAL_NAMESPACE", "default"),
    )
