"""MeteredModel: a model call within its budget: reserve, call, store, settle. What agents use.

A call that was answered is never paid for twice: it is asked for by an id of the caller's, and the stored answer comes
back for it, also in another process after a kill.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.model_calls import Answered, ModelCalls
from candidates.record import Record
from candidates.spending import BudgetStop, CallOutcome, ModelCall, ModelCallEnd, RecordedCall
from compiler_agent.models.apis import open_client
from compiler_agent.models.budget import most_input_tokens, spent_by, worst_case
from compiler_agent.models.completion import (
    Broken,
    Completion,
    ModelClient,
    ModelRejectedRequest,
    ModelRequest,
    ModelUnavailable,
)
from compiler_agent.models.endpoints import Endpoint, known_secrets, read_endpoints, read_key
from compiler_agent.models.prices import ListedPrice, read_prices
from compiler_agent.models.redaction import Redactor
from compiler_agent.models.retry import RetryPolicy
from compiler_agent.outcome import UserFault


class PaidCompletion(Record):
    """A completion and what it cost. `usd` is None for an endpoint without a price."""

    completion: Completion
    usd: float | None
    is_cost_known: bool
    """False: the endpoint did not say what it used, and `usd` is the reservation."""
    was_stored: bool
    """True: no call was made for it now."""
    request: str
    """Blob of the request."""
    transcript: str
    """Blob of the completion."""


class MeteredModel:
    def __init__(
        self,
        endpoint: Endpoint,
        client: ModelClient,
        price: ListedPrice | None,
        calls: ModelCalls,
        blobs: BlobStore,
        redactor: Redactor,
    ) -> None:
        self.endpoint, self.price = endpoint, price
        self._client, self._calls, self._blobs, self._redactor = client, calls, blobs, redactor

    def complete(self, call_id: str, request: ModelRequest, accounts: tuple[str, ...]) -> PaidCompletion | BudgetStop:
        """The answer to `call_id`, counted on all `accounts` (opened before with their caps).

        Raises ModelUnavailable and ModelRejectedRequest, unbilled: the id may be asked for again. Raises UserFault for
        an endpoint with neither a price nor a cap on the tokens of every account. A client that fails in any other way
        has answered: Broken. One worker at a time may ask for one id: CallRunning where two begin at one moment; where
        one took the other's call for lost, both are paid for, and the later end gets the earlier one's answer.
        """
        price = self._price_for(request, accounts)
        call = ModelCall(
            call_id=call_id,
            endpoint=self.endpoint.name,
            model=self.endpoint.model,
            accounts=accounts,
            reserved=worst_case(request, price.price if price else None),
            request=self._store(request),
        )
        match self._calls.begin(call):
            case BudgetStop() as stop:
                return stop
            case Answered() as answered:
                return self._stored(answered)
            case begun:
                return self._send(request, RecordedCall(try_number=begun.try_number, call=call, end=None))

    def _send(self, request: ModelRequest, tried: RecordedCall) -> PaidCompletion:
        reserved = tried.call.reserved
        try:
            completion, answer = self._ask(request)
        except (ModelUnavailable, ModelRejectedRequest) as error:
            is_away = isinstance(error, ModelUnavailable)
            end = ModelCallEnd(
                outcome=CallOutcome.UNAVAILABLE if is_away else CallOutcome.REJECTED,
                spent=reserved.model_copy(update={"nano_usd": 0, "tokens": 0, "milliseconds": 0}),
                is_spend_known=True,
                message=self._redactor.redact(str(error)),
            )
            self._calls.settle(tried, end)
            raise
        except BaseException as error:
            # Interrupted, or no answer could be kept: it may have been billed.
            end = ModelCallEnd(
                outcome=CallOutcome.CANCELLED,
                spent=reserved,
                is_spend_known=False,
                message=self._redactor.redact(f"{type(error).__name__}: {error}"),
            )
            self._calls.settle(tried, end)
            raise
        end = ModelCallEnd(
            outcome=CallOutcome(completion.outcome.kind),
            spent=spent_by(completion, self.price.price if self.price else None, reserved),
            is_spend_known=completion.usage is not None,
            usage=completion.usage,
            answer=answer,
        )
        if not self._calls.settle(tried, end):
            # Somebody else took this try for lost, which counts it at its reservation. One id, one answer.
            if answered := self._calls.answer_to(tried.call.call_id):
                return self._stored(answered)
            end = end.model_copy(update={"spent": reserved, "is_spend_known": False})
        return self._paid(completion, end, tried.call.request, answer, was_stored=False)

    def _ask(self, request: ModelRequest) -> tuple[Completion, str]:
        """A completion and its blob."""
        started = time.monotonic()
        try:
            completion = self._client.complete(request)
            return completion, self._store(completion)
        except (ModelUnavailable, ModelRejectedRequest):
            raise
        except Exception as error:  # noqa: BLE001 (billed, perhaps: without an answer, whoever asks again pays again)
            broken = Completion(
                outcome=Broken(text="", problem=self._redactor.redact(f"{type(error).__name__}: {error}")),
                usage=None,
                model=self.endpoint.model,
                seconds=time.monotonic() - started,
            )
            return broken, self._store(broken)

    def _price_for(self, request: ModelRequest, accounts: tuple[str, ...]) -> ListedPrice | None:
        if self.price is None:
            for account in accounts:
                if self._calls.balance(account).caps.tokens is None:
                    raise UserFault(
                        f"the price of {self.endpoint.model} (endpoint {self.endpoint.name}) is unknown: give "
                        f"usd_per_million_tokens in models.toml, or a price in prices.toml, or cap the tokens"
                    )
            return None
        most = self.price.price.up_to_input_tokens
        if most is not None and most_input_tokens(request) > most:
            raise ModelRejectedRequest(
                f"the prompt may have {most_input_tokens(request)} tokens, and the price of {self.endpoint.model} is "
                f"known up to {most}: shorten it, or give the price of long prompts"
            )
        return self.price

    def _store(self, record: Record) -> str:
        return self._blobs.put(self._redactor.redact_record(record).model_dump_json().encode())

    def _stored(self, answered: Answered) -> PaidCompletion:
        completion = Completion.model_validate_json(self._blobs.get(answered.answer))
        return self._paid(completion, answered.end, answered.request, answered.answer, was_stored=True)

    def _paid(
        self, completion: Completion, end: ModelCallEnd, request: str, answer: str, *, was_stored: bool
    ) -> PaidCompletion:
        return PaidCompletion(
            completion=completion,
            usd=None if self.price is None else end.spent.usd,
            is_cost_known=end.is_spend_known,
            was_stored=was_stored,
            request=request,
            transcript=answer,
        )


def open_model(
    endpoint: Endpoint,
    home: Path,
    environment: Mapping[str, str],
    ledger: Ledger,
    blobs: BlobStore,
    policy: RetryPolicy | None = None,
) -> MeteredModel:
    """Raises UserFault: no key, no SDK, an unreadable table of prices or endpoints."""
    key = read_key(endpoint, environment)
    secrets = known_secrets((*read_endpoints(home, environment), endpoint), environment)
    redactor = Redactor(secrets)
    return MeteredModel(
        endpoint=endpoint,
        client=open_client(endpoint, key, redactor, policy),
        price=price_of(endpoint, home),
        calls=ModelCalls(ledger),
        blobs=blobs,
        redactor=redactor,
    )


def price_of(endpoint: Endpoint, home: Path) -> ListedPrice | None:
    """None: it is not known. Raises UserFault for a price table that cannot be read."""
    if endpoint.usd_per_million_tokens is not None:
        return ListedPrice(price=endpoint.usd_per_million_tokens, source="models.toml", as_of=None)
    return read_prices(home).get(endpoint.model)
