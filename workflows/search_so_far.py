"""search_so_far: where a search goes on whose run failed and is asked for again.

The server begins such a run anew; what was tried is in the ledger. The seconds that it took are not: it gets them anew.
"""

from candidates.ledger.ledger import Ledger
from workflows.payloads import SearchSoFar


def search_so_far(ledger: Ledger, run_id: str, task_id: str, agents: tuple[str, ...]) -> SearchSoFar:
    tried = len(ledger.attempts(run_id, task_id))
    ended = [end.stop_reason for end in ledger.search_ends(run_id) if end.task_id == task_id]
    # Of one that has ended nobody is asked for more: all of its agents have stopped.
    return SearchSoFar(tried=tried, stop_reasons=tuple(ended[0] for _ in agents) if ended else ())
