"""Runs a served model inside a sandbox, one forward pass at a time, as the judge outside asks.

Commands come as JSON lines on standard input, one reply goes out for each. Token ids come in and logits go out through
shared memory: int64 `[batch, tokens]`, and float32 `[batch, vocab]` of the last position. It keeps no clock and
computes no figure: whatever it says beside the logits is evidence of engagement at most.

Run by path with the interpreter of an environment that has torch and transformers; imports nothing of this project.
"""

import argparse
import copy
import importlib.util
import inspect
import json
import mmap
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

SHARED_LAYERS_ABOVE_BYTES = 1 << 29
"""A synthetic cache above this size holds one layer's tensors for all layers."""


class ModelServer:
    def __init__(self, options: argparse.Namespace) -> None:
        torch.set_num_threads(options.threads)
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            options.model, dtype=torch.float32, local_files_only=True
        ).eval()
        # Transformers renamed `past_key_values` to `cache` in release 5.24.
        parameters = inspect.signature(self.model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._installation = None
        if options.build is not None:
            self._installation = _load_runtime(Path(options.build)).install(self.model, options.build)
        if options.compile:
            self.model.forward = torch.compile(self.model.forward, dynamic=True)
        self._tokenizer_source = Path(options.tokenizer)
        ids, logits = options.arena
        self._ids = np.frombuffer(mmap.mmap(ids, 0, access=mmap.ACCESS_READ), dtype=np.int64)
        self._logits = torch.frombuffer(mmap.mmap(logits, 0), dtype=torch.float32)
        self._cache: Any = self._empty_cache()

    def cache(self, batch: int, context: int, seed: int) -> dict[str, Any]:
        """Starts over with a cache of `context` random tokens for each of `batch` sequences."""
        self._cache = self._empty_cache()
        if context:
            config = self.model.config
            heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
            head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
            generator = torch.Generator().manual_seed(seed)
            sizes = (batch, heads, context, head_dim)
            is_shared = 8 * batch * heads * context * head_dim * len(self._layers()) > SHARED_LAYERS_ABOVE_BYTES
            keys = values = torch.empty(0)
            for number, layer in enumerate(self._layers()):
                if number == 0 or not is_shared:
                    keys, values = torch.randn(sizes, generator=generator), torch.randn(sizes, generator=generator)
                self._cache.update(keys[:, :, :1], values[:, :, :1], number)
                layer.keys, layer.values = keys, values
        return {}

    def expand(self, batch: int) -> dict[str, Any]:
        """Repeats the one sequence of the cache `batch` times."""
        self._cache.batch_repeat_interleave(batch)
        return {}

    def step(self, batch: int, tokens: int, is_kept: bool) -> dict[str, Any]:
        """One forward pass; the cache grows by it if `is_kept`, else it is afterwards as it was before."""
        context = self._cache.get_seq_length()
        cache = self._cache
        if not is_kept:
            # Layers replace their tensors when they grow, so a shallow copy is enough.
            cache = copy.copy(self._cache)
            cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        ids = torch.from_numpy(self._ids[: batch * tokens].reshape(batch, tokens).copy())
        positions = torch.arange(context, context + tokens).expand(batch, tokens).contiguous()
        with torch.no_grad():
            output = self.model(
                input_ids=ids,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{self._cache_argument: cache},
            )
        logits = output.logits[:, -1]
        self._logits[: logits.numel()].reshape(logits.shape).copy_(logits)
        return {}

    def threads(self, count: int) -> dict[str, Any]:
        torch.set_num_threads(count)
        return {}

    def tokenize(self, texts: list[str]) -> dict[str, Any]:
        source = self._tokenizer_source
        if source.suffix == ".gguf":
            tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        else:
            tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
        return {"ids": [tokenizer(text)["input_ids"] for text in texts]}

    def report(self) -> dict[str, Any]:
        """Peak memory, and the counters of an installed build."""
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if self._installation is None:
            return {"peak_bytes": peak_bytes, "counters": {}, "obstacle": None, "failures": {}}
        return {
            "peak_bytes": peak_bytes,
            "counters": self._installation.counters(),
            "obstacle": self._installation.obstacle,
            "failures": self._installation.failures,
        }

    def _empty_cache(self) -> Any:
        return DynamicCache(config=self.model.config)

    def _layers(self) -> list[Any]:
        layers: list[Any] = self._cache.layers
        return layers


def _load_runtime(build: Path) -> ModuleType:
    """The runtime that came with the build: what serving will run."""
    spec = importlib.util.spec_from_file_location("serving_build_runtime", build / "runtime.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"no runtime.py in {build}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--build")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--arena", type=int, nargs=2, required=True, help="descriptors of the ids and of the logits")
    parser.add_argument("--compile", action="store_true")
    # Libraries print to standard output; replies must be alone on the pipe.
    with os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8") as replies:
        os.dup2(2, 1)
        server = ModelServer(parser.parse_args())
        commands: dict[str, Callable[..., dict[str, Any]]] = {
            "cache": server.cache,
            "expand": server.expand,
            "step": server.step,
            "threads": server.threads,
            "tokenize": server.tokenize,
            "report": server.report,
        }
        replies.write(json.dumps({"ready": True}) + "\n")
        for line in sys.stdin:
            command = json.loads(line)
            replies.write(json.dumps(commands[command.pop("do")](**command)) + "\n")


if __name__ == "__main__":
    main()
