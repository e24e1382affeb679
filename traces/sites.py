"""OpSite: a place in the served model where a kernel could stand, and the calls that traffic makes there.

Three kinds of places: a module (`LlamaRMSNorm`), a function that modules call (`apply_rotary_pos_emb`), and a region:
the run of plain tensor operations between the child modules of a block (`LlamaMLP`: activation times gate).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from traces.model_calls import CallRate, ModelCall


class SiteKind(StrEnum):
    MODULE = "module"
    FUNCTION = "function"
    REGION = "region"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSite:
    op: str
    """`LlamaRMSNorm`, `Linear[576,1536]`, `apply_rotary_pos_emb`, `LlamaMLP.region0`."""
    kind: SiteKind
    level: str
    """`leaf`, `block` or `layer`; functions and regions are leaves."""
    pattern: str
    """Module paths with layer numbers collapsed: `model.layers.*.mlp`; several joined by `|`."""
    module_paths: tuple[str, ...]
    """Every module instance that this site stands for: one kernel serves them all."""
    function: str | None = None
    """Dotted path of a FUNCTION site: `transformers.models.llama.modeling_llama.apply_rotary_pos_emb`."""
    region: str | None = None
    """Name of a REGION site within its block: `region0`."""
    block_source: str | None = None
    """Of a REGION site: Python source of `def make_forward(regions): ...`, which returns the block's `forward`
    with every region replaced by a call `regions["region0"](...)`; child modules are called as before, so kernels at
    the children still serve. Needs torch alone."""
    region_source: str | None = None
    """Of a REGION site: Python source of `def region(<tensors>): ...`, the block's own operations by torch alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTensor:
    argument: str
    """Parameter of the module's forward or of the function; `name.0`, `name.1` for a tuple's parts, `name.keys` and
    `name.values` for those of a cache."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_type: str
    """`float32`, `bfloat16`, …: torch's name without the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCache:
    """A key/value cache among the arguments: an object whose `layers` hold `keys` and `values`, one of which the
    module made longer."""

    argument: str
    layer: int
    """The one of its layers that the site's first module updates."""
    grows_along: int
    """The dim of keys and values that became longer."""
    grows_by: int
    sample: Any = field(compare=False, repr=False)
    """The object itself, after the call."""


Constant = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCall:
    """One distinct call at a site: the tensors it got, and how often an hour of the replayed traffic makes it."""

    tensors: tuple[ObservedTensor, ...]
    """Tensor arguments in order, parameters not among them; of a cache the `keys` and `values` that the module
    updates, as they are after the call."""
    calls_per_hour: float
    """0: a probe of the capture, which no traffic asked for; it only shows which dims may vary."""
    calls_per_hour_by_class: Mapping[str, float] = field(default_factory=dict)
    cache: ObservedCache | None = None
    constants: tuple[tuple[str, Constant], ...] = ()
    """Of a module: arguments that are numbers or words and not what they are by default, by name."""
    settings: tuple[tuple[str, str], ...] = ()
    """Other arguments that are neither tensors nor defaults, by name; no kernel can serve such a call."""
    sources: Mapping[ModelCall, CallRate] = field(default_factory=dict)
    """The forward passes of the model that make this call; rates are of this call and sum to `calls_per_hour`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedSite:
    site: OpSite
    calls: tuple[SiteCall, ...]
