"""kernel_files: what a merge puts into the repository to be served: each kernel's source, and where it serves."""

import json

from candidates.pull_requests.win import Proposed, Win
from candidates.serving_build.manifest import KernelEntry

SCHEMA_VERSION = 1


def source_name(win: Win, stem: str) -> str:
    """Begins so that pytest never takes a kernel for a test."""
    return f"kernel_{stem}{win.candidate.language.file_ending}"


def kernel_files(proposed: Proposed) -> dict[str, bytes]:
    """By name within the folder. Equal as long as the same kernels serve the same calls at the same places, whatever
    was measured."""
    files: dict[str, bytes] = {}
    for win, stem in zip(proposed.wins, proposed.stems, strict=True):
        source = source_name(win, stem)
        if source in files:
            raise ValueError(f"two kernels of one pull request would be {source}")
        files[source] = win.candidate.source.encode()
        files[f"{stem}.dispatch.json"] = as_json(_dispatch(win, source))
    return files


def as_json(content: dict[str, object]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def _dispatch(win: Win, source: str) -> dict[str, object]:
    """As a serving build's manifest has it, with the source in place of the library."""
    entry = KernelEntry(
        id=win.candidate.id,
        task_id=win.task.id,
        op=win.task.op,
        site=win.site,
        library=source,
        entry=win.candidate.entry,
        prepare=win.candidate.prepare,
        inputs=win.task.inputs,
        outputs=win.task.outputs,
        axes=win.task.axes,
        ranges=win.ranges,
        error_bound=win.task.error_bound,
        measurement=win.measurement,
    )
    # A task's id is another with every night's traffic.
    content = entry.model_dump(mode="json", exclude={"library", "measurement", "task_id"})
    return {"schema_version": SCHEMA_VERSION, "source": source} | content
