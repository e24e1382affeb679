"""Speaker: SmolLM2, a real model, behind the model server."""

from pathlib import Path
from typing import Any

from tests.model_server.behaviour import Say
from traces.served_model import DEFAULT_MODEL, open_model


class Speaker:
    """Greedy decoding, told as what the server is to say. `most_new_tokens`: the server's own limit, if it has one."""

    def __init__(self, home: Path, most_new_tokens: int | None = None) -> None:
        from transformers import AutoTokenizer

        served = open_model(DEFAULT_MODEL, home)
        self._module = served.load()
        self._tokenizer = AutoTokenizer.from_pretrained(served.tokenizer.parent, gguf_file=served.tokenizer.name)
        self._most_new_tokens = most_new_tokens

    def __call__(self, body: dict[str, Any]) -> Say:
        prompt = self._tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        length = prompt["input_ids"].shape[1]
        most = min(body["max_tokens"], self._most_new_tokens or body["max_tokens"])
        written = self._module.generate(**prompt, max_new_tokens=most, do_sample=False)[0, length:]
        return Say(
            text=self._tokenizer.decode(written, skip_special_tokens=True),
            stop="max_tokens" if len(written) == most else "end",
            input_tokens=length,
            output_tokens=len(written),
        )
