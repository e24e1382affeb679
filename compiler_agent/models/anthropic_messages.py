"""AnthropicMessages: one call through Anthropic's Messages API, streamed.

The prefix is a system block that ends in a cache breakpoint; tools stand before it and are cached with it. Thinking
blocks are kept in `Reply.native`, signed as they are: the API wants them back beside the results of tool calls.
"""

import json
from collections.abc import Iterable
from typing import Any

import anthropic
import httpx2
from anthropic.types import MessageParam, RawMessageStreamEvent, RefusalStopDetails, TextBlockParam, ToolParam

from candidates.spending import Usage
from compiler_agent.models.completion import (
    AssistantMessage,
    Broken,
    Completion,
    CutOff,
    Empty,
    Message,
    ModelRequest,
    Outcome,
    Refused,
    Reply,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
)
from compiler_agent.models.endpoints import Endpoint
from compiler_agent.models.failures import HttpFailure, judge_failure, judge_lost_connection
from compiler_agent.models.stream import CALL_TIMEOUT_HOOKS, MalformedStream, Stopwatch, follow
from compiler_agent.models.usage import believe_usage


class AnthropicMessages:
    """A ModelClient."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self._model = endpoint.model
        # The SDK's own retries are off: a try that is not counted is not in the budget.
        self._client = anthropic.Anthropic(
            api_key=key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            open_telemetry=False,
            http_client=anthropic.DefaultHttpxClient(event_hooks=CALL_TIMEOUT_HOOKS),
        )

    def complete(self, request: ModelRequest) -> Completion:
        stopwatch = Stopwatch()
        parameters = _parameters(self._model, request)
        turn = _Turn(self._model)
        try:
            with self._client.messages.create(**parameters, timeout=request.timeout_s) as stream:
                follow(stream, turn.take)
            outcome = turn.outcome()
        except anthropic.APIStatusError as error:
            failure = HttpFailure(error.status_code, error.type or "", str(error), error.response.headers)
            outcome = judge_failure(failure, turn.text, turn.has_begun)
        except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
            # What breaks after the last event breaks nothing.
            outcome = turn.outcome() if turn.is_over else judge_lost_connection(error, turn.text)
        except (MalformedStream, ValueError) as error:  # ValueError: a line that is no JSON
            outcome = Broken(text=turn.text, problem=f"{type(error).__name__}: {error}")
        return Completion(outcome=outcome, usage=turn.usage(outcome), model=turn.model, seconds=stopwatch.passed_s)


class _Turn:
    """The assistant's turn as its events come in."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.has_begun = False
        self._blocks: list[dict[str, Any]] = []
        self._stop_reason: str | None = None
        self._stop_details: RefusalStopDetails | None = None
        self.is_over = False
        self._counts: dict[str, object] = {}

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self._blocks if block["type"] == "text")

    def take(self, event: RawMessageStreamEvent) -> None:
        self.has_begun = True
        match event.type:
            case "message_start":
                self.model = event.message.model
                # What is written is told at the end: the beginning has a token or so.
                self._count(event.message.usage.to_dict(warnings=False) | {"output_tokens": None})
            case "content_block_start":
                self._blocks.append(event.content_block.to_dict(exclude_none=True))
                if self._blocks[-1]["type"] == "tool_use":
                    self._blocks[-1]["input"] = ""  # comes as pieces of JSON
            case "content_block_delta":
                block, delta = self._blocks[event.index], event.delta
                match delta.type:
                    case "text_delta":
                        block["text"] += delta.text
                    case "input_json_delta":
                        block["input"] += delta.partial_json
                    case "thinking_delta":
                        block["thinking"] += delta.thinking
                    case "signature_delta":
                        block["signature"] = delta.signature
            case "message_delta":
                self._stop_reason, self._stop_details = event.delta.stop_reason, event.delta.stop_details
                self._count(event.usage.to_dict(warnings=False))
            case "message_stop":
                self.is_over = True

    def outcome(self) -> Outcome:
        if not self.is_over:
            hint = "" if self.has_begun else "; no event came at all: check the base URL"
            return Broken(text=self.text, problem=f"the stream ended before the message did{hint}")
        match self._stop_reason:
            case "end_turn" | "stop_sequence" | "tool_use":
                calls = tuple(
                    ToolCall(id=block["id"], name=block["name"], arguments_json=block["input"])
                    for block in self._blocks
                    if block["type"] == "tool_use"
                )
                has_thinking = any(block["type"].endswith("thinking") for block in self._blocks)
                # Unescaped, so that halves of surrogate pairs can be seen and repaired.
                native = json.dumps(self._blocks, ensure_ascii=False) if has_thinking and calls else None
                return Reply(text=self.text, tool_calls=calls, native=native) if self.text or calls else Empty()
            case "max_tokens":
                return CutOff(text=self.text, limit="max_output_tokens")
            case "model_context_window_exceeded":
                return CutOff(text=self.text, limit="context_window")
            case "refusal":
                details = self._stop_details
                return Refused(
                    explanation=(details.explanation if details else None) or self.text,
                    category=details.category if details else None,
                )
            case other:
                return Broken(text=self.text, problem=f"stopped for a reason unknown here: {other}")

    def usage(self, outcome: Outcome) -> Usage | None:
        if not self.is_over:
            return None
        return believe_usage(
            outcome,
            read=self._counts.get("input_tokens"),
            cache_read=self._counts.get("cache_read_input_tokens"),
            cache_write=self._counts.get("cache_creation_input_tokens"),
            written=self._counts.get("output_tokens"),
            read_has_cached=False,
        )

    def _count(self, usage: dict[str, object]) -> None:
        self._counts |= {name: count for name, count in usage.items() if count is not None}


def _parameters(model: str, request: ModelRequest) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_output_tokens,
        "messages": _messages(request.messages),
        "stream": True,
    }
    if request.prefix:
        system = TextBlockParam(type="text", text=request.prefix, cache_control={"type": "ephemeral"})
        parameters["system"] = [system]
    if request.tools:
        parameters["tools"] = [_tool(tool) for tool in request.tools]
    if request.temperature is not None:
        # No argument of the SDK any more, since the newer models refuse it; the API still takes it for the others.
        parameters["extra_body"] = {"temperature": request.temperature}
    if request.effort is not None:
        parameters["output_config"] = {"effort": request.effort}
    return parameters


def _tool(tool: Tool) -> ToolParam:
    return ToolParam(name=tool.name, description=tool.description, input_schema=dict(tool.parameters))


def _messages(messages: Iterable[Message]) -> list[MessageParam]:
    """The API joins consecutive messages of one role, so results of parallel calls may stand one by one."""
    return [_message(message) for message in messages]


def _message(message: Message) -> MessageParam:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case ToolResult():
            return {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": message.call_id,
                        "content": message.content,
                        "is_error": message.is_error,
                    }
                ],
            }
        case AssistantMessage():
            return {"role": "assistant", "content": _turn_blocks(message)}


def _turn_blocks(message: AssistantMessage) -> Any:
    if message.native is not None:
        blocks = json.loads(message.native)
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = _input(block["input"])
        return blocks
    text = [{"type": "text", "text": message.text}] if message.text else []
    return text + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments_json)}
        for call in message.tool_calls
    ]


def _input(arguments_json: str) -> dict[str, Any]:
    """The API takes an object only; text that is none goes back under a name that says so."""
    arguments = ToolCall(id="", name="", arguments_json=arguments_json).arguments()
    return arguments if isinstance(arguments, dict) else {"malformed_json": arguments_json}
