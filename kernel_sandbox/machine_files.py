"""This machine's compilers, shell and Python's libraries as one tar file: an image for engines without a registry.

Found by asking the compiler and the loader, not by distribution: what g++ and programs of `_PROGRAMS` need to run and
to link. The environment's own Python is not in it; sessions are shown it read-only.
"""

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from kernel_sandbox.sandbox import SandboxUnavailable

_COMPILERS = ("g++", "gcc", "c++", "cc", "cpp")
_PROGRAMS = (
    *("as", "ld", "ld.bfd", "ld.gold", "ar", "nm", "ranlib", "strip", "objcopy", "objdump", "readelf", "size"),
    *("strings", "c++filt", "ldconfig", "make", "sh", "bash", "dash", "env", "cat", "cp", "mv", "rm", "ln", "ls"),
    *("mkdir", "rmdir", "mktemp", "mkfifo", "chmod", "chown", "touch", "head", "tail", "cut", "tr", "sort", "uniq"),
    *("wc", "tee", "seq", "test", "expr", "true", "false", "echo", "printf", "sleep", "date", "id", "uname", "nproc"),
    *("basename", "dirname", "readlink", "realpath", "stat", "df", "du", "dd", "cmp", "diff", "grep", "sed", "awk"),
    *("find", "xargs", "tar", "gzip", "taskset", "timeout", "kill", "ps"),
)
_INTERNAL_PROGRAMS = ("cc1", "cc1plus", "collect2", "lto1", "lto-wrapper", "as", "ld")
_LINKED = (
    *("crt1.o", "Scrt1.o", "rcrt1.o", "crti.o", "crtn.o", "libc.so", "libc.so.6", "libc.a", "libc_nonshared.a"),
    *("libm.so", "libm.so.6", "libm.a", "libmvec.so", "libmvec.so.1", "libmvec.a", "libpthread.a", "libpthread.so.0"),
    *("libdl.a", "libdl.so.2", "librt.a", "librt.so.1", "libutil.a", "libutil.so.1", "libresolv.so.2"),
    *("libgcc_s.so.1", "libstdc++.so.6", "libgomp.so.1", "libatomic.so.1", "libasan.so", "libubsan.so"),
)
_OTHERS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/usr/lib/locale/C.utf8", "/usr/lib64/ld-linux-x86-64.so.2")
_TOP_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# A file system that is mounted on a folder takes over its mode.
_EMPTY_FOLDERS = {"scratch": 0o777, "tmp": 0o1777, "proc": 0o555, "sys": 0o555, "dev": 0o755, "run": 0o755}
_USERS = b"nobody:x:65534:65534:nobody:/scratch:/bin/false\n"
_GROUPS = b"nogroup:x:65534:\n"


def write_root_folder(files: IO[bytes], supervisor: bytes, supervisor_name: str) -> None:
    """A tar of a whole root folder. Raises SandboxUnavailable where there is no compiler."""
    with tarfile.open(fileobj=files, mode="w") as archive:
        for name, mode in _EMPTY_FOLDERS.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        for name, content, mode in (
            (supervisor_name.lstrip("/"), supervisor, 0o755),
            ("etc/passwd", _USERS, 0o644),
            ("etc/group", _GROUPS, 0o644),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
        for path in _with_link_targets(_needed()):
            archive.add(path, path.lstrip("/"), recursive=False, filter=_plain)


def _needed() -> Iterator[str]:
    yield from (path for path in _TOP_LINKS if os.path.islink(path))
    yield from filter(os.path.exists, _OTHERS)
    programs = [found for name in (*_COMPILERS, *_PROGRAMS) if (found := _which(name))]
    compiler = _which("g++")
    if compiler is None:
        raise SandboxUnavailable("no g++ on this machine to make an image of: apt-get install g++")
    programs += [found for name in _INTERNAL_PROGRAMS if (found := _printed(compiler, f"-print-prog-name={name}"))]
    own_python = _own_python()
    yield from programs
    yield from _libraries_of([*programs, *own_python])
    yield from (found for name in _LINKED if (found := _printed(compiler, f"-print-file-name={name}")))
    library = _printed(compiler, "-print-libgcc-file-name")
    for folder in [*_include_folders(compiler), *([os.path.dirname(library)] if library else [])]:
        yield from _below(folder)
    if own_python and own_python[0].startswith("/usr/"):
        yield own_python[0]
        yield from _below(sysconfig.get_path("stdlib"))


def _own_python() -> list[str]:
    """The interpreter and its extension modules, of which the libraries are wanted."""
    extensions = Path(sysconfig.get_config_var("DESTSHARED") or os.devnull)
    return [os.path.realpath(sys.executable), *map(str, extensions.glob("*.so"))]


def _which(name: str) -> str | None:
    return shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")


def _printed(compiler: str, question: str) -> str | None:
    answer = subprocess.run([compiler, question], capture_output=True, text=True, check=False).stdout.strip()
    return answer if os.path.isabs(answer) and os.path.exists(answer) else _which(answer)


def _include_folders(compiler: str) -> list[str]:
    said = subprocess.run(
        [compiler, "-E", "-x", "c++", "-v", os.devnull], capture_output=True, text=True, check=False
    ).stderr
    listed = said.partition("#include <...> search starts here:\n")[2].partition("End of search list")[0]
    return [os.path.realpath(line.strip()) for line in listed.splitlines()]


def _libraries_of(programs: Sequence[str]) -> Iterator[str]:
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        for word in line.split():
            if word.startswith("/") and not word.endswith(":") and os.path.exists(word):
                yield word


def _below(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        yield place
        yield from (os.path.join(place, name) for name in (*folders, *names))


def _with_link_targets(paths: Iterable[str]) -> Iterator[str]:
    """Each once, under the name that it really has, after the folders above it and followed by what it links to."""
    seen: set[str] = set()
    for path in paths:
        while True:
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            if path in seen or not os.path.lexists(path):
                break
            seen.add(path)
            # What is not said of a folder, an engine makes up.
            above = [str(folder) for folder in reversed(Path(path).parents) if str(folder) not in {"/", *seen}]
            seen.update(above)
            yield from above
            yield path
            if not os.path.islink(path):
                break
            path = os.path.join(os.path.dirname(path), os.readlink(path))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """As root's, folders open to all, nothing with set-user-id bits; neither sockets nor devices."""
    if entry.type not in (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else entry.mode & 0o755
    return entry
