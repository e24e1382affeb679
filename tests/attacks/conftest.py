"""One court for the whole corpus, and its table at the end of the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus import CPP, Kernel
from court import HEARINGS, Court

from candidates.benchmark.baseline import BaselinePool


@pytest.fixture(scope="session")
def court(request: pytest.FixtureRequest, pool: BaselinePool, cache_folder: Path) -> Iterator[Court]:
    """It knows from the collected tests which kernels it will be asked about."""
    parameters = [item.callspec.params.values() for item in request.session.items if hasattr(item, "callspec")]
    every = [value for values in parameters for value in values if isinstance(value, Kernel)]
    kernels = [kernel for kernel in every if kernel.candidate.language is CPP.language.name]
    with Court(pool, cache_folder, kernels) as court:
        yield court


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not HEARINGS:
        return
    terminalreporter.section("attacks and honest kernels")
    rows = [(hearing.kernel, hearing.task, hearing.stage, hearing.said) for hearing in HEARINGS]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, hearing in zip(rows, HEARINGS, strict=True):
        cells = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        terminalreporter.write_line(f"{cells}  {hearing.seconds:5.1f} s")
