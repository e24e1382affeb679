"""A general plugin of SGLang: a model that SGLang loads in its default load format gets the serving build.

By a hook after `DefaultModelLoader.load_model`, which SGLang applies itself once all plugins have registered.
"""

import os
from typing import Any

from .installing import events, install_in, logger

TARGET = "sglang.srt.model_loader.loader.DefaultModelLoader.load_model"

_is_registered = False


def register() -> None:
    """Called in every process of SGLang."""
    try:
        _register()
    except Exception:  # noqa: BLE001  (an engine must serve, whatever is wrong with a plugin)
        events["error"] += 1
        logger.exception("no serving build will be installed; SGLang's own code serves")


def after_load_model(model: Any, *arguments: Any, **keywords: Any) -> None:
    """The hook: gets what was loaded and the loader's arguments; None leaves the result as it is."""
    install_in(model, _served_name(arguments, keywords), dict(os.environ))


def _register() -> None:
    global _is_registered
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    if not _is_registered:
        HookRegistry.register(TARGET, after_load_model, HookType.AFTER)
        _is_registered = True


def _served_name(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Of `load_model(self, *, model_config, ...)`: what was given as the model."""
    given = keywords.get("model_config", arguments[1] if len(arguments) > 1 else None)
    return str(getattr(given, "model_path", ""))
