import json

from compiler_agent.models.completion import CutOff, Reply, ToolResult
from compiler_agent.models.endpoints import ApiName
from tests.compiler_agent.models.model_client_contract import READ_FILE, ModelClientContract, ask
from tests.model_server.behaviour import Call, Say


class TestAnthropicMessages(ModelClientContract):
    api = ApiName.ANTHROPIC_MESSAGES

    def test_the_breakpoint_stands_at_the_end_of_the_prefix(self, client, server):
        client.complete(ask(tools=(READ_FILE,)))
        (request,) = server.requests
        assert [block.get("cache_control") for block in request["system"]] == [{"type": "ephemeral"}]
        assert json.dumps(request).count("cache_control") == 1

    def test_an_empty_prefix_sends_no_system_block(self, client, server):
        client.complete(ask(prefix=""))
        assert "system" not in server.requests[0]

    def test_signed_thinking_goes_back_beside_the_results_of_tools(self, client, server):
        call = Call(name="read_file", arguments='{"path": "a"}')
        server.will(Say(thinking="Hm, I should look.", text="", calls=(call,)), Say(text="Done."))
        request = ask(tools=(READ_FILE,))
        reply = client.complete(request).outcome
        result = ToolResult(call_id=reply.tool_calls[0].id, content="text")
        client.complete(request.model_copy(update={"messages": (*request.messages, reply.as_message(), result)}))
        turn = server.requests[1]["messages"][1]["content"]
        assert turn[0] == {"type": "thinking", "thinking": "Hm, I should look.", "signature": "c2lnbmVk"}
        assert turn[1]["input"] == {"path": "a"}

    def test_thinking_is_no_part_of_the_text(self, client, server):
        server.will(Say(thinking="Hm.", text="Yes."))
        assert client.complete(ask()).outcome == Reply(text="Yes.")

    def test_a_full_context_window_is_told_from_the_requests_limit(self, client, server):
        server.will(Say(text="void", stop="context_window"))
        assert client.complete(ask()).outcome == CutOff(text="void", limit="context_window")
