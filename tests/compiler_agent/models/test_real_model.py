"""A real model through the real client: SmolLM2 behind the test server's wire."""

from typing import Any

import pytest

from compiler_agent.models.apis import open_client
from compiler_agent.models.budget import most_input_tokens
from compiler_agent.models.completion import CutOff, ModelRequest, Reply, UserMessage
from compiler_agent.models.endpoints import ApiName, Endpoint
from compiler_agent.models.redaction import Redactor
from tests.model_server.behaviour import Say
from tests.model_server.server import MODEL, ModelServer
from traces.served_model import DEFAULT_MODEL, open_model


class Speaker:
    """Greedy decoding of SmolLM2, told as what the server is to say."""

    def __init__(self, home: Any) -> None:
        from transformers import AutoTokenizer

        served = open_model(DEFAULT_MODEL, home)
        self._module = served.load()
        self._tokenizer = AutoTokenizer.from_pretrained(served.tokenizer.parent, gguf_file=served.tokenizer.name)

    def __call__(self, body: dict[str, Any]) -> Say:
        prompt = self._tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        length = prompt["input_ids"].shape[1]
        written = self._module.generate(**prompt, max_new_tokens=body["max_tokens"], do_sample=False)[0, length:]
        is_cut = len(written) == body["max_tokens"]
        return Say(
            text=self._tokenizer.decode(written, skip_special_tokens=True),
            stop="max_tokens" if is_cut else "end",
            input_tokens=length,
            output_tokens=len(written),
        )


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
