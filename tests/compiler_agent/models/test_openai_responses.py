from compiler_agent.models.completion import Filtered
from compiler_agent.models.endpoints import ApiName
from tests.compiler_agent.models.model_client_contract import ModelClientContract, ask
from tests.model_server.behaviour import Say


class TestOpenAIResponses(ModelClientContract):
    api = ApiName.OPENAI_RESPONSES
    path = "/v1"

    def test_a_filtered_reply_is_told_from_a_whole_one(self, client, server):
        server.will(Say(text="void ker", stop="filter"))
        completion = client.complete(ask())
        assert completion.outcome == Filtered(text="void ker")
        assert completion.usage is not None

    def test_requests_that_share_a_prefix_share_a_cache_key(self, client, server):
        client.complete(ask("one"))
        client.complete(ask("two"))
        client.complete(ask("two", prefix="other"))
        first, second, third = (request["prompt_cache_key"] for request in server.requests)
        assert first == second != third
