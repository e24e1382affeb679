"""`register_model_loader(format)(class)` and `get_model_loader(config)`; the class must be a `BaseModelLoader`."""

from typing import Any

from vllm.config.load import LoadConfig


class BaseModelLoader:
    def __init__(self, load_config: LoadConfig) -> None:
        self.load_config = load_config


class DefaultModelLoader(BaseModelLoader):
    def load_model(self, vllm_config: Any, model_config: Any, prefix: str = "") -> Any:
        return model_config.make()


loaders: dict[str, type[BaseModelLoader]] = {"auto": DefaultModelLoader}


def register_model_loader(load_format: str) -> Any:
    def register(loader: type[BaseModelLoader]) -> type[BaseModelLoader]:
        if not issubclass(loader, BaseModelLoader):
            raise ValueError("The model loader must be a subclass of `BaseModelLoader`.")
        loaders[load_format] = loader
        return loader

    return register


def get_model_loader(load_config: LoadConfig) -> BaseModelLoader:
    return loaders[load_config.load_format](load_config)
