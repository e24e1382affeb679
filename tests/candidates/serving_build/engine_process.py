"""A process of an engine with our plugin installed: `engine_process.py vllm|sglang`; prints one JSON document.

The engine is the stand-in in `engines/`, or with COMPILER_AGENT_TEST_SGLANG the hooks of an unpacked wheel of SGLang.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

GROUPS = {"vllm": "vllm.general_plugins", "sglang": "sglang.srt.plugins"}


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Served(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.norm(x)
        return normed


def main(engine: str) -> None:
    (entry_point,) = importlib.metadata.entry_points(group=GROUPS[engine])
    plugin = sys.modules[entry_point.load().__module__]
    load = {"vllm": load_by_vllm, "sglang": load_by_sglang}[engine](plugin)
    installing: Any = importlib.import_module(f"{plugin.__package__}.installing")
    x = torch.randn(1, 3, 64)
    with torch.inference_mode():
        expected = Served()(x)
        others = load("acme/another")(x)
        model = load("acme/TINY")
        errors = [float((got - expected).abs().max()) for got in (others, model(x), model(x))]
        os.environ["COMPILER_AGENT_MODEL"] = "/models/renamed"
        renamed = load("/models/renamed")
        renamed(x)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        errors.append(float((compiled(x) - expected).abs().max()))
    hits = [counted["hits"] for counters in installing.counters() for counted in counters.values()]
    os.environ["COMPILER_AGENT_DISABLE"] = "1"
    load("/models/renamed")
    shown = {"entry_point": entry_point.name, "errors": errors, "hits": hits, "events": dict(installing.events)}
    sys.stdout.write(json.dumps(shown))


def load_by_vllm(plugin: Any) -> Callable[[str], torch.nn.Module]:
    from vllm.config.load import LoadConfig
    from vllm.model_executor.model_loader import get_model_loader

    plugin.register()
    loader = type(get_model_loader(LoadConfig()))
    plugin.register()
    assert type(get_model_loader(LoadConfig())) is loader

    def load(name: str) -> torch.nn.Module:
        config = SimpleNamespace(model=name, make=Served)
        model: torch.nn.Module = get_model_loader(LoadConfig()).load_model(vllm_config=None, model_config=config)
        return model

    return load


def load_by_sglang(plugin: Any) -> Callable[[str], torch.nn.Module]:
    unpacked = os.environ.get("COMPILER_AGENT_TEST_SGLANG")
    if unpacked is not None:
        use_real_hooks(Path(unpacked))
    from sglang.srt.model_loader.loader import DefaultModelLoader
    from sglang.srt.plugins.hook_registry import HookRegistry

    plugin.register()
    plugin.register()
    HookRegistry.apply_hooks()
    assert [len(hooks) for hooks in getattr(HookRegistry, "_hooks", getattr(HookRegistry, "hooks", {})).values()] == [1]

    def load(name: str) -> torch.nn.Module:
        config = SimpleNamespace(model_path=name, make=Served)
        model: torch.nn.Module = DefaultModelLoader().load_model(model_config=config, device_config=None)
        return model

    return load


def use_real_hooks(wheel: Path) -> None:
    """SGLang's own `hook_registry` in place of the stand-in's; the rest of SGLang needs a GPU's libraries."""
    import sglang.srt.plugins

    path = wheel / "sglang" / "srt" / "plugins" / "hook_registry.py"
    module: ModuleType = types.ModuleType("sglang.srt.plugins.hook_registry")
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    sglang.srt.plugins.hook_registry = module  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(sys.argv[1])
