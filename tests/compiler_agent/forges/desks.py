"""A desk at a forge, and what is to be seen there."""

from candidates.file_lock import hold_lock
from candidates.ledger.ledger import Ledger
from candidates.pull_requests.decide import Rules
from candidates.pull_requests.desk import PullRequestDesk
from candidates.pull_requests.publish import Style
from candidates.pull_requests.win import Grouping
from candidates.serving_build.builds import BuildStore
from tests.candidates.pull_requests.past_runs import RMSNORM_SOURCE, Kernel

NORM = Kernel()
FASTER_NORM = Kernel(source=RMSNORM_SOURCE + "// better\n", speedup=1.8)


def desk(site, runs, *, forge=None, most_open=3, grouping=Grouping.PROMOTION, is_draft=False, home=None):
    return PullRequestDesk(
        runs.ledger if home is None else Ledger(f"sqlite:///{home / 'ledger.sqlite'}"),
        forge or site.forge,
        BuildStore(runs.home),
        style=Style(rules=Rules(most_open=most_open), is_draft=is_draft),
        grouping=grouping,
        versions=(("compiler-agent", "0.1.0"),),
        alone=lambda: hold_lock(runs.home / "lock"),
    )


def kinds(outcomes):
    return [outcome.kind.value for outcome in outcomes]


def open_ones(site):
    return list(site.forge.list_open())


def all_of(site):
    """Every pull request that there ever was."""
    if site.server is not None:
        return site.server.pulls.all
    return list((site.repository.path.parent / "records").glob("*.json"))
