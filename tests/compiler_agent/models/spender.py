"""A worker that spends, as a process of its own: `python -m tests.compiler_agent.models.spender '{…}'`.

It says `ready`, waits for a line, then calls until the budget stops it, or dies by SIGKILL where it is told to.
"""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import ModelCalls
from candidates.spending import BudgetStop, ModelCallEnd, RecordedCall
from compiler_agent.models.apis import open_client
from compiler_agent.models.completion import Completion, ModelClient, ModelRequest, ModelUnavailable, UserMessage
from compiler_agent.models.endpoints import ApiName, Endpoint
from compiler_agent.models.metered import MeteredModel
from compiler_agent.models.prices import ListedPrice, Price
from compiler_agent.models.redaction import Redactor
from compiler_agent.models.retry import RetryPolicy
from tests.model_server.server import KEY, MODEL

PRICE = Price(input=3.0, cache_read=0.3, cache_write=3.75, output=15.0)
RUN, OP = "run-1", "run-1/op-1"


def ask(text: str) -> ModelRequest:
    return ModelRequest(
        prefix="You write kernels. " * 40, messages=(UserMessage(text=text),), max_output_tokens=8000, timeout_s=60.0
    )


class DyingClient:
    """A ModelClient whose process ends `before_send` or `after_answer`."""

    def __init__(self, client: ModelClient, moment: str) -> None:
        self._client, self._moment = client, moment

    def complete(self, request: ModelRequest) -> Completion:
        if self._moment == "before_send":
            _die()
        completion = self._client.complete(request)
        if self._moment == "after_answer":
            _die()
        return completion


class DyingCalls(ModelCalls):
    """Ends the process just before or just after the transaction that settles."""

    def __init__(self, ledger: Ledger, moment: str) -> None:
        super().__init__(ledger)
        self._moment = moment

    def settle(self, tried: RecordedCall, end: ModelCallEnd) -> bool:
        if self._moment == "before_settle":
            _die()
        is_first = super().settle(tried, end)
        if self._moment == "after_settle":
            _die()
        return is_first


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


def open_spender(
    url: str, ledger_url: str, home: Path, api: ApiName = ApiName.ANTHROPIC_MESSAGES, die: str = ""
) -> MeteredModel:
    base_url = url if api is ApiName.ANTHROPIC_MESSAGES else f"{url}/v1"
    endpoint = Endpoint(name="test", api=api, model=MODEL, base_url=base_url, server="vendor")
    redactor = Redactor([KEY])
    policy = RetryPolicy(tries=4, first_wait_s=0.01)
    return MeteredModel(
        endpoint=endpoint,
        client=DyingClient(open_client(endpoint, KEY, redactor, policy), die),
        price=ListedPrice(price=PRICE, source="test", as_of=None),
        calls=DyingCalls(Ledger(ledger_url), die),
        blobs=BlobStore(home / "blobs"),
        redactor=redactor,
    )


def spend(model: MeteredModel, name: str, threads: int) -> list[BudgetStop]:
    """Calls from so many threads, each until the budget stops it."""

    def spend_alone(thread: int) -> BudgetStop:
        for number in range(10_000):
            try:
                answer = model.complete(f"{OP}/{name}/{thread}/{number}", ask(f"{name} {thread} {number}"), (RUN, OP))
            except ModelUnavailable:
                continue
            if isinstance(answer, BudgetStop):
                return answer
        raise AssertionError("ten thousand calls, and no budget ended them")

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(spend_alone, range(threads)))


def main(order: dict[str, Any]) -> None:
    model = open_spender(order["url"], order["ledger"], Path(order["home"]), die=order.get("die", ""))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    if "call" in order:
        model.complete(order["call"], ask("one"), (RUN, OP))
    else:
        spend(model, order["name"], order["threads"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
