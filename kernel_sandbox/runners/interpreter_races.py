"""Races between the programs of a launch, which Triton's interpreter runs one after the other and so cannot show.

Found are two programs that store different values to one address, one that loads what another stores, and one store
that gives one address two values. Launches with atomics are not looked at: programs may wait for each other there.

Runs inside the sandbox: no import of the project.
"""

from typing import Any

import numpy as np
from triton.runtime import interpreter

MOST_ELEMENTS = 1 << 23
"""Of all loads and stores of a launch; a larger one is not looked at."""

_BUILDER = interpreter.InterpreterBuilder


class RaceWatch:
    """Watch it from the first launch on; `begin` and `end` each launch."""

    def __init__(self) -> None:
        self._program = self._operation = self._elements = 0
        self._is_off = True
        self._loads: list[Any] = []
        self._stores: list[Any] = []
        self._watch_builder()

    def begin(self) -> None:
        self._program = self._operation = self._elements = 0
        self._is_off = False
        self._loads, self._stores = [], []

    def end(self) -> str | None:
        """What is wrong with the launch."""
        if self._is_off or not self._stores:
            return None
        self._is_off = True
        stores = np.concatenate(self._stores)
        stores.sort(order=("address", "operation"), kind="stable")
        before, after = stores[:-1], stores[1:]
        is_told_apart = (before["program"] != after["program"]) | (before["operation"] == after["operation"])
        clashes = (before["address"] == after["address"]) & is_told_apart & (before["value"] != after["value"])
        if clashes.any():
            return "two stores of different values to one address, in no order"
        if not self._loads:
            return None
        loads = np.concatenate(self._loads)
        addresses, first = np.unique(stores["address"], return_index=True)
        last = np.append(first[1:], len(stores)) - 1
        at = np.minimum(np.searchsorted(addresses, loads["address"]), len(addresses) - 1)
        is_stored = addresses[at] == loads["address"]
        # Stores of one address lie in the order of their programs.
        is_others = (stores["program"][first[at]] != loads["program"]) | (
            stores["program"][last[at]] != loads["program"]
        )
        return "a program loads what another one stores" if (is_stored & is_others).any() else None

    def _watch_builder(self) -> None:
        load, store, place = _BUILDER.create_masked_load, _BUILDER.create_masked_store, _BUILDER.set_grid_idx

        def create_masked_load(builder: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
            self._note(self._loads, pointers.data, mask.data, None)
            return load(builder, pointers, mask, *rest)

        def create_masked_store(builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
            self._note(self._stores, pointers.data, mask.data, value.data)
            return store(builder, pointers, value, mask, *rest)

        def set_grid_idx(builder: Any, *index: int) -> Any:
            self._program += 1
            return place(builder, *index)

        _BUILDER.create_masked_load, _BUILDER.create_masked_store = create_masked_load, create_masked_store
        _BUILDER.set_grid_idx = set_grid_idx
        for name in ("create_atomic_rmw", "create_atomic_cas"):
            self._stop_at(name)

    def _stop_at(self, name: str) -> None:
        original = getattr(_BUILDER, name)

        def stopped(builder: Any, *arguments: Any) -> Any:
            self._is_off = True
            return original(builder, *arguments)

        setattr(_BUILDER, name, stopped)

    def _note(self, kept: list[Any], pointers: Any, mask: Any, value: Any) -> None:
        self._operation += 1
        self._elements += pointers.size
        if self._is_off or self._elements > MOST_ELEMENTS:
            self._is_off = True
            return
        chosen = np.broadcast_to(mask, pointers.shape)
        fields = [("address", "u8"), ("program", "i8"), ("operation", "i8"), ("value", "u8")]
        noted = np.zeros(int(chosen.sum()), dtype=fields)
        noted["address"], noted["program"], noted["operation"] = pointers[chosen], self._program, self._operation
        if value is not None:
            bits = np.ascontiguousarray(value)
            noted["value"] = np.broadcast_to(bits.view(f"u{bits.itemsize}"), pointers.shape)[chosen]
        kept.append(noted)
