"""ServingTarget: a place outside of this project where a build's kernels can be served, and what is written for it.

It does not install anything: `runtime.install` does, in the process that serves. Models of `transformers` need no
target, the build's folder is what they load.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from candidates.serving_build.build import Build

TRUST = (
    "`COMPILER_AGENT_TRUSTED_KEYS` must name a key that signed it, or `COMPILER_AGENT_ALLOW_UNSIGNED=1` be set: with "
    "neither nothing of it is served, and the log says so."
)
"""For the reader of an export whose code installs a build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A kernel that a target does not carry."""

    kernel_id: str
    op: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    files: Mapping[str, bytes]
    """By path within the folder. The same build gives the same bytes."""
    carried: tuple[str, ...]
    """Ids of the kernels within; where there are none, there are no files."""
    left_out: tuple[LeftOut, ...]
    next_step: str
    """What to type or to write, with FOLDER for where the export lies."""


class ServingTarget(Protocol):
    def export(self, build: Build) -> Export:
        """Pure but for reading the build's folder.

        Names that come from the build (ops, models, tensors) may hold anything and are made harmless here. Raises
        runtime.BuildRefused for a file that was changed since the build was read.
        """
        ...
