"""What changes for a served model when one build takes the place of another: a pure function of two manifests."""

from candidates.record import Record
from candidates.serving_build.manifest import KernelEntry, Manifest


class ChangedKernel(Record):
    op: str
    id: str
    before_id: str
    changes: tuple[str, ...]
    """Of the entry's fields, those that differ; `id` where it is another candidate."""
    speedup: float
    speedup_before: float


class BuildDifference(Record):
    """From a build `before` to a build `after`; kernels by op and site."""

    settings: tuple[str, ...]
    """Of the manifest's fields beside kernels and files, those that differ: the model, the device."""
    added: tuple[str, ...]
    """Ops that get a kernel."""
    removed: tuple[str, ...]
    changed: tuple[ChangedKernel, ...]
    is_runtime_changed: bool


def compare_builds(before: Manifest, after: Manifest) -> BuildDifference:
    old, new = _by_place(before), _by_place(after)
    return BuildDifference(
        settings=tuple(name for name in ("model", "device") if getattr(before, name) != getattr(after, name)),
        added=tuple(entry.op for place, entry in new.items() if place not in old),
        removed=tuple(entry.op for place, entry in old.items() if place not in new),
        changed=tuple(_changed(old[place], new[place]) for place in new if place in old and old[place] != new[place]),
        is_runtime_changed=before.files.get("runtime.py") != after.files.get("runtime.py"),
    )


def _by_place(manifest: Manifest) -> dict[tuple[str, str], KernelEntry]:
    return {(entry.op, entry.site.model_dump_json()): entry for entry in manifest.kernels}


def _changed(before: KernelEntry, after: KernelEntry) -> ChangedKernel:
    return ChangedKernel(
        op=after.op,
        id=after.id,
        before_id=before.id,
        changes=tuple(name for name in KernelEntry.model_fields if getattr(before, name) != getattr(after, name)),
        speedup=after.measurement.traffic_weighted_speedup,
        speedup_before=before.measurement.traffic_weighted_speedup,
    )
