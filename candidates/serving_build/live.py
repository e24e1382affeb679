"""The live build as the next run sees it: which of its kernels stands at a task's place."""

from candidates.device import DeviceFingerprint, kind_of_device
from candidates.serving_build.build import Build
from candidates.serving_build.build_files import task_of
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.manifest import KernelEntry
from candidates.task import KernelTask


def read_live(store: BuildStore, device: DeviceFingerprint) -> Build | None:
    """None where no build for this hardware is live; compilers and PyTorch may have changed since.

    Raises BuildRefused for one that was changed, or that nobody signed whom this home trusts.
    """
    build = store.live()
    return build if build is not None and _hardware(build.manifest.device) == _hardware(device) else None


def entry_at(build: Build, task: KernelTask) -> KernelEntry | None:
    """The kernel that serves the same function at the same site; its workloads may be others. None for a task of
    another kind of device."""
    if kind_of_device(task.device_id) != build.manifest.device.kind:
        return None
    return next((entry for entry in build.manifest.kernels if is_same_place(task_of(build, entry), task)), None)


def is_same_place(one: KernelTask, other: KernelTask) -> bool:
    return _place(one) == _place(other)


def _place(task: KernelTask) -> tuple[object, ...]:
    return task.op, task.site, task.level, task.reference, task.inputs, task.outputs, task.axes


def _hardware(device: DeviceFingerprint) -> tuple[object, ...]:
    return device.kind, device.model, device.features
