"""A real Temporal server, started once for these tests, with its state in a temporary folder."""

from pathlib import Path

import pytest

from compiler_agent.settings import Settings
from compiler_agent.temporal_server import temporal_server


@pytest.fixture(scope="session")
def server_address(tmp_path_factory):
    home: Path = tmp_path_factory.mktemp("temporal")
    settings = Settings(
        home=home,
        ledger_url=f"sqlite:///{home / 'ledger.sqlite'}",
        temporal_address=None,
        temporal_namespace="default",
    )
    with temporal_server(settings) as address:
        yield address
