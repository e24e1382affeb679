"""Prices: what a model's tokens cost, from the table that ships, the user's own table, or the endpoint's entry."""

import math
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from pydantic import Field, ValidationError

from candidates.record import Record
from candidates.spending import Usage
from compiler_agent.outcome import UserFault

SHIPPED_PRICES = Path(__file__).with_name("prices.toml")

PRICES_FILE = "prices.toml"
"""In the home folder; its entries win over the shipped ones."""

_NANO_USD_PER_TOKEN = 1000
"""Of a dollar per million tokens."""


_MOST_USD = 1e4
"""Per million tokens; with more, a number was given for something else, and a call's cost may pass the ledger's 64
bits."""


class Price(Record):
    """US dollars per million tokens."""

    input: float = Field(ge=0, le=_MOST_USD)
    output: float = Field(ge=0, le=_MOST_USD)
    cache_read: float | None = Field(ge=0, le=_MOST_USD, default=None)
    """None: as `input`."""
    cache_write: float | None = Field(ge=0, le=_MOST_USD, default=None)
    """None: as `input`."""
    up_to_input_tokens: int | None = Field(ge=1, default=None)
    """Longer prompts are priced otherwise, which is not written here."""

    def nano_usd(self, usage: Usage) -> int:
        """Rounded up."""
        return _nano_usd(
            usage.input_tokens * self.input
            + usage.cache_read_tokens * (self.input if self.cache_read is None else self.cache_read)
            + usage.cache_write_tokens * self._write
            + usage.output_tokens * self.output
        )

    def worst_nano_usd(self, input_tokens: int, output_tokens: int) -> int:
        """Nothing read from a cache, everything written to it where that costs more."""
        return _nano_usd(input_tokens * max(self.input, self._write) + output_tokens * self.output)

    @property
    def _write(self) -> float:
        return self.input if self.cache_write is None else self.cache_write


class _Table(Record):
    as_of: date
    source: str
    models: dict[str, Price]


class ListedPrice(Record):
    """A price with where it was read and when."""

    price: Price
    source: str
    as_of: date | None


def read_prices(home: Path) -> Mapping[str, ListedPrice]:
    """By model name. Raises UserFault for a table of the user's that cannot be read."""
    prices: dict[str, ListedPrice] = {}
    for path in (SHIPPED_PRICES, home / PRICES_FILE):
        if not path.exists():
            continue
        try:
            tables = [_Table.model_validate(table) for table in tomllib.loads(path.read_text()).values()]
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
            raise UserFault(f"cannot read the prices in {path}: {error}; its format is that of {SHIPPED_PRICES}") from (
                error
            )
        for table in tables:
            for model, price in table.models.items():
                prices[model] = ListedPrice(price=price, source=table.source, as_of=table.as_of)
    return prices


def _nano_usd(micro_usd: float) -> int:
    """`micro_usd`: tokens times dollars per million. Rounding first takes away what binary fractions add."""
    return math.ceil(round(micro_usd * _NANO_USD_PER_TOKEN, 3))
