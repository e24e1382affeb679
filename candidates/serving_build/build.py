"""Writing a serving build: a content-addressed folder that a serving process loads without this project."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from candidates.candidate import Candidate
from candidates.device import DeviceFingerprint
from candidates.measurement import Measurement
from candidates.record import digest_of
from candidates.serving_build import runtime
from candidates.serving_build.manifest import InstallationSite, KernelEntry, Manifest, ShapeRange
from candidates.serving_build.signing import sign_build
from candidates.store_faults import named_faults
from candidates.task import KernelTask

UNFINISHED = ".unfinished-"
"""How the name of a folder starts that is no build yet, or no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedKernel:
    task: KernelTask
    candidate: Candidate
    artifact: bytes
    """The shared library, byte for byte what was judged."""
    site: InstallationSite
    measurement: Measurement
    ranges: tuple[ShapeRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    id: str
    """sha256 over the whole content; the name of the build's folder."""
    path: Path
    manifest: Manifest


def builds_folder(home: Path) -> Path:
    return home / "builds"


def write_build(home: Path, model_name: str, device: DeviceFingerprint, kernels: Sequence[ShippedKernel]) -> Build:
    """The build of these kernels under `home`; the same content gives the same build, written once.

    Appears under its name whole or not at all, signed where `home` has a key. Raises ValueError for a kernel that is
    not for `device` or serves no shape, runtime.BuildRefused where a folder of its name holds something else,
    SigningKeyFault, OSError when the disk is at fault.
    """
    files: dict[str, bytes] = {"runtime.py": Path(runtime.__file__).read_bytes()}
    entries = []
    for kernel in sorted(kernels, key=lambda kernel: (kernel.task.id, kernel.candidate.id)):
        _check(kernel, device)
        # One source may be built for several tasks, each with its own signature.
        library = f"kernels/{kernel.candidate.id}.{kernel.task.id[:12]}.so"
        files[library] = kernel.artifact
        files[f"kernels/{kernel.candidate.id}.{kernel.candidate.language}"] = kernel.candidate.source.encode()
        files[f"tasks/{kernel.task.id}.json"] = kernel.task.model_dump_json(indent=1).encode()
        entries.append(_entry_of(kernel, library))
    has_formats = any(spec.stored_as is not None for entry in entries for spec in entry.inputs)
    manifest = Manifest(
        schema_version=3 if has_formats else 2,
        model=model_name,
        device=device,
        kernels=tuple(entries),
        files={name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    )
    content = manifest.model_dump(mode="json")
    build_id = digest_of(content)
    files[runtime.MANIFEST] = runtime.manifest_text(content | {"build_id": build_id}).encode()
    path = builds_folder(home) / build_id
    if path.exists():
        os.utime(path)  # as new as if written now: garbage collection keeps the newest
    else:
        _write_whole(path, files)
    runtime.read_verified(path, (), allow_unsigned=True)
    sign_build(home, path)
    return Build(id=build_id, path=path, manifest=manifest)


def read_build(path: Path, trusted_keys: Collection[str] = ()) -> Build:
    """The build in folder `path`, verified; where keys are trusted, also that one of them signed it.

    Raises runtime.BuildRefused with the name of a file that was changed, or that another release wrote.
    """
    content = runtime.read_verified(path, trusted_keys, allow_unsigned=True).manifest
    build_id = content.pop("build_id")
    try:
        return Build(id=build_id, path=path, manifest=Manifest.model_validate(content))
    except ValidationError as error:
        raise runtime.BuildRefused(f"{path / runtime.MANIFEST} is not the manifest of a build: {error}") from error


def _check(kernel: ShippedKernel, device: DeviceFingerprint) -> None:
    for what, device_id in (("task", kernel.task.device_id), ("measurement", kernel.measurement.device_id)):
        if device_id != device.id:
            raise ValueError(f"{what} of {kernel.task.op} is for device {device_id}, the build for {device.id}")
    if not kernel.ranges:
        raise ValueError(f"kernel {kernel.candidate.id} for {kernel.task.op} serves no shape")


def _entry_of(kernel: ShippedKernel, library: str) -> KernelEntry:
    return KernelEntry(
        id=kernel.candidate.id,
        task_id=kernel.task.id,
        op=kernel.task.op,
        site=kernel.site,
        library=library,
        entry=kernel.candidate.entry,
        prepare=kernel.candidate.prepare,
        inputs=kernel.task.inputs,
        outputs=kernel.task.outputs,
        axes=kernel.task.axes,
        ranges=kernel.ranges,
        error_bound=kernel.task.error_bound,
        measurement=kernel.measurement,
    )


def _write_whole(path: Path, files: dict[str, bytes]) -> None:
    with named_faults():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=path.parent))
        try:
            for name, content in files.items():
                target = unfinished / name
                target.parent.mkdir(exist_ok=True)
                with target.open("wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
            unfinished.chmod(0o755)
            try:
                unfinished.rename(path)
            except OSError:
                # Another process wrote the same build first; the content is the same by its name.
                if not path.exists():
                    raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
