"""A command with a language model that the model server plays, as a user would configure it."""

import os
import subprocess
import sys
from pathlib import Path

from candidates.ledger.ledger import Ledger
from tests.model_server.server import KEY, MODEL, ModelServer

PRICES = {"input": 3.0, "cache_read": 0.3, "cache_write": 3.75, "output": 15.0}
PATIENCE_S = 500


def configure(home: Path, **servers: ModelServer) -> None:
    """Endpoints by name, with a price; their key is in MY_KEY."""
    price = ", ".join(f"{name} = {value}" for name, value in PRICES.items())
    home.joinpath("models.toml").write_text(
        "\n".join(
            f'[{name}]\napi = "anthropic-messages"\nmodel = "{MODEL}"\nbase_url = "{server.url}"\nserver = "vendor"\n'
            f'key_env = "MY_KEY"\nusd_per_million_tokens = {{ {price} }}\n'
            for name, server in servers.items()
        )
    )


def environment(home: Path) -> dict[str, str]:
    foreign = ("OPENAI_", "ANTHROPIC_", "COMPILER_AGENT_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return own | {"COMPILER_AGENT_HOME": str(home), "MY_KEY": KEY}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "compiler_agent", *arguments]


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Its output never holds the key."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, env=environment(home), check=False
    )
    assert KEY not in done.stdout + done.stderr
    return done


def open_ledger(home: Path) -> Ledger:
    return Ledger(f"sqlite:///{home / 'ledger.sqlite'}")


def billed_tokens(server: ModelServer) -> int:
    return sum(
        bill.input_tokens + bill.cache_read_tokens + bill.cache_write_tokens + bill.output_tokens
        for bill in server.billed
    )
