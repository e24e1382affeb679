from typing import Any


class DefaultModelLoader:
    def load_model(self, *, model_config: Any, device_config: Any) -> Any:
        return model_config.make()
