"""Paths that many tests need."""

from pathlib import Path

import pytest

SHARED_TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real public traces beside the checkout; skips where it is absent."""
    if not SHARED_TRACES.is_dir():
        pytest.skip("no real traces beside this checkout")
    return SHARED_TRACES
