"""shut: closes a pull request for a reason of ours, so that a kill in between is never taken for what people did."""

from candidates.forge import Forge
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.pull_requests.facts import Event, Standing, following


def shut(forge: Forge, facts: PullRequestFacts, standing: Standing, number: int, event: Event, note: str) -> None:
    """`event`: SUPERSEDED or WITHDRAWN. May be repeated."""
    facts.add(following(standing, event, note=note, number=number, is_intended=True))
    forge.close(number)
    facts.add(following(standing, event, note=note, number=number))
