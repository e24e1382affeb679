"""OpenAIChat: one call through the chat completions API, streamed: OpenAI's own, or any compatible server's.

The prefix is the first system message; OpenAI's cache is steered by `prompt_cache_key` and, for models that take it, a
breakpoint at the end of the prefix. Compatible servers cache equal beginnings by themselves and are sent neither.
"""

from typing import Any

from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionChunk,
    ChatCompletionMessageParam,
)
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from openai.types.completion_usage import CompletionUsage

from candidates.spending import Usage
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
    ToolCall,
    ToolResult,
    UserMessage,
)
from compiler_agent.models.endpoints import Endpoint
from compiler_agent.models.openai_sdk import (
    BREAKPOINT,
    FAILURES,
    believe_openai_usage,
    cache_key,
    judge,
    open_sdk,
    takes_breakpoints,
)
from compiler_agent.models.stream import Stopwatch, follow


class OpenAIChat:
    """A ModelClient."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint, self._client = endpoint, open_sdk(endpoint, key)

    def complete(self, request: ModelRequest) -> Completion:
        stopwatch = Stopwatch()
        parameters = _parameters(self._endpoint, request)
        turn = _Turn(self._endpoint.model)
        outcome: Outcome
        try:
            with self._client.chat.completions.create(**parameters, timeout=request.timeout_s) as stream:
                follow(stream, turn.take)
            outcome = turn.outcome()
        except FAILURES as error:
            # What breaks after the last event breaks nothing.
            outcome = turn.outcome() if turn.is_over else judge(error, turn.text, turn.has_begun)
        return Completion(outcome=outcome, usage=turn.usage(outcome), model=turn.model, seconds=stopwatch.passed_s)


class _Turn:
    """The assistant's turn as its chunks come in."""

    def __init__(self, model: str) -> None:
        self.model, self.text, self.has_begun = model, "", False
        self._usage: CompletionUsage | None = None
        self._refusal = ""
        self._finish_reason: str | None = None
        self._calls: list[dict[str, str]] = []
        self._call_at: dict[int, dict[str, str]] = {}

    @property
    def is_over(self) -> bool:
        return self._finish_reason is not None and self._usage is not None

    def take(self, chunk: ChatCompletionChunk) -> None:
        self.has_begun = True
        self.model = chunk.model or self.model
        if chunk.usage is not None:
            self._usage = chunk.usage
        for choice in chunk.choices or ():  # some servers send null with the usage
            self.text += choice.delta.content or ""
            self._refusal += choice.delta.refusal or ""
            self._finish_reason = choice.finish_reason or self._finish_reason
            for piece in choice.delta.tool_calls or ():
                self._take_call(piece)

    def _take_call(self, piece: ChoiceDeltaToolCall) -> None:
        call = self._call_at.get(piece.index)
        # A new id at an old index is another call: several servers give all parallel calls the index 0.
        if call is None or (piece.id and piece.id != call["id"]):
            call = {"id": piece.id or f"call_{len(self._calls)}", "name": "", "arguments_json": ""}
            self._calls.append(call)
            self._call_at[piece.index] = call
        if piece.function is not None:
            call["name"] = piece.function.name or call["name"]
            call["arguments_json"] += piece.function.arguments or ""

    def outcome(self) -> Outcome:
        match self._finish_reason:
            case None:
                hint = "" if self.has_begun else "; no event came at all: check the base URL"
                return Broken(text=self.text, problem=f"the stream ended before the message did{hint}")
            case "length":
                return CutOff(text=self.text, limit="max_output_tokens")
            case "content_filter":
                return Filtered(text=self.text)
            case "abort" | "error":  # vLLM and SGLang, when they drop a request
                return Broken(text=self.text, problem=f"the server stopped for {self._finish_reason}")
        if self._refusal:
            return Refused(explanation=self._refusal)
        calls = tuple(ToolCall.model_validate(call) for call in self._calls)
        return Reply(text=self.text, tool_calls=calls) if self.text or calls else Empty()

    def usage(self, outcome: Outcome) -> Usage | None:
        return believe_openai_usage(outcome, self._usage, "prompt_tokens", "completion_tokens")


def _parameters(endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
    prefix: list[Any] = []
    if request.prefix:
        block: dict[str, Any] = {"type": "text", "text": request.prefix}
        if takes_breakpoints(endpoint):
            prefix = [{"role": "system", "content": [block | {"prompt_cache_breakpoint": BREAKPOINT}]}]
        else:
            prefix = [{"role": "system", "content": request.prefix}]
    parameters: dict[str, Any] = {
        "model": endpoint.model,
        "messages": prefix + [_message(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if endpoint.is_vendors:
        parameters |= {"max_completion_tokens": request.max_output_tokens, "prompt_cache_key": cache_key(request)}
    else:
        parameters["max_tokens"] = request.max_output_tokens
    if request.tools:
        parameters["tools"] = [{"type": "function", "function": tool.model_dump(mode="json")} for tool in request.tools]
    if request.temperature is not None:
        parameters["temperature"] = request.temperature
    if request.effort is not None:
        parameters["reasoning_effort"] = request.effort
    return parameters


def _message(message: Message) -> ChatCompletionMessageParam:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case ToolResult():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
        case AssistantMessage():
            turn: ChatCompletionAssistantMessageParam = {"role": "assistant", "content": message.text or None}
            if message.tool_calls:
                turn["tool_calls"] = [
                    {
                        "type": "function",
                        "id": call.id,
                        "function": {"name": call.name, "arguments": call.arguments_json},
                    }
                    for call in message.tool_calls
                ]
            return turn
