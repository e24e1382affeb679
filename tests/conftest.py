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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip that nobody allowed is a check that silently did not run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    allowed = (Path(__file__).parent / "allowed_skips.txt").read_text().splitlines()
    for report in reporter.stats.get("skipped", []) if reporter is not None else []:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(line and not line.startswith("#") and line in reason for line in allowed):
            reporter.write_line(f"skip without an allowed reason: {report.nodeid}: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
