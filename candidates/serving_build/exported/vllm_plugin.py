"""A general plugin of vLLM: a model that vLLM loads in its default load format gets the serving build.

By vLLM's plugin for model loaders (`register_model_loader`): the loader of the format `auto` is replaced by a subclass
that installs the build in what it loaded. vLLM logs that the format is overwritten. Loads with another
`--load-format` are left alone.
"""

import os
from typing import Any

from .installing import events, install_in, logger


def register() -> None:
    """Called in every process of vLLM, possibly several times."""
    try:
        _register()
    except Exception:  # noqa: BLE001  (an engine must serve, whatever is wrong with a plugin)
        events["error"] += 1
        logger.exception("no serving build will be installed; vLLM's own code serves")


def _register() -> None:
    from vllm.config.load import LoadConfig
    from vllm.model_executor.model_loader import get_model_loader, register_model_loader

    loader = type(get_model_loader(LoadConfig(load_format="auto")))
    if getattr(loader, "installs_for", None) == __name__:
        return

    class InstallingLoader(loader):  # type: ignore[valid-type,misc]
        installs_for = __name__

        def load_model(self, *arguments: Any, **keywords: Any) -> Any:
            model = super().load_model(*arguments, **keywords)
            install_in(model, _served_name(arguments, keywords), dict(os.environ))
            return model

    register_model_loader("auto")(InstallingLoader)


def _served_name(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Of `load_model(vllm_config, model_config, ...)`: what was given as the model."""
    given = keywords.get("model_config", arguments[1] if len(arguments) > 1 else None)
    return str(getattr(given, "model", ""))
