"""What every ModelClient keeps, seen through the API's wire: each client's tests subclass it with one fixture."""

import json
import re
import time

import pytest

from compiler_agent.models.apis import open_client
from compiler_agent.models.completion import (
    Broken,
    Completion,
    CutOff,
    Empty,
    Filtered,
    MalformedArguments,
    ModelRejectedRequest,
    ModelRequest,
    ModelUnavailable,
    Refused,
    Reply,
    Tool,
    ToolResult,
    UserMessage,
)
from compiler_agent.models.endpoints import ApiName, Endpoint
from compiler_agent.models.redaction import Redactor
from compiler_agent.models.retry import RetryPolicy
from tests.model_server.behaviour import Call, Fail, HangUp, Say
from tests.model_server.server import KEY, MODEL, ModelServer

QUICK = RetryPolicy(tries=3, first_wait_s=0.01, longest_wait_s=2.0)

READ_FILE = Tool(
    name="read_file",
    description="Reads a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def ask(text: str = "Is the kernel right?", **fields) -> ModelRequest:
    fields = {"prefix": "You write kernels. " * 40, "max_output_tokens": 200, "timeout_s": 20.0} | fields
    return ModelRequest(messages=(UserMessage(text=text),), **fields)


class ModelClientContract:
    api: ApiName
    path = ""
    """What the API's base URL ends in."""
    read, written = "input_tokens", "output_tokens"
    """What the API calls tokens read and written."""

    @pytest.fixture
    def server(self):
        server = ModelServer()
        yield server
        server.close()

    def endpoint(self, server: ModelServer, **fields) -> Endpoint:
        about = {
            "name": "test",
            "api": self.api,
            "model": MODEL,
            "base_url": server.url + self.path,
            "server": "vendor",
        }
        return Endpoint(**about | fields)

    @pytest.fixture
    def client(self, server):
        return open_client(self.endpoint(server), KEY, Redactor([KEY]), QUICK)

    def test_a_reply_is_put_together_from_its_pieces_with_its_usage(self, client, server):
        server.will(Say(text="Yes: it is right, as far as I see.\n", output_tokens=11))
        completion = client.complete(ask())
        assert completion.outcome == Reply(text="Yes: it is right, as far as I see.\n")
        (bill,) = server.billed
        assert completion.usage.model_dump() == {
            "input_tokens": bill.input_tokens,
            "cache_read_tokens": bill.cache_read_tokens,
            "cache_write_tokens": bill.cache_write_tokens,
            "output_tokens": 11,
        }
        assert completion.model == MODEL
        assert completion.retries == ()

    def test_the_prefix_is_cached_and_the_hit_is_in_the_usage(self, client, server):
        first, second = client.complete(ask("one")).usage, client.complete(ask("two")).usage
        assert first.cache_write_tokens > 100
        assert first.cache_read_tokens == 0
        assert second.cache_read_tokens == first.cache_write_tokens
        assert client.complete(ask("two", prefix="Another prefix.")).usage.cache_read_tokens == 0

    def test_tools_are_called_and_their_results_given_back(self, client, server):
        calls = tuple(Call(name="read_file", arguments=json.dumps({"path": f"kernel{n}.cpp"})) for n in range(2))
        server.will(Say(text="Let me look.", calls=calls), Say(text="It is right."))
        request = ask(tools=(READ_FILE,))
        reply = client.complete(request).outcome
        assert isinstance(reply, Reply)
        assert [call.arguments() for call in reply.tool_calls] == [{"path": "kernel0.cpp"}, {"path": "kernel1.cpp"}]
        results = tuple(ToolResult(call_id=call.id, content="void kernel() {}") for call in reply.tool_calls)
        dialogue = (*request.messages, reply.as_message(), *results)
        again = client.complete(request.model_copy(update={"messages": dialogue}))
        assert again.outcome == Reply(text="It is right.")
        sent = json.dumps(server.requests[-1])
        assert all(sent.count(call.id) == 2 for call in reply.tool_calls)

    def test_malformed_arguments_of_a_tool_are_the_models_and_can_be_answered(self, client, server):
        server.will(Say(text="", calls=(Call(name="read_file", arguments='{"path": "ker'),)))
        request = ask(tools=(READ_FILE,))
        reply = client.complete(request).outcome
        arguments = reply.tool_calls[0].arguments()
        assert isinstance(arguments, MalformedArguments)
        assert arguments.text == '{"path": "ker'
        result = ToolResult(call_id=reply.tool_calls[0].id, content=arguments.problem, is_error=True)
        dialogue = (*request.messages, reply.as_message(), result)
        assert isinstance(client.complete(request.model_copy(update={"messages": dialogue})).outcome, Reply)

    def test_parameters_are_sent_only_where_they_are_set(self, client, server):
        client.complete(ask())
        client.complete(ask(temperature=0.5, effort="low"))
        plain, full = (json.dumps(request) for request in server.requests)
        assert "temperature" not in plain
        assert "effort" not in plain
        assert '"temperature": 0.5' in full
        assert '"low"' in full

    def test_a_reply_at_its_limit_is_cut_off(self, client, server):
        server.will(Say(text="void kernel(", stop="max_tokens"))
        completion = client.complete(ask())
        assert completion.outcome == CutOff(text="void kernel(", limit="max_output_tokens")
        assert completion.usage is not None

    def test_a_refusal_is_told_from_a_reply(self, client, server):
        server.will(Say(text="I cannot help with this.", stop="refusal"))
        completion = client.complete(ask())
        assert isinstance(completion.outcome, Refused)
        assert completion.outcome.explanation == "I cannot help with this."
        assert completion.usage is not None

    def test_a_turn_without_a_word_is_empty_and_billed(self, client, server):
        server.will(Say(text="", output_tokens=2))
        completion = client.complete(ask())
        assert completion.outcome == Empty()
        assert completion.usage.output_tokens == 2

    def test_a_prompt_that_the_filter_stops_is_filtered(self, client, server):
        server.will(
            Fail(status=400, kind="invalid_request_error", message="Output blocked by content filtering policy")
        )
        assert isinstance(client.complete(ask()).outcome, Filtered)

    @pytest.mark.parametrize("how", ["abruptly", "politely"])
    def test_a_stream_that_ends_early_is_broken_and_not_asked_again(self, client, server, how):
        server.will(Say(text="void kernel() { return; }", cut_after_events=5, cut_how=how))
        completion = client.complete(ask())
        assert isinstance(completion.outcome, Broken)
        assert completion.outcome.text
        assert "void kernel() { return; }".startswith(completion.outcome.text)
        assert completion.usage is None
        assert len(server.requests) == 1

    def test_a_connection_that_breaks_after_the_last_event_breaks_nothing(self, client, server):
        server.will(Say(text="Yes.", cut_after_events=1000))
        completion = client.complete(ask())
        assert completion.outcome == Reply(text="Yes.")
        assert completion.usage is not None

    def test_a_line_that_is_no_json_breaks_the_stream(self, client, server):
        server.will(Say(garble_event=3))
        completion = client.complete(ask())
        assert isinstance(completion.outcome, Broken)
        assert completion.usage is None

    def test_a_page_that_is_no_stream_at_all_points_to_the_base_url(self, client, server):
        server.will(Say(cut_after_events=0, cut_how="politely"))
        outcome = client.complete(ask()).outcome
        assert isinstance(outcome, Broken)
        assert "base URL" in outcome.problem

    def test_a_slow_reply_ends_with_the_calls_time(self, client, server):
        server.will(Say(text="word " * 100, piece_after_s=0.1))
        started = time.monotonic()
        outcome = client.complete(ask(timeout_s=0.6)).outcome
        assert isinstance(outcome, Broken)
        assert outcome.text
        assert time.monotonic() - started < 5

    def test_keep_alives_do_not_prolong_the_calls_time(self, client, server):
        server.will(Say(keep_alive_s=10.0))
        started = time.monotonic()
        assert isinstance(client.complete(ask(timeout_s=0.5)).outcome, Broken)
        assert time.monotonic() - started < 5

    def test_a_silent_endpoint_ends_with_the_calls_time_and_may_have_billed(self, client, server):
        server.will(Say(first_after_s=3.0))
        outcome = client.complete(ask(timeout_s=0.3)).outcome
        assert isinstance(outcome, Broken)
        assert len(server.requests) == 1

    def test_an_endpoint_that_hangs_up_may_have_billed(self, client, server):
        server.will(HangUp())
        assert isinstance(client.complete(ask()).outcome, Broken)
        assert len(server.requests) == 1

    @pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
    def test_an_overloaded_endpoint_is_asked_again(self, client, server, status):
        server.will(Fail(status=status, kind="overloaded_error", message="busy"), Say(text="Now."))
        completion = client.complete(ask())
        assert completion.outcome == Reply(text="Now.")
        (retry,) = completion.retries
        assert "busy" in retry.problem
        assert len(server.billed) == 1

    def test_retry_after_is_honoured(self, client, server):
        server.will(Fail(status=429, kind="rate_limit_error", retry_after="1"), Say())
        started = time.monotonic()
        completion = client.complete(ask())
        assert completion.retries[0].waited_s >= 1.0
        assert time.monotonic() - started >= 1.0

    def test_an_overload_that_is_told_within_the_stream_breaks_it_or_is_asked_again(self, client, server):
        server.will(Say(error_event="overloaded_error"), Say(text="Now."))
        completion = client.complete(ask())
        match completion.outcome:
            case Reply():
                assert len(completion.retries) == 1
            case outcome:
                assert isinstance(outcome, Broken)
                assert len(server.requests) == 1

    def test_tries_have_a_bound(self, client, server):
        server.default = Fail(status=529, kind="overloaded_error", message="busy")
        with pytest.raises(ModelUnavailable, match=r"busy.*tried 3 times"):
            client.complete(ask())
        assert len(server.requests) == 3
        assert server.billed == []

    def test_a_wait_beyond_patience_is_not_waited_for(self, client, server):
        server.will(Fail(status=429, kind="rate_limit_error", retry_after="600"))
        with pytest.raises(ModelUnavailable) as caught:
            client.complete(ask())
        assert caught.value.retry_after_s == 600
        assert len(server.requests) == 1

    def test_nobody_there_is_unavailable(self, client, server):
        server.close()
        with pytest.raises(ModelUnavailable, match="no connection"):
            client.complete(ask())

    @pytest.mark.parametrize(
        ("status", "kind", "words"),
        [
            (400, "invalid_request_error", "bad parameter"),
            (402, "billing_error", "billing"),
            (403, "permission_error", "key"),
            (404, "not_found_error", "base URL"),
            (413, "request_too_large", "bad parameter"),
            (429, "insufficient_quota", "quota is spent"),
        ],
    )
    def test_what_no_waiting_mends_is_rejected_at_once(self, client, server, status, kind, words):
        server.default = Fail(status=status, kind=kind, message="bad parameter")
        with pytest.raises(ModelRejectedRequest, match=words):
            client.complete(ask())
        assert len(server.requests) == 1

    def test_a_wrong_key_is_rejected_without_being_shown(self, server):
        key = "sk-wrong-ABCDEFGHIJKLMNOP-0123"
        client = open_client(self.endpoint(server), key, Redactor([key]), QUICK)
        with pytest.raises(ModelRejectedRequest, match="check the key") as caught:
            client.complete(ask())
        assert "ABCDEFGHIJ" not in str(caught.value)
        assert caught.value.__cause__ is None

    def test_a_key_that_the_endpoint_repeats_does_not_come_through(self, client, server):
        server.will(Say(text=f"Your key is {KEY}."))
        completion = client.complete(ask())
        assert not re.search(re.escape(KEY), completion.model_dump_json())
        assert completion.outcome.text.startswith("Your key is [redacted")

    @pytest.mark.parametrize(
        "said", ["half \ud83d", "\ude00 half", "the start \ud83d\ude00 of it", "1234567\ud83d\ude00"]
    )
    def test_halves_of_surrogate_pairs_are_joined_or_replaced(self, client, server, said):
        server.will(Say(text=said, calls=(Call(name="read_file", arguments=f'{{"path": "{said}"}}'),), thinking=said))
        completion = client.complete(ask(tools=(READ_FILE,)))
        whole = said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert completion.outcome.text == whole
        assert completion.outcome.tool_calls[0].arguments() == {"path": whole}
        assert Completion.model_validate_json(completion.model_dump_json()) == completion
        turn = completion.outcome.as_message()
        result = ToolResult(call_id=completion.outcome.tool_calls[0].id, content="text")
        again = ask().model_copy(update={"messages": (*ask().messages, turn, result)})
        assert isinstance(client.complete(again).outcome, Reply)

    @pytest.mark.parametrize("count", [-5, 1e24, 10**24, "many", None, [3]])
    @pytest.mark.parametrize("kind", ["read", "written"])
    def test_a_count_that_cannot_be_is_usage_that_was_not_told(self, client, server, kind, count):
        server.will(Say(text="Yes.", counts={getattr(self, kind): count}))
        completion = client.complete(ask())
        assert completion.outcome == Reply(text="Yes.")
        assert completion.usage is None

    @pytest.mark.parametrize("kinds", [("written",), ("read", "written")])
    def test_a_reply_of_no_tokens_is_usage_that_was_not_told(self, client, server, kinds):
        nothing = {"cache_creation_input_tokens": 0, "prompt_tokens_details": None, "input_tokens_details": None}
        server.will(Say(text="Yes.", counts={getattr(self, kind): 0 for kind in kinds} | nothing))
        completion = client.complete(ask())
        assert completion.outcome == Reply(text="Yes.")
        assert completion.usage is None

    def test_a_prompt_of_no_tokens_is_usage_that_was_not_told(self, client, server):
        server.will(Say(text="Yes.", counts={self.read: 0}))
        assert client.complete(ask(prefix="")).usage is None
