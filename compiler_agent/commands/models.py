"""`compiler-agent models check`: the language models that are configured, and whether they answer."""

import os
import secrets
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.printable import printable
from candidates.record import Record
from candidates.spending import BudgetStop, Caps, Usage
from compiler_agent.blob_store import open_blobs
from compiler_agent.commands.options import JsonOption
from compiler_agent.models.budget import most_input_tokens
from compiler_agent.models.completion import (
    CutOff,
    ModelRejectedRequest,
    ModelRequest,
    ModelUnavailable,
    Reply,
    UserMessage,
)
from compiler_agent.models.endpoints import Endpoint, find_endpoint, read_endpoints
from compiler_agent.models.metered import open_model
from compiler_agent.models.prices import Price
from compiler_agent.models.retry import RetryPolicy
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import Settings, read_settings

app = typer.Typer(help="Language models: whether they answer, and how well they write kernels.", no_args_is_help=True)

_PROBE = ModelRequest(
    prefix="You are asked whether you can be reached.",
    messages=(UserMessage(text="Answer with the one word: yes"),),
    max_output_tokens=64,
    timeout_s=60.0,
)

_POLICY = RetryPolicy(tries=2)
"""Someone is waiting for the answer."""


class CheckedEndpoint(Record):
    """`outcome`: what the call came to, `unavailable` or `rejected`; `fault` is whose."""

    name: str
    api: str
    model: str
    base_url: str | None
    outcome: str
    message: str
    fault: ExitCode
    seconds: float | None = None
    usage: Usage | None = None
    usd: float | None = None
    usd_per_million_tokens: Price | None = None
    price_source: str | None = None


@app.command()
def check(
    endpoint: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    json: JsonOption = False,
) -> ExitCode:
    """Makes one tiny call to each configured endpoint (a fraction of a cent each).

    Example: compiler-agent models check --endpoint local
    """
    settings = read_settings()
    endpoints = read_endpoints(settings.home, os.environ)
    if endpoint is not None or not endpoints:
        endpoints = (find_endpoint(endpoints, endpoint),)
    ledger = Ledger(settings.ledger_url)
    checked = tuple(_check(found, settings, ledger) for found in endpoints)
    if json:
        print_json({"endpoints": [one.model_dump(mode="json", exclude={"fault"}) for one in checked]})
    else:
        _print(checked)
    return max(one.fault for one in checked)


def _check(endpoint: Endpoint, settings: Settings, ledger: Ledger) -> CheckedEndpoint:
    unchecked = CheckedEndpoint(
        name=endpoint.name,
        api=endpoint.api,
        model=endpoint.model,
        base_url=endpoint.base_url,
        outcome="unavailable",
        message="",
        fault=ExitCode.USER_FAULT,
    )
    account = f"check/{endpoint.name}/{secrets.token_hex(4)}"
    tokens = most_input_tokens(_PROBE) + _PROBE.max_output_tokens
    ModelCalls(ledger).open_account(account, Caps(tokens=tokens, calls=1))
    try:
        model = open_model(endpoint, settings.home, os.environ, ledger, open_blobs(settings), _POLICY)
        if model.price is not None:
            price = {"usd_per_million_tokens": model.price.price, "price_source": model.price.source}
            unchecked = unchecked.model_copy(update=price)
        answer = model.complete(account, _PROBE, (account,))
    except (UserFault, ModelRejectedRequest) as error:
        return unchecked.model_copy(update={"outcome": "rejected", "message": str(error)})
    except ModelUnavailable as error:
        return unchecked.model_copy(update={"message": str(error)})
    if isinstance(answer, BudgetStop):
        raise RuntimeError(f"a probe of {tokens} tokens does not fit its own cap: {answer}")
    outcome = answer.completion.outcome
    answered = unchecked.model_copy(
        update={
            "outcome": outcome.kind,
            "seconds": answer.completion.seconds,
            "usage": answer.completion.usage,
            "usd": answer.usd,
        }
    )
    match outcome:
        case Reply() | CutOff():  # a model that thinks first may be cut off by so small a limit: it answers
            return answered.model_copy(update={"fault": ExitCode.DONE, "message": outcome.text.strip()})
        case _:
            return answered.model_copy(update={"fault": ExitCode.NOT_ACHIEVED, "message": str(outcome)})


def _print(checked: tuple[CheckedEndpoint, ...]) -> None:
    table = Table("endpoint", "api", "model", "outcome", "seconds", "price in/out", box=None, header_style="bold")
    for one in checked:
        price = one.usd_per_million_tokens
        table.add_row(
            one.name,
            one.api,
            escape(one.model),
            one.outcome if one.fault is ExitCode.DONE else f"[bold red]{one.outcome}[/]",
            "" if one.seconds is None else f"{one.seconds:.1f}",
            "unknown: cap the tokens" if price is None else f"${price.input:g}/${price.output:g} per million",
        )
    result_console.print(table)
    for one in checked:
        if one.fault is not ExitCode.DONE:
            result_console.print(printable(f"{one.name}: {one.message}"), highlight=False, markup=False, soft_wrap=True)
