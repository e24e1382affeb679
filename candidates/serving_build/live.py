"""The live build as the next run sees it: which of its kernels stands at a task's place."""

from candidates.benchmark.benchmark import LiveKernel
from candidates.candidate import Candidate
from candidates.device import DeviceFingerprint
from candidates.serving_build.build import Build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.manifest import KernelEntry
from candidates.task import KernelTask


def read_live(store: BuildStore, device: DeviceFingerprint) -> Build | None:
    """None where no build for this hardware is live; compilers and PyTorch may have changed since.

    Raises BuildRefused for one that was changed.
    """
    live = store.current()
    build = None if live is None else store.show(live)
    return build if build is not None and _hardware(build.manifest.device) == _hardware(device) else None


def live_task(build: Build, entry: KernelEntry) -> KernelTask:
    """The one that the kernel was judged and measured for."""
    return KernelTask.model_validate_json((build.path / "tasks" / f"{entry.task_id}.json").read_text(encoding="utf-8"))


def live_kernel(build: Build, entry: KernelEntry, candidate: Candidate) -> LiveKernel:
    """`candidate` with the artifact that was shipped, which is what serves."""
    return LiveKernel(candidate=candidate, artifact=(build.path / entry.library).read_bytes())


def entry_at(build: Build, task: KernelTask) -> KernelEntry | None:
    """The kernel that serves the same function at the same site; its workloads may be others."""
    return next((entry for entry in build.manifest.kernels if is_same_place(live_task(build, entry), task)), None)


def is_same_place(one: KernelTask, other: KernelTask) -> bool:
    return _place(one) == _place(other)


def _place(task: KernelTask) -> tuple[object, ...]:
    return task.op, task.site, task.level, task.reference, task.inputs, task.outputs, task.axes


def _hardware(device: DeviceFingerprint) -> tuple[object, ...]:
    return device.kind, device.model, device.features
