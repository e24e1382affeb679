"""roll_back: the live build makes way for the last one before it that may still serve, and the ledger knows it."""

from candidates.ledger.approvals import Approvals
from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger
from candidates.serving_build.builds import Approval, BuildStore
from compiler_agent.settings import Settings


def roll_back(settings: Settings, by: str, live: str | None = None) -> Approval:
    """To none where there is no such build. `live`: which build must be the one that is; None: any.

    Raises NothingToRollBack, LiveMoved, BuildRefused, SigningKeyFault.
    """
    ledger = Ledger(settings.ledger_url)
    flaws = Flaws(ledger)
    store = BuildStore(settings.home)
    approval = store.rollback(by, lambda build: flaws.first_in(build) is None, live=live)
    Approvals(ledger).put(approval)
    return approval
