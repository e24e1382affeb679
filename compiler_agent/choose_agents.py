"""choose_agents: who writes candidates, which models they may ask, and for how much, as a command was told."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from candidates.ledger.ledger import Ledger
from candidates.spending import MOST_CALLS, MOST_TOKENS, MOST_USD, Caps, ModelBudget
from compiler_agent.blob_store import open_blobs
from compiler_agent.models.endpoints import find_endpoint, read_endpoints
from compiler_agent.models.metered import open_model
from compiler_agent.outcome import UserFault
from compiler_agent.settings import Settings
from compiler_agent.wiring import AGENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenAgents:
    agents: tuple[str, ...]
    models: ModelBudget


def choose_agents(
    settings: Settings,
    agents: Sequence[str],
    endpoints: Sequence[str],
    *,
    usd: float | None = None,
    usd_per_op: float | None = None,
    tokens: int | None = None,
    calls: int | None = None,
    device_usd_per_hour: float | None = None,
    payback_days: float = 7.0,
) -> ChosenAgents:
    """Agents in their order, `search` where none is named; endpoints by name, the only one where none is named.

    Raises UserFault before anything is asked or recorded: an agent or endpoint that nobody knows, an endpoint without
    key or SDK, and spending that nothing bounds.
    """
    names = tuple(agents) or ("search",)
    for given in (names, tuple(endpoints)):
        if len(set(given)) < len(given):
            raise UserFault(f"named twice among {', '.join(given)}: name each once")
    for name in names:
        if name not in AGENTS:
            raise UserFault(f"no agent {name}: there are {', '.join(AGENTS)}")
    run, op = _caps(usd, tokens, calls), _caps(usd if usd_per_op is None else usd_per_op, tokens, calls)
    if not any(AGENTS[name].asks_models for name in names):
        if endpoints or op != Caps() or device_usd_per_hour is not None:
            raise UserFault(
                "--model-name, --budget-... and --device-usd-per-hour are for agents that ask models: add --agent llm"
            )
        return ChosenAgents(agents=names, models=ModelBudget())
    found = tuple(_usable_endpoint(settings, name, run) for name in endpoints or (None,))
    try:
        models = ModelBudget(
            endpoints=found, run=run, op=op, device_usd_per_hour=device_usd_per_hour, payback_days=payback_days
        )
    except ValidationError as error:
        raise UserFault(
            f"a device of {device_usd_per_hour} dollars an hour that pays back in {payback_days} days is none: give "
            f"finite numbers"
        ) from error
    return ChosenAgents(agents=names, models=models)


def _caps(usd: float | None, tokens: int | None, calls: int | None) -> Caps:
    try:
        return Caps(usd=usd, tokens=tokens, calls=calls)
    except ValidationError as error:
        raise UserFault(
            f"a budget of {usd} dollars, {tokens} tokens, {calls} calls bounds nothing: give at most {MOST_USD:.0f} "
            f"dollars, {MOST_TOKENS} tokens, {MOST_CALLS} calls, or leave one out"
        ) from error


def _usable_endpoint(settings: Settings, name: str | None, caps: Caps) -> str:
    endpoint = find_endpoint(read_endpoints(settings.home, os.environ), name)
    model = open_model(endpoint, settings.home, os.environ, Ledger(settings.ledger_url), open_blobs(settings))
    if caps.tokens is None and model.price is None:
        raise UserFault(
            f"the price of {endpoint.model} (endpoint {endpoint.name}) is unknown, so dollars bound nothing: give "
            f"--budget-tokens, or its price as usd_per_million_tokens in models.toml"
        )
    if caps.tokens is None and caps.usd is None:
        raise UserFault(f"say what {endpoint.name} may cost: --budget-usd 5, or --budget-tokens 1000000")
    return endpoint.name
