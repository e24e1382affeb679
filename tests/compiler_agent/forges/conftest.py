"""Every forge in its turn, and a ledger with runs of the past."""

import pytest

from tests.candidates.pull_requests.past_runs import PastRuns
from tests.compiler_agent.forges.sites import SITES


@pytest.fixture(params=SITES)
def site(request, tmp_path):
    with SITES[request.param](tmp_path) as site:
        yield site


@pytest.fixture
def github(tmp_path):
    with SITES["github"](tmp_path) as site:
        yield site


@pytest.fixture
def runs(tmp_path):
    return PastRuns(tmp_path / "home")
