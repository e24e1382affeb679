"""Each API's wire format: paths, credentials, what a request must hold, events of a reply, errors.

Written from the vendors' SDKs (openai 3.57, anthropic 2.14): `types/` and the decoders of their streams.
"""

import json
from collections.abc import Iterator
from typing import Any, Protocol

from tests.model_server.behaviour import Billed, Fail, Say

Json = dict[str, Any]


class Wire(Protocol):
    path: str

    def credential(self, headers: Any) -> str: ...
    def complaint(self, body: Json) -> str | None:
        """What is wrong with the request, as a strict server would say."""
        ...

    def prefix(self, body: Json) -> tuple[str, bool]:
        """The text before the variable part, and whether the request asks for it to be cached."""
        ...

    def most_output(self, body: Json) -> int: ...
    def events(self, say: Say, billed: Billed, body: Json) -> list[str]:
        """The stream's events as they are written, one string each."""
        ...

    def error(self, fail: Fail) -> Json: ...
    def error_event(self, kind: str) -> str: ...


def pieces(text: str) -> list[str]:
    return [text[start : start + 8] for start in range(0, len(text), 8)]


def sse(content: Json, event: str | None = None) -> str:
    return (f"event: {event}\n" if event else "") + f"data: {json.dumps(content)}\n\n"


def _told(say: Say, usage: Json) -> Json:
    told = usage | {name: count for name, count in (say.counts or {}).items() if name in usage}
    return {name: count for name, count in told.items() if count is not None}


def _bearer(headers: Any) -> str:
    return (headers["authorization"] or "").removeprefix("Bearer ")


def _unknown(body: Json, known: str) -> str | None:
    extra = sorted(set(body) - set(known.split()))
    return f"unknown parameters: {', '.join(extra)}" if extra else None


class AnthropicWire:
    path = "/v1/messages"

    def credential(self, headers: Any) -> str:
        return headers["x-api-key"] or _bearer(headers)

    def complaint(self, body: Json) -> str | None:
        if "max_tokens" not in body:
            return "max_tokens: Field required"
        if body["messages"][-1]["role"] != "user":
            return "messages: the last must be the user's"
        for message in body["messages"]:
            if message["role"] not in ("user", "assistant"):
                return f"messages: unexpected role {message['role']}"
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                    return "tool_use.input: Input should be a valid dictionary"
                if block["type"] == "thinking" and not block.get("signature"):
                    return "thinking.signature: Field required"
        known = "model max_tokens messages system tools stream temperature output_config"
        return _unknown(body, known)

    def prefix(self, body: Json) -> tuple[str, bool]:
        blocks = body.get("system", [])
        is_cached = any(block.get("cache_control") == {"type": "ephemeral"} for block in blocks)
        return json.dumps(body.get("tools", [])) + "".join(block["text"] for block in blocks), is_cached

    def most_output(self, body: Json) -> int:
        return int(body["max_tokens"])

    def events(self, say: Say, billed: Billed, body: Json) -> list[str]:
        stop = {"end": "tool_use" if say.calls else "end_turn", "context_window": "model_context_window_exceeded"}
        usage = {
            "input_tokens": billed.input_tokens,
            "cache_creation_input_tokens": billed.cache_write_tokens,
            "cache_read_input_tokens": billed.cache_read_tokens,
            "cache_creation": {"ephemeral_5m_input_tokens": billed.cache_write_tokens, "ephemeral_1h_input_tokens": 0},
            "service_tier": "standard",
        }
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
        start = message | {
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _told(say, usage) | {"output_tokens": 1},
        }
        events = [{"type": "message_start", "message": start}, {"type": "ping"}]
        for index, (block, deltas) in enumerate(self._blocks(say)):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        delta: Json = {"stop_reason": stop.get(say.stop, say.stop), "stop_sequence": None}
        if say.stop == "refusal":
            delta["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": say.text}
        written = _told(say, {"output_tokens": billed.output_tokens})
        events.append({"type": "message_delta", "delta": delta, "usage": written})
        events.append({"type": "message_stop"})
        return [sse(event, event["type"]) for event in events]

    def _blocks(self, say: Say) -> Iterator[tuple[Json, list[Json]]]:
        if say.thinking:
            signed: list[Json] = [{"type": "signature_delta", "signature": "c2lnbmVk"}]
            thought = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(say.thinking)]
            yield {"type": "thinking", "thinking": "", "signature": ""}, thought + signed
        if say.text:
            yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(say.text)]
        for number, call in enumerate(say.calls):
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": {}}
            yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(call.arguments)]

    def error(self, fail: Fail) -> Json:
        return {"type": "error", "error": {"type": fail.kind, "message": fail.message}, "request_id": "req_1"}

    def error_event(self, kind: str) -> str:
        return sse(self.error(Fail(status=200, kind=kind)), "error")


class ChatWire:
    path = "/v1/chat/completions"

    def __init__(self, *, is_vendors: bool = True) -> None:
        self._is_vendors = is_vendors

    def credential(self, headers: Any) -> str:
        return _bearer(headers)

    def complaint(self, body: Json) -> str | None:
        for message in body["messages"]:
            if message["role"] not in ("system", "user", "assistant", "tool"):
                return f"messages: unexpected role {message['role']}"
        known = "model messages stream stream_options tools temperature reasoning_effort "
        return _unknown(body, known + ("max_completion_tokens prompt_cache_key" if self._is_vendors else "max_tokens"))

    def prefix(self, body: Json) -> tuple[str, bool]:
        first = body["messages"][0]
        return json.dumps(first) if first["role"] == "system" else "", "prompt_cache_key" in body

    def most_output(self, body: Json) -> int:
        return int(body["max_completion_tokens" if self._is_vendors else "max_tokens"])

    def events(self, say: Say, billed: Billed, body: Json) -> list[str]:
        said = "refusal" if say.stop == "refusal" else "content"
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += [{said: piece} for piece in pieces(say.text)]
        for number, call in enumerate(say.calls):
            index = number if self._is_vendors else 0  # as several compatible servers do
            function: Json = {"name": call.name, "arguments": ""}
            head = {"index": index, "id": f"call_{number}", "type": "function", "function": function}
            deltas.append({"tool_calls": [head]})
            for piece in pieces(call.arguments):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        reason = {"max_tokens": "length", "context_window": "length", "filter": "content_filter"}.get(say.stop, "stop")
        reason = "tool_calls" if say.calls and reason == "stop" else reason
        choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        events = [sse(frame | {"choices": [choice], "usage": None}) for choice in choices]
        if say.with_usage and body.get("stream_options", {}).get("include_usage"):
            prompt = billed.input_tokens + billed.cache_read_tokens + billed.cache_write_tokens
            usage = {
                "prompt_tokens": prompt,
                "completion_tokens": billed.output_tokens,
                "total_tokens": prompt + billed.output_tokens,
                "prompt_tokens_details": {
                    "cached_tokens": billed.cache_read_tokens,
                    "cache_write_tokens": billed.cache_write_tokens,
                },
            }
            events.append(sse(frame | {"choices": [], "usage": _told(say, usage)}))
        return [*events, "data: [DONE]\n\n"]

    def error(self, fail: Fail) -> Json:
        return {"error": {"message": fail.message, "type": fail.kind, "param": None, "code": fail.kind}}

    def error_event(self, kind: str) -> str:
        return sse(self.error(Fail(status=200, kind=kind)))


class ResponsesWire:
    path = "/v1/responses"

    def credential(self, headers: Any) -> str:
        return _bearer(headers)

    def complaint(self, body: Json) -> str | None:
        if body.get("store") is not False:
            return "store: nothing of a test belongs in a store"
        known = "model input stream tools temperature reasoning store max_output_tokens prompt_cache_key"
        return _unknown(body, known)

    def prefix(self, body: Json) -> tuple[str, bool]:
        first = body["input"][0]
        return json.dumps(first) if first.get("role") == "developer" else "", "prompt_cache_key" in body

    def most_output(self, body: Json) -> int:
        return int(body["max_output_tokens"])

    def events(self, say: Say, billed: Billed, body: Json) -> list[str]:
        part = {"type": "refusal", "refusal": say.text} if say.stop == "refusal" else {
            "type": "output_text", "text": say.text, "annotations": [],
        }  # fmt: skip
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        output: list[Json] = [message] if say.text else []
        for index, call in enumerate(say.calls):
            names = {"id": f"fc_{index}", "call_id": f"call_{index}", "name": call.name, "arguments": call.arguments}
            output.append({"type": "function_call", "status": "completed"} | names)
        details = {"max_tokens": "max_output_tokens", "context_window": "max_output_tokens", "filter": "content_filter"}
        reason = details.get(say.stop)
        prompt = billed.input_tokens + billed.cache_read_tokens + billed.cache_write_tokens
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {
                "cached_tokens": billed.cache_read_tokens,
                "cache_write_tokens": billed.cache_write_tokens,
            },
            "output_tokens": billed.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + billed.output_tokens,
        }
        frame: Json = {
            "id": "resp_1", "object": "response", "created_at": 1, "model": body["model"], "error": None,
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None,
        }  # fmt: skip
        begun = frame | {"status": "in_progress", "output": [], "usage": None}
        over = frame | {
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": output,
            "usage": _told(say, usage) if say.with_usage else None,
        }
        events: list[Json] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        if say.text:
            at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            events.append({"type": "response.output_item.added", "output_index": 0, "item": message | {"content": []}})
            kind = "refusal" if say.stop == "refusal" else "output_text"
            events += [{"type": f"response.{kind}.delta", "delta": piece} | at for piece in pieces(say.text)]
            events.append({"type": "response.output_item.done", "output_index": 0, "item": message})
        events.append({"type": "response.incomplete" if reason else "response.completed", "response": over})
        return [sse(event | {"sequence_number": n}, event["type"]) for n, event in enumerate(events)]

    def error(self, fail: Fail) -> Json:
        return {"error": {"message": fail.message, "type": fail.kind, "param": None, "code": fail.kind}}

    def error_event(self, kind: str) -> str:
        content = {"type": "error", "code": kind, "message": "no", "param": None, "sequence_number": 1}
        return sse(content, "error")
