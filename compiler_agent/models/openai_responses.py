"""OpenAIResponses: one call through OpenAI's Responses API, streamed; the vendor stores nothing.

The prefix is the first developer message, cached as in `openai_chat`. Reasoning items are not sent back: the API asks
for them only beside items that are named by id.
"""

from typing import Any

from openai.types.responses import Response, ResponseStreamEvent

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
from compiler_agent.models.failures import HttpFailure, judge_failure
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

_FILTERED_CODES = ("invalid_prompt", "bio_policy", "misalignment_policy_violation")
"""Codes of a failed response by which a policy of the vendor speaks (openai SDK 3.57, `ResponseError`)."""


class OpenAIResponses:
    """A ModelClient."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint, self._client = endpoint, open_sdk(endpoint, key)

    def complete(self, request: ModelRequest) -> Completion:
        stopwatch = Stopwatch()
        parameters = _parameters(self._endpoint, request)
        turn = _Turn(self._endpoint.model)
        outcome: Outcome
        try:
            with self._client.responses.create(**parameters, timeout=request.timeout_s) as stream:
                follow(stream, turn.take)
            outcome = turn.outcome()
        except FAILURES as error:
            # What breaks after the last event breaks nothing.
            outcome = turn.outcome() if turn.is_over else judge(error, turn.text, turn.has_written)
        return Completion(outcome=outcome, usage=turn.usage(outcome), model=turn.model, seconds=stopwatch.passed_s)


class _Turn:
    """The response as its events come in: the last carries it whole, those before it only what there was so far."""

    def __init__(self, model: str) -> None:
        self.model, self.text, self.has_written = model, "", False
        self._response: Response | None = None
        self._failure: HttpFailure | None = None
        self._has_begun = False

    @property
    def is_over(self) -> bool:
        return self._response is not None

    def take(self, event: ResponseStreamEvent) -> None:
        self._has_begun = True
        match event.type:
            case "response.created":
                self.model = str(event.response.model)
            case "response.output_text.delta":
                self.text += event.delta
                self.has_written = True
            case "response.output_item.added":
                self.has_written = True
            case "response.completed" | "response.incomplete" | "response.failed":
                self._response = event.response
            case "error":
                self._failure = HttpFailure(200, event.code or "", event.message, {})

    def outcome(self) -> Outcome:
        response = self._response
        if self._failure is not None:
            return judge_failure(self._failure, self.text, self.has_written)
        if response is None:
            hint = "" if self._has_begun else "; no event came at all: check the base URL"
            return Broken(text=self.text, problem=f"the stream ended before the response did{hint}")
        match response.status:
            case "failed":
                code, said = (
                    (response.error.code, response.error.message) if response.error else ("", "no reason given")
                )
                if code in _FILTERED_CODES:
                    return Filtered(text=self.text, explanation=f"{code}: {said}")
                return judge_failure(HttpFailure(200, code, said, {}), self.text, self.has_written)
            case "incomplete":
                reason = response.incomplete_details.reason if response.incomplete_details else None
                if reason == "max_output_tokens":
                    return CutOff(text=self.text, limit="max_output_tokens")
                if reason == "content_filter":
                    return Filtered(text=self.text)
                return Broken(text=self.text, problem=f"incomplete for a reason unknown here: {reason}")
        return _read_output(response)

    def usage(self, outcome: Outcome) -> Usage | None:
        told = None if self._response is None else self._response.usage
        return believe_openai_usage(outcome, told, "input_tokens", "output_tokens")


def _read_output(response: Response) -> Outcome:
    text, refusal, calls = "", "", []
    for item in response.output:
        if item.type == "function_call":
            calls.append(ToolCall(id=item.call_id, name=item.name, arguments_json=item.arguments))
        elif item.type == "message":
            for part in item.content:
                if part.type == "refusal":
                    refusal += part.refusal
                else:
                    text += part.text
    if refusal:
        return Refused(explanation=refusal)
    return Reply(text=text, tool_calls=tuple(calls)) if text or calls else Empty()


def _parameters(endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
    prefix: list[Any] = []
    if request.prefix:
        block: dict[str, Any] = {"type": "input_text", "text": request.prefix}
        if takes_breakpoints(endpoint):
            block["prompt_cache_breakpoint"] = BREAKPOINT
        prefix = [{"role": "developer", "content": [block]}]
    parameters: dict[str, Any] = {
        "model": endpoint.model,
        "input": prefix + [item for message in request.messages for item in _items(message)],
        "max_output_tokens": request.max_output_tokens,
        "store": False,
        "stream": True,
    }
    if endpoint.is_vendors:
        parameters["prompt_cache_key"] = cache_key(request)
    if request.tools:
        parameters["tools"] = [
            {"type": "function", "strict": False} | tool.model_dump(mode="json") for tool in request.tools
        ]
    if request.temperature is not None:
        parameters["temperature"] = request.temperature
    if request.effort is not None:
        parameters["reasoning"] = {"effort": request.effort}
    return parameters


def _items(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": message.text}]
        case ToolResult():
            return [{"type": "function_call_output", "call_id": message.call_id, "output": message.content}]
        case AssistantMessage():
            text = [{"role": "assistant", "content": message.text}] if message.text else []
            return text + [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": call.arguments_json,
                }
                for call in message.tool_calls
            ]
