"""read_serving: which kernels serve now, from the live build and from what the processes that serve it counted."""

import time
from pathlib import Path

from candidates.serving_build.build import Build
from candidates.serving_build.builds import BuildNotFound, BuildStore
from candidates.serving_build.counters import counted_of
from candidates.serving_build.runtime import BuildRefused
from candidates.standing import InService, KernelPlace

COMPARED_WITHIN_S = 24 * 3600.0
"""A process that has told nothing for longer compares nothing any more."""


def read_serving(build: Build | None, counters: Path) -> InService:
    """`build`: the live one; None: none is, or it serves nothing."""
    if build is None:
        return InService()
    places = {entry.id: KernelPlace(task_id=entry.task_id, candidate_id=entry.id) for entry in build.manifest.kernels}
    compared = {
        candidate_id
        for counted in counted_of(counters, build.id, since_s=time.time() - COMPARED_WITHIN_S)
        for candidate_id, kernel in counted.kernels.items()
        if kernel.shadow
    }
    return InService(
        live=frozenset(places.values()),
        shadow=frozenset(place for candidate_id, place in places.items() if candidate_id in compared),
    )


def live_build(builds: BuildStore) -> Build | None:
    """None: none is live, or the one that is was changed or removed, and serves nothing."""
    try:
        current = builds.current()
        return None if current is None else builds.show(current)
    except (BuildNotFound, BuildRefused):
        return None
