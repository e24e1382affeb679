"""Files of a build as exports carry them: verified once more when they are read, or narrowed to some of the kernels."""

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from candidates.record import digest_of
from candidates.serving_build import runtime
from candidates.serving_build.build import Build
from candidates.serving_build.manifest import KernelEntry
from candidates.serving_build.target import LeftOut
from candidates.task import KernelTask

_PLAIN_PATH = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)
MANIFEST, RUNTIME = "manifest.json", "runtime.py"


def read_file(build: Build, name: str) -> bytes:
    """A file that the manifest lists. Raises BuildRefused when its bytes are not those that it lists."""
    content = (build.path / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != build.manifest.files[name]:
        raise runtime.BuildRefused(f"{build.path / name} was changed after the build was read: install the build again")
    return content


def read_whole(build: Build) -> dict[str, bytes]:
    """Every file of the build, and what lies beside its manifest under the same name, such as signatures."""
    files = {name: read_file(build, name) for name in build.manifest.files}
    beside = [path for path in build.path.glob(f"{Path(MANIFEST).stem}.*") if path.name != MANIFEST]
    return files | {MANIFEST: _manifest_of(build)} | {path.name: path.read_bytes() for path in sorted(beside)}


def as_archive(files: Mapping[str, bytes]) -> bytes:
    """A zip archive that depends on nothing but the files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)
    return content.getvalue()


def task_of(build: Build, entry: KernelEntry) -> KernelTask:
    return KernelTask.model_validate_json(read_file(build, f"tasks/{entry.task_id}.json"))


def source_of(build: Build, entry: KernelEntry) -> tuple[str, str]:
    """Language and text of a kernel's source."""
    (name,) = (
        name for name in build.manifest.files if name.startswith(f"kernels/{entry.id}.") and not name.endswith(".so")
    )
    return name.rpartition(".")[2], read_file(build, name).decode()


Sign = Callable[[bytes], Mapping[str, bytes]]
"""The files that are to lie beside a manifest of these bytes, by name: signatures, or nothing."""


def unsigned(manifest: bytes) -> Mapping[str, bytes]:
    return {}


def narrowed(build: Build, entries: Iterable[KernelEntry], sign: Sign) -> dict[str, bytes]:
    """A build of these kernels alone; their entries may say other sites and roles than they did in `build`."""
    kernels = tuple(entries)
    prefixes = tuple(f"kernels/{entry.id}." for entry in kernels)
    tasks = {f"tasks/{entry.task_id}.json" for entry in kernels}
    names = [name for name in build.manifest.files if name == RUNTIME or name in tasks or name.startswith(prefixes)]
    manifest = build.manifest.model_copy(
        update={"kernels": kernels, "files": {name: build.manifest.files[name] for name in sorted(names)}}
    )
    content = manifest.model_dump(mode="json")
    text = runtime.manifest_text(content | {"build_id": digest_of(content)}).encode()
    return {name: read_file(build, name) for name in sorted(names)} | {MANIFEST: text} | dict(sign(text))


def kernels_for_no_cpu(build: Build) -> tuple[LeftOut, ...]:
    """Why a target of C++ kernels carries nothing of a build for a GPU; empty for one of a CPU.

    Asked first by every target: raises BuildRefused for a build whose files or kernels have names that are no plain
    paths within it.
    """
    for name in (*build.manifest.files, *(part for entry in build.manifest.kernels for part in _names_in(entry))):
        if not _PLAIN_PATH.fullmatch(name) or ".." in name:
            raise runtime.BuildRefused(f"{build.path / MANIFEST} names {name!r}, which is no file of a build")
    kind = build.manifest.device.kind
    reason = f"it is for a {kind} device, and this target carries kernels for CPUs alone"
    return tuple(
        LeftOut(kernel_id=entry.id, op=entry.op, reason=reason) for entry in build.manifest.kernels if kind != "cpu"
    )


def _names_in(entry: KernelEntry) -> tuple[str, ...]:
    return entry.id, entry.task_id, entry.library, entry.entry, *([] if entry.prepare is None else [entry.prepare])


def _manifest_of(build: Build) -> bytes:
    content = build.manifest.model_dump(mode="json")
    text = runtime.manifest_text(content | {"build_id": build.id}).encode()
    if (build.path / MANIFEST).read_bytes() != text:
        raise runtime.BuildRefused(f"{build.path / MANIFEST} was changed after the build was read: install it again")
    return text
