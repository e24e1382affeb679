"""`compiler-agent transcript`: the dialogue with language models that wrote a candidate."""

import os
from typing import Annotated

import typer
from pydantic import ValidationError

from candidates.candidate import Proposal
from candidates.ledger.blobs import BlobError
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.proposals import proposals_of
from candidates.printable import printable
from candidates.transcript import Transcript, Turn
from compiler_agent.blob_store import open_blobs
from compiler_agent.commands.options import JsonOption
from compiler_agent.models.completion import (
    AssistantMessage,
    Broken,
    Completion,
    CutOff,
    Empty,
    Filtered,
    Message,
    ModelRequest,
    Outcome,
    Refused,
    Reply,
    ToolResult,
    UserMessage,
)
from compiler_agent.models.endpoints import known_secrets, read_endpoints
from compiler_agent.models.redaction import Redactor
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console
from compiler_agent.settings import Settings, read_settings


def transcript(
    candidate: Annotated[str, typer.Argument(help="Id of a candidate, or the start of it.")],
    full: Annotated[bool, typer.Option("--full", help="Also the part that many requests share.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Prints the dialogue that wrote a candidate: each call to a model, its purpose, its cost, request and reply.

    Keys were taken out when it was written. Exit code 1: no model wrote the candidate. --json leaves nothing out.

    Example: compiler-agent transcript 3f2a
    """
    settings = read_settings()
    ledger = Ledger(settings.ledger_url)
    try:
        found = ledger.candidate(candidate)
    except LedgerError as error:
        raise UserFault(str(error)) from error
    written = [proposal for proposal in proposals_of(ledger, found.id) if proposal.transcript is not None]
    # A key that was configured after the dialogue was stored is one that storing could not know.
    redactor = Redactor(known_secrets(read_endpoints(settings.home, os.environ), os.environ))
    texts = [_read(settings, proposal, redactor) for proposal in written]
    if json:
        print_json({"candidate": found.id, "dialogues": [_document(*one) for one in zip(written, texts, strict=True)]})
    else:
        for proposal, turns in zip(written, texts, strict=True):
            typer.echo(printable(_as_text(proposal, turns, full=full)))
    if not written:
        progress_console.print(f"no model wrote candidate {found.id[:12]}: it has no transcript", highlight=False)
        return ExitCode.NOT_ACHIEVED
    return ExitCode.DONE


_Dialogue = list[tuple[Turn, ModelRequest, Completion]]


def _read(settings: Settings, proposal: Proposal, redactor: Redactor) -> _Dialogue:
    blobs = open_blobs(settings)

    def content(digest: str) -> bytes:
        try:
            return blobs.get(digest)
        except BlobError as error:
            raise UserFault(f"the dialogue is not whole: {error}") from error

    try:
        return [
            (
                turn,
                redactor.redact_record(ModelRequest.model_validate_json(content(turn.request))),
                redactor.redact_record(Completion.model_validate_json(content(turn.answer))),
            )
            for turn in Transcript.model_validate_json(content(proposal.transcript or "")).turns
        ]
    except ValidationError as error:
        raise UserFault("the dialogue was written in another form, maybe by another version") from error


def _document(proposal: Proposal, dialogue: _Dialogue) -> dict[str, object]:
    return {
        "agent": proposal.agent,
        "model": proposal.model,
        "cost_usd": proposal.cost_usd,
        "turns": [
            turn.model_dump(mode="json", exclude={"request", "answer"})
            | {"request": request.model_dump(mode="json"), "answer": answer.model_dump(mode="json")}
            for turn, request, answer in dialogue
        ],
    }


def _as_text(proposal: Proposal, dialogue: _Dialogue, *, full: bool) -> str:
    parts = [f"written by agent {proposal.agent} for ${proposal.cost_usd:.4f}, {len(dialogue)} calls"]
    for number, (turn, request, answer) in enumerate(dialogue, start=1):
        second = ", second try" if turn.is_second_try else ""
        cost = "price unknown" if turn.usd is None else f"${turn.usd:.4f}"
        parts.append(
            f"=== {number} of {len(dialogue)}: {turn.purpose}{second}, {turn.endpoint} ({answer.model}), {cost}, "
            f"{answer.seconds:.1f} s, call {turn.call_id}"
        )
        folded = f"({len(request.prefix)} characters that many requests share: --full shows them)"
        parts += ["--- prefix", request.prefix if full else folded]
        for message in request.messages:
            parts += [f"--- {_speaker(message)}", _said(message)]
        parts += [f"--- answer: {answer.outcome.kind}", _outcome(answer.outcome)]
    return "\n".join(parts)


def _speaker(message: Message) -> str:
    return f"result of tool call {message.call_id}" if isinstance(message, ToolResult) else message.role


def _said(message: Message) -> str:
    match message:
        case UserMessage():
            return message.text
        case ToolResult():
            return message.content
        case AssistantMessage():
            calls = [f"(calls {call.name} with {call.arguments_json})" for call in message.tool_calls]
            return _lines(message.text, *calls)


def _outcome(outcome: Outcome) -> str:
    match outcome:
        case Reply():
            return _said(outcome.as_message())
        case CutOff():
            return _lines(outcome.text, f"(cut off at {outcome.limit})")
        case Refused():
            return outcome.explanation
        case Filtered():
            return _lines(outcome.text, f"(held back: {outcome.explanation})")
        case Broken():
            return _lines(outcome.text, f"(broke off: {outcome.problem})")
        case Empty():
            return "(not a word)"


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)
