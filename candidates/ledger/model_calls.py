"""ModelCalls: reserves what a model call may cost before it is sent, settles it after, and finds answers paid for.

Caps hold under any number of threads, processes and machines that share the database: comparing a balance with its cap
and raising it is one UPDATE, which SQLite runs under its write lock and PostgreSQL under the row's, re-reading it.
It knows no prices and makes no calls.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import ColumnElement, CursorResult, Update, and_, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import InstrumentedAttribute, Session

from candidates.ledger.database import begins_with, is_repetition
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.tables import ModelCallEndRow, ModelCallRow, SpendAccountRow, SpendStopRow
from candidates.spending import (
    LIMITS,
    Amount,
    Balance,
    BudgetStop,
    CallOutcome,
    Caps,
    Limit,
    ModelCall,
    ModelCallEnd,
    RecordedCall,
)


class Begun(NamedTuple):
    """The call is reserved: send it, then settle this try."""

    try_number: int


class Answered(NamedTuple):
    """The call was answered before; `answer` is the blob, `request` that of what it answers."""

    end: ModelCallEnd
    answer: str
    request: str


class CallRunning(Exception):
    """Another worker began the same call at this moment: ask again later."""


class _CapReached(Exception):
    """Rolls a reservation back."""

    def __init__(self, stop: BudgetStop) -> None:
        self.stop = stop


class ModelCalls:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def open_account(self, account: str, caps: Caps) -> None:
        """An account that exists keeps its caps."""
        self._ledger.insert(
            SpendAccountRow(
                account_id=account,
                cap_nano_usd=caps.nano_usd,
                cap_tokens=caps.tokens,
                cap_milliseconds=caps.milliseconds,
                cap_calls=caps.calls,
            )
        )

    def balance(self, account: str) -> Balance:
        """Raises LedgerError for an account that was never opened."""
        with Session(self._ledger.engine) as session:
            row = session.get(SpendAccountRow, account)
        if row is None:
            raise LedgerError(f"no spending account {account}: open it with its caps first")
        return Balance(
            account=account,
            caps=Caps(
                usd=None if row.cap_nano_usd is None else row.cap_nano_usd / 1e9,
                tokens=row.cap_tokens,
                seconds=None if row.cap_milliseconds is None else row.cap_milliseconds / 1e3,
                calls=row.cap_calls,
            ),
            used=Amount.model_validate({limit: getattr(row, f"used_{limit}") for limit in LIMITS}),
        )

    def used(self, account: str) -> Amount:
        """What calls took or have reserved; nothing of an account that was never opened."""
        try:
            return self.balance(account).used
        except LedgerError:  # opened by the first agent that may ask a model
            return Amount(nano_usd=0, tokens=0, milliseconds=0, calls=0)

    def begin(self, call: ModelCall) -> Begun | Answered | BudgetStop:
        """Reserves the call on all its accounts, or on none. One worker at a time may ask for one id.

        A BudgetStop holds for this moment: calls in flight may settle below what they reserved.

        An earlier try that never settled is taken for lost, stays counted at its reservation, and a new try is
        reserved. Raises CallRunning where another worker began the same call at this moment.
        """
        tries = self.tries(call.call_id)
        if answered := _answer_among(tries):
            return answered
        for tried in tries:
            if tried.end is None:
                lost = ModelCallEnd(outcome=CallOutcome.LOST, spent=tried.call.reserved, is_spend_known=False)
                if not self.settle(tried, lost):
                    return self.begin(call)  # it settled at this moment, perhaps with an answer
        try:
            self._reserve(call, len(tries) + 1)
        except _CapReached as reached:
            stop = reached.stop
            self._ledger.insert(SpendStopRow(account_id=stop.account, limit_name=stop.limit, record=stop.model_dump()))
            return stop
        return Begun(len(tries) + 1)

    def settle(self, tried: RecordedCall, end: ModelCallEnd) -> bool:
        """Replaces the reservation by what was spent, once; False for a try that was settled before."""
        row = ModelCallEndRow(
            call_id=tried.call.call_id,
            try_number=tried.try_number,
            outcome=end.outcome.value,
            record=end.model_dump(mode="json"),
        )
        try:
            with Session(self._ledger.engine) as session, session.begin():
                session.add(row)
                session.flush()
                for account in sorted(tried.call.accounts):
                    change = {
                        _used(limit): _used(limit) - getattr(tried.call.reserved, limit) + getattr(end.spent, limit)
                        for limit in LIMITS
                    }
                    _rows(session, update(SpendAccountRow).where(SpendAccountRow.account_id == account).values(change))
        except IntegrityError as error:
            if not is_repetition(error):
                raise
            return False
        return True

    def answer_to(self, call_id: str) -> Answered | None:
        return _answer_among(self.tries(call_id))

    def tries(self, call_id: str) -> tuple[RecordedCall, ...]:
        """In their order."""
        return self._recorded(ModelCallRow.call_id == call_id)

    def calls(self, id_prefix: str) -> tuple[RecordedCall, ...]:
        """All tries of the calls whose id begins so, in the order in which they were reserved."""
        return self._recorded(begins_with(ModelCallRow.call_id, id_prefix))

    def stops(self, account: str) -> tuple[BudgetStop, ...]:
        """Why calls on the account were refused, in their order; empty while none was."""
        statement = select(SpendStopRow.record).where(SpendStopRow.account_id == account)
        with Session(self._ledger.engine) as session:
            return tuple(
                BudgetStop.model_validate(record)
                for record in session.scalars(statement.order_by(SpendStopRow.sequence))
            )

    def _reserve(self, call: ModelCall, try_number: int) -> None:
        row = ModelCallRow(call_id=call.call_id, try_number=try_number, record=call.model_dump(mode="json"))
        try:
            with Session(self._ledger.engine) as session, session.begin():
                # Sorted, so that two calls never wait for each other's rows.
                for account in sorted(call.accounts):
                    stop = _raise_balance(session, account, call.reserved)
                    if stop is not None:
                        raise _CapReached(stop)
                session.add(row)
        except IntegrityError as error:
            if not is_repetition(error):
                raise
            raise CallRunning(f"call {call.call_id} is being made by another worker: wait for it") from error

    def _recorded(self, condition: ColumnElement[bool]) -> tuple[RecordedCall, ...]:
        statement = (
            select(ModelCallRow.try_number, ModelCallRow.record, ModelCallEndRow.record)
            .outerjoin(
                ModelCallEndRow,
                and_(
                    ModelCallEndRow.call_id == ModelCallRow.call_id,
                    ModelCallEndRow.try_number == ModelCallRow.try_number,
                ),
            )
            .where(condition)
            .order_by(ModelCallRow.sequence)
        )
        with Session(self._ledger.engine) as session:
            return tuple(
                RecordedCall.model_validate({"try_number": number, "call": call, "end": end})
                for number, call, end in session.execute(statement)
            )


def _answer_among(tries: Iterable[RecordedCall]) -> Answered | None:
    for tried in tries:
        if tried.end is not None and tried.end.answer is not None:
            return Answered(tried.end, tried.end.answer, tried.call.request)
    return None


def _raise_balance(session: Session, account: str, asked: Amount) -> BudgetStop | None:
    """None: `asked` is now counted on the account."""
    raising = (
        update(SpendAccountRow)
        .where(
            SpendAccountRow.account_id == account,
            *(or_(_cap(limit).is_(None), _used(limit) + getattr(asked, limit) <= _cap(limit)) for limit in LIMITS),
        )
        .values({_used(limit): _used(limit) + getattr(asked, limit) for limit in LIMITS})
    )
    for _ in range(2):  # the second succeeds if another call settled between the first and the reading
        if _rows(session, raising) == 1:
            return None
        reading = select(SpendAccountRow).where(SpendAccountRow.account_id == account).with_for_update()
        row = session.scalars(reading.execution_options(populate_existing=True)).first()
        if row is None:
            break
        for limit in LIMITS:
            cap, used = getattr(row, f"cap_{limit}"), getattr(row, f"used_{limit}")
            if cap is not None and used + getattr(asked, limit) > cap:
                return BudgetStop(account=account, limit=limit, cap=cap, used=used, asked=getattr(asked, limit))
    raise LedgerError(f"no spending account {account}: open it with its caps first")


def _rows(session: Session, statement: Update) -> int:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount


def _cap(limit: Limit) -> InstrumentedAttribute[int | None]:
    column: InstrumentedAttribute[int | None] = getattr(SpendAccountRow, f"cap_{limit}")
    return column


def _used(limit: Limit) -> InstrumentedAttribute[int]:
    column: InstrumentedAttribute[int] = getattr(SpendAccountRow, f"used_{limit}")
    return column
