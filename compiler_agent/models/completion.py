"""What is asked of a language model and what comes back, whichever API carries it; the Protocol of all clients."""

import json
from typing import Annotated, Literal, Protocol

from pydantic import Field, JsonValue

from candidates.record import Record
from candidates.spending import Usage


class MalformedArguments(Record):
    """A model called a tool with text that is no JSON object; tell it so in the tool's result."""

    text: str
    problem: str


class ToolCall(Record):
    id: str
    name: str
    arguments_json: str
    """As the model wrote them."""

    def arguments(self) -> dict[str, JsonValue] | MalformedArguments:
        try:
            content = json.loads(self.arguments_json or "{}")
        except ValueError as error:
            return MalformedArguments(text=self.arguments_json, problem=str(error))
        if not isinstance(content, dict):
            return MalformedArguments(text=self.arguments_json, problem=f"{type(content).__name__}, not an object")
        return content


class Tool(Record):
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str
    parameters: dict[str, JsonValue]
    """JSON schema of an object."""


class UserMessage(Record):
    role: Literal["user"] = "user"
    text: str = Field(min_length=1)


class AssistantMessage(Record):
    """An earlier reply, given back: `Reply.as_message()`."""

    role: Literal["assistant"] = "assistant"
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    native: str | None = None
    """The turn in its API's own JSON, where that holds what text and calls do not (signed thinking)."""


class ToolResult(Record):
    role: Literal["tool"] = "tool"
    call_id: str
    content: str
    is_error: bool = False


Message = Annotated[UserMessage | AssistantMessage | ToolResult, Field(discriminator="role")]

Effort = Literal["low", "medium", "high"]


class ModelRequest(Record):
    prefix: str
    """What many requests share, word for word: instructions, brief, guide. With `tools` it is what gets cached."""
    messages: tuple[Message, ...] = Field(min_length=1)
    """What differs; the last is the user's or a tool's result."""
    tools: tuple[Tool, ...] = ()
    max_output_tokens: int = Field(ge=1)
    """Thinking included."""
    temperature: float | None = Field(ge=0, le=2, default=None)
    """None: the model's default. Several models refuse any."""
    effort: Effort | None = None
    """None: the model's default. Models that do not think refuse any."""
    timeout_s: float = Field(gt=0, default=600.0)
    """For the call with its retries."""


class Reply(Record):
    """The model ended its turn; text, tool calls, or both."""

    kind: Literal["reply"] = "reply"
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    native: str | None = None

    def as_message(self) -> AssistantMessage:
        return AssistantMessage(text=self.text, tool_calls=self.tool_calls, native=self.native)


class Refused(Record):
    """The model, or its provider's classifier, would not."""

    kind: Literal["refused"] = "refused"
    explanation: str
    category: str | None = None


class CutOff(Record):
    """`text` is a beginning: a kernel in it is not whole."""

    kind: Literal["cut_off"] = "cut_off"
    text: str
    limit: Literal["max_output_tokens", "context_window"]


class Empty(Record):
    """The model ended its turn without a word."""

    kind: Literal["empty"] = "empty"


class Filtered(Record):
    """A content filter held the reply, or the rest of it, back."""

    kind: Literal["filtered"] = "filtered"
    text: str = ""
    explanation: str = ""


class Broken(Record):
    """The stream broke off, stalled, or was not what the API promises. It may have been billed: no retry by itself."""

    kind: Literal["broken"] = "broken"
    text: str
    problem: str


Outcome = Annotated[Reply | Refused | CutOff | Empty | Filtered | Broken, Field(discriminator="kind")]


class Retry(Record):
    """A try that the endpoint turned away, unbilled."""

    problem: str
    waited_s: float = Field(ge=0)


class Completion(Record):
    """What a request came to."""

    outcome: Outcome
    usage: Usage | None
    """None: the endpoint did not say."""
    model: str
    """As the endpoint names it."""
    seconds: float = Field(ge=0)
    """From the first try to the last word."""
    retries: tuple[Retry, ...] = ()


class ModelUnavailable(Exception):
    """Nobody answered, or the endpoint turned the call away for now, unbilled: rate limit, overload, no connection.

    The message says for how long it was tried. Whose fault: the endpoint's or the network's.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """What the endpoint asked for."""


class ModelRejectedRequest(Exception):
    """This request will not be taken however often it is sent: key, model name, quota, parameters, length. Unbilled.

    Whose fault: the configuration's or the request's; the message carries the endpoint's own words.
    """


class ModelClient(Protocol):
    def complete(self, request: ModelRequest) -> Completion:
        """One call. Raises ModelUnavailable and ModelRejectedRequest, and nothing was billed then."""
        ...
