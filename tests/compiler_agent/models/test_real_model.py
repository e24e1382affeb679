"""A real model through the real client: SmolLM2 behind the test server's wire."""

import pytest

from compiler_agent.models.apis import open_client
from compiler_agent.models.budget import most_input_tokens
from compiler_agent.models.completion import CutOff, ModelRequest, Reply, UserMessage
from compiler_agent.models.endpoints import ApiName, Endpoint
from compiler_agent.models.redaction import Redactor
from tests.compiler_agent.models.speaker import Speaker
from tests.model_server.server import MODEL, ModelServer


@pytest.mark.slow
def test_a_real_model_answers_through_chat_completions(tmp_path):
    server = ModelServer(key=None, is_vendors=False)
    server.default = Speaker(tmp_path)
    endpoint = Endpoint(name="local", api=ApiName.OPENAI_CHAT, model=MODEL, base_url=f"{server.url}/v1")
    request = ModelRequest(
        prefix="You answer in one short sentence.",
        messages=(UserMessage(text="What is the capital of France?"),),
        max_output_tokens=24,
    )
    completion = open_client(endpoint, None, Redactor([])).complete(request)
    server.close()
    assert isinstance(completion.outcome, Reply | CutOff)
    assert "Paris" in completion.outcome.text
    assert 0 < completion.usage.output_tokens <= 24
    assert completion.usage.input_tokens <= most_input_tokens(request)
