import pytest

from compiler_agent.models.apis import open_client
from compiler_agent.models.completion import Filtered, Reply
from compiler_agent.models.endpoints import ApiName, Endpoint
from compiler_agent.models.openai_sdk import takes_breakpoints
from compiler_agent.models.redaction import Redactor
from tests.compiler_agent.models.model_client_contract import QUICK, READ_FILE, ModelClientContract, ask
from tests.model_server.behaviour import Call, Say
from tests.model_server.server import MODEL, ModelServer


class TestOpenAIChat(ModelClientContract):
    api = ApiName.OPENAI_CHAT
    path = "/v1"
    read, written = "prompt_tokens", "completion_tokens"

    def test_a_filtered_reply_is_told_from_a_whole_one(self, client, server):
        server.will(Say(text="void ker", stop="filter"))
        completion = client.complete(ask())
        assert completion.outcome == Filtered(text="void ker")
        assert completion.usage is not None

    def test_usage_that_a_server_leaves_out_is_unknown(self, client, server):
        server.will(Say(with_usage=False))
        assert client.complete(ask()).usage is None

    def test_a_compatible_server_without_a_key_is_sent_what_all_of_them_know(self):
        server = ModelServer(key=None, is_vendors=False)  # it refuses any other parameter
        endpoint = Endpoint(name="local", api=self.api, model=MODEL, base_url=server.url + self.path)
        completion = open_client(endpoint, None, Redactor([]), QUICK).complete(ask())
        server.close()
        assert completion.outcome == Reply(text="yes, of course")
        assert server.requests[0]["max_tokens"] == 200

    def test_parallel_calls_that_a_server_gives_one_index_are_told_apart(self):
        server = ModelServer(key=None, is_vendors=False)
        server.will(Say(text="", calls=tuple(Call(name="read_file", arguments=f'{{"path": "{n}"}}') for n in "ab")))
        endpoint = Endpoint(name="local", api=self.api, model=MODEL, base_url=server.url + self.path)
        outcome = open_client(endpoint, None, Redactor([]), QUICK).complete(ask(tools=(READ_FILE,))).outcome
        server.close()
        assert [(call.id, call.arguments()) for call in outcome.tool_calls] == [
            ("call_0", {"path": "a"}), ("call_1", {"path": "b"}),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "base_url", "takes"),
    [
        ("gpt-5.5", None, False),
        ("gpt-5.6-sol", None, True),
        ("gpt-6-luna", None, True),
        ("gpt-6-luna", "http://localhost/v1", False),
        ("gpt-5.10", None, True),
        ("gpt-4o", None, False),
        ("o4-mini", None, False),
    ],
)
def test_cache_breakpoints_are_for_models_that_take_them(model, base_url, takes):
    endpoint = Endpoint(name="a", api=ApiName.OPENAI_CHAT, model=model, base_url=base_url)
    assert takes_breakpoints(endpoint) is takes
