"""The most that a request can cost, known before it is sent."""

import math

from candidates.spending import Amount
from compiler_agent.models.completion import AssistantMessage, Completion, ModelRequest, ToolResult
from compiler_agent.models.prices import Price

_TOKENS_PER_MESSAGE = 64
"""Generous: chat templates add a handful of tokens around a message."""

_TOKENS_OF_FRAME = 512
"""The template's own beginning."""

_TOKENS_OF_TOOLS = 1024
"""What vendors say to the model about tools before any is listed (Anthropic documents up to about 700)."""


def most_input_tokens(request: ModelRequest) -> int:
    """An upper bound without the model's tokenizer: no byte-level tokenizer makes a token of less than a byte."""
    tokens = _TOKENS_OF_FRAME + len(request.prefix.encode())
    for message in request.messages:
        tokens += _TOKENS_PER_MESSAGE
        match message:
            case AssistantMessage():
                # Either the native turn is sent or text and calls.
                plain = len(message.text.encode()) + sum(len(call.model_dump_json()) for call in message.tool_calls)
                tokens += max(plain, len((message.native or "").encode()))
            case ToolResult():
                tokens += len(message.content.encode())
            case _:
                tokens += len(message.text.encode())
    if request.tools:
        tokens += _TOKENS_OF_TOOLS + sum(len(tool.model_dump_json().encode()) for tool in request.tools)
    return tokens


def worst_case(request: ModelRequest, price: Price | None) -> Amount:
    """What to reserve. Without a price, no dollars: tokens must be capped then."""
    read, written = most_input_tokens(request), request.max_output_tokens
    return Amount(
        nano_usd=0 if price is None else price.worst_nano_usd(read, written),
        tokens=read + written,
        milliseconds=math.ceil(request.timeout_s * 1000),
    )


def spent_by(completion: Completion, price: Price | None, reserved: Amount) -> Amount:
    """What to settle at; dollars and tokens as reserved where the endpoint did not say what it used."""
    took_ms = math.ceil(completion.seconds * 1000)
    if completion.usage is None:
        return reserved.model_copy(update={"milliseconds": took_ms})
    return Amount(
        nano_usd=0 if price is None else price.nano_usd(completion.usage),
        tokens=completion.usage.tokens,
        milliseconds=took_ms,
    )
