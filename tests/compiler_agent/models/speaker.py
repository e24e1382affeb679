"""Speaker: SmolLM2, a real model, behind the model server."""

from pathlib import Path
from typing import Any

from tests.model_server.behaviour import Say
from traces.served_model import DEFAULT_MODEL, open_model


class Speaker:
    """Greedy decoding, told as what the server is to say.

    With a `frame`, as servers with guided decoding have it, every answer begins and ends with these two texts, and
    `most_new_tokens` of the model's own stand between them.
    """

    def __init__(self, home: Path, most_new_tokens: int | None = None, frame: tuple[str, str] = ("", "")) -> None:
        from transformers import AutoTokenizer

        served = open_model(DEFAULT_MODEL, home)
        self._module = served.load()
        self._tokenizer = AutoTokenizer.from_pretrained(served.tokenizer.parent, gguf_file=served.tokenizer.name)
        self._most_new_tokens, self._frame = most_new_tokens, frame

    def __call__(self, body: dict[str, Any]) -> Say:
        begin, end = self._frame
        asked = self._tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True, tokenize=False)
        prompt = self._tokenizer(asked + begin, add_special_tokens=False, return_tensors="pt")
        length = prompt["input_ids"].shape[1]
        most = min(body["max_tokens"], self._most_new_tokens or body["max_tokens"])
        written = self._module.generate(**prompt, max_new_tokens=most, do_sample=False)[0, length:]
        return Say(
            text=begin + self._tokenizer.decode(written, skip_special_tokens=True) + end,
            stop="max_tokens" if len(written) == most and not end else "end",
            input_tokens=length,
            output_tokens=len(written),
        )
