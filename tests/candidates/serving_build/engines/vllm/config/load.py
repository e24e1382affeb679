from dataclasses import dataclass


@dataclass
class LoadConfig:
    load_format: str = "auto"
