"""Manifest: what a serving build holds, where each kernel goes, and for which calls."""

import math
from collections.abc import Iterable
from typing import Literal

from pydantic import Field, model_validator

from candidates.device import DeviceFingerprint
from candidates.measurement import Decision, Measurement
from candidates.record import Record
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec
from traces.sites import Constant, OpSite, SiteKind

REACH = 2
"""How far beyond the outermost shape that won, in its size, a kernel may still serve."""


class Bound(Record):
    """The product of the named axes lies in [low, high]; one name bounds that axis."""

    axes: tuple[str, ...]
    low: int = Field(ge=1)
    high: int = Field(ge=1)

    @model_validator(mode="after")
    def _is_ordered(self) -> "Bound":
        if self.low > self.high:
            raise ValueError(f"bound on {self.axes} runs from {self.low} down to {self.high}")
        return self


ShapeRange = tuple[Bound, ...]
"""Calls that satisfy every bound; the empty range is every shape."""


class CacheArgument(Record):
    """A key/value cache among a module's arguments, one of whose layers it makes longer."""

    argument: str
    layers: tuple[int, ...]
    """Of each of the module paths: which of the cache's layers it updates."""
    kind: str
    """The class, exactly: one derived from it may do anything else."""
    layer_kind: str
    settings: dict[str, Constant]
    """Numbers and words that the cache has for attributes; one with others is for the original code."""
    grows_along: int
    """Dim of keys and values."""
    grows_by: int = Field(ge=1)


class CallArguments(Record):
    """How calls at a module bring what its kernel takes, where that is more than leading tensors."""

    tensors: tuple[str, ...]
    """Of each activation and state: `hidden_states`, `position_embeddings.0` for a part of a tuple, `cache.keys`."""
    unused: tuple[str, ...]
    """Arguments that make no difference."""
    constants: dict[str, Constant]
    """Arguments that must be these. Any other may only be None, or what it is by default."""
    cache: CacheArgument | None
    returns: tuple[bool, ...] | None
    """Where the module returns a tuple: which of its parts are the kernel's outputs; the others are None."""


class InstallationSite(Record):
    """Where the runtime puts a kernel."""

    kind: SiteKind
    module_paths: tuple[str, ...]
    """Of a FUNCTION site: the modules that were seen to call it."""
    function: str | None = None
    region: str | None = None
    block_source: str | None = None
    region_sources: dict[str, str] = Field(default_factory=dict)
    """Of a REGION site: `def region(...)` of every region of the block, by name; serves what the kernels do not."""
    call: CallArguments | None = None
    """Of a MODULE site; None: the kernel's activations are its leading arguments."""

    @model_validator(mode="after")
    def _is_complete(self) -> "InstallationSite":
        match self.kind:
            case SiteKind.FUNCTION if self.function is None:
                raise ValueError("a function site needs the function's dotted path")
            case SiteKind.REGION if self.block_source is None or self.region not in self.region_sources:
                raise ValueError(f"region site {self.region} needs the source of its block and of its own operations")
            case SiteKind.MODULE | SiteKind.REGION if not self.module_paths:
                raise ValueError(f"{self.kind} site without module paths")
            case _:
                return self


class KernelEntry(Record):
    """One kernel of a build, all that the runtime needs to serve it, and why it is here."""

    id: str
    """Of the candidate."""
    task_id: str
    op: str
    site: InstallationSite
    library: str
    """File of the artifact within the build."""
    entry: str
    prepare: str | None
    inputs: tuple[InputSpec, ...]
    outputs: tuple[TensorSpec, ...]
    axes: tuple[str, ...]
    ranges: tuple[ShapeRange, ...]
    """A call is served when it lies in any of them."""
    error_bound: ErrorBound
    """Of the task: how far kernel and original may each lie from the exact result, for shadow mode."""
    measurement: Measurement


class Manifest(Record):
    schema_version: Literal[2, 3] = 2
    """3: a parameter has a weight format, which a runtime that reads 2 alone would not check."""
    model: str
    device: DeviceFingerprint
    kernels: tuple[KernelEntry, ...]
    files: dict[str, str]
    """sha256 (hex) of every other file of the build, by its path within the build."""


def site_of(site: OpSite, sites: Iterable[OpSite], call: CallArguments | None = None) -> InstallationSite:
    """Where a kernel for `site` goes; `sites` are all of the model, among them the other regions of its block."""
    siblings = [
        other
        for other in sites
        if other.kind is SiteKind.REGION is site.kind
        and other.module_paths == site.module_paths
        and other.block_source == site.block_source
    ]
    return InstallationSite(
        kind=site.kind,
        module_paths=site.module_paths,
        function=site.function,
        region=site.region,
        block_source=site.block_source,
        region_sources={other.region or "": other.region_source or "" for other in siblings},
        call=call,
    )


def ranges_of_wins(task: KernelTask, measurement: Measurement) -> tuple[ShapeRange, ...]:
    """Ranges of size (product of all axes of shapes) in which every measured workload is a win.

    A run of wins, in order of size, reaches half way (by ratio) to a neighbour that is no win, and by a factor of
    REACH into sizes that nobody measured. A task without axes has the empty range if it won.
    """
    won = {workload.workload for workload in measurement.workloads if workload.decision is Decision.WIN}
    measured = {workload.workload for workload in measurement.workloads}
    if not task.shape_axes:
        return ((),) if won else ()
    wins_by_size: dict[int, bool] = {}
    for workload in task.workloads:
        if workload.name in measured:
            size = math.prod(workload.axes[axis] for axis in task.shape_axes)
            wins_by_size[size] = wins_by_size.get(size, True) and workload.name in won
    sizes = sorted(wins_by_size)
    ranges: list[ShapeRange] = []
    first: int | None = None
    for place, size in enumerate(sizes):
        if not wins_by_size[size]:
            continue
        if first is None:
            first = size // REACH if place == 0 else math.isqrt(sizes[place - 1] * size) + 1
        is_last = place + 1 == len(sizes)
        if is_last or not wins_by_size[sizes[place + 1]]:
            last = size * REACH if is_last else math.isqrt(size * sizes[place + 1])
            ranges.append((Bound(axes=task.shape_axes, low=max(1, min(first, size)), high=max(last, size)),))
            first = None
    return tuple(ranges)
