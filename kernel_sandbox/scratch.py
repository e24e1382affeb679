"""Scratch: all that a sandboxed program can write, on the host side, where its content is hostile."""

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from kernel_sandbox.leftovers import left_behind_in, name_of_ours
from kernel_sandbox.sandbox import SCRATCH, SandboxError, SandboxUnavailable


class Scratch:
    """A folder of the host with three in it, owned by the uid that the program runs with: `folders`, by their place."""

    def __init__(self, owner_uid: int) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{name_of_ours()}-"))
        self.work = self.path / "work"
        self.folders = {SCRATCH: self.work, "/tmp": self.path / "tmp", "/dev/shm": self.path / "shm"}
        self.path.chmod(0o711)
        for folder in self.folders.values():
            folder.mkdir(mode=0o700)
        self.directory_fd = os.open(self.work, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if owner_uid != os.geteuid():
            try:
                for folder in self.folders.values():
                    os.chown(folder, owner_uid, owner_uid)
            except OSError as error:
                self.remove()
                raise SandboxUnavailable(
                    f"this root may not act for uid {owner_uid} ({error.strerror}): it is root of a container or user "
                    "namespace that holds no other uids; run as a plain user, or give the container more uids"
                ) from error

    def put(self, name: str, content: bytes) -> None:
        put_file(self.directory_fd, name, content)

    def get(self, name: str, limit_bytes: int) -> bytes:
        return take_file(self.directory_fd, name, limit_bytes)

    def size_bytes(self, give_up_above: int) -> int:
        """Allocated bytes, with one block charged for each entry; stops counting above `give_up_above`."""
        total = 0
        folders = [self.path]
        while folders and total <= give_up_above:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        status = entry.stat(follow_symlinks=False)
                        total += max(status.st_blocks * 512, 4096)
                        if stat.S_ISDIR(status.st_mode):
                            folders.append(Path(entry.path))
            except OSError:
                continue  # the program removed it while we looked, or locked even us out
        return total

    def require_room(self, needed_bytes: int) -> None:
        """Raises SandboxError when the host's disk has less: a program that finds it full is not at fault."""
        disk = os.statvfs(self.path)
        if disk.f_bavail * disk.f_frsize < needed_bytes or (disk.f_files and not disk.f_favail):
            free_bytes = disk.f_bavail * disk.f_frsize
            raise SandboxError(
                f"the disk under {self.path.parent} has {free_bytes >> 20} MiB and {disk.f_favail} files free, "
                f"a sandbox needs {needed_bytes >> 20} MiB: make room, or set TMPDIR to a folder on another disk"
            )

    def remove(self) -> None:
        """Idempotent."""
        if self.directory_fd < 0:
            return
        os.close(self.directory_fd)
        self.directory_fd = -1
        _remove(self.path)
        if self.path.exists():
            raise SandboxError(f"cannot remove the scratch folder {self.path}: remove it by hand")


def put_file(directory_fd: int, name: str, content: bytes) -> None:
    """Replaces whatever the program left under that name, never follows it."""
    _check_name(name)
    try:
        os.unlink(name, dir_fd=directory_fd)
    except FileNotFoundError:
        pass
    except IsADirectoryError as error:
        raise SandboxError(f"the program made a folder of {SCRATCH}/{name}") from error
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o755, dir_fd=directory_fd), "wb") as file:
        os.fchmod(file.fileno(), 0o755)  # whatever our umask is: the program may have another uid
        file.write(content)


def take_file(directory_fd: int, name: str, limit_bytes: int) -> bytes:
    """Raises SandboxError for what is not a regular file of at most `limit_bytes`."""
    _check_name(name)
    try:
        # O_NONBLOCK, or a named pipe would hold us here for ever.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=directory_fd)
    except OSError as error:
        raise SandboxError(f"{SCRATCH}/{name} cannot be taken out: {error.strerror}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise SandboxError(f"{SCRATCH}/{name} is not a plain file (mode {status.st_mode:o})")
    with open(descriptor, "rb") as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise SandboxError(f"{SCRATCH}/{name} has more than {limit_bytes} bytes")
    return content


def remove_left_behind(folder: Path) -> None:
    """What processes of ours that were killed left in `folder`, as far as it can be removed."""
    for path in left_behind_in(folder):
        with contextlib.suppress(FileNotFoundError):  # another process removes them too
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                _remove(path)


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        # Unreadable folders, or a tree deeper than Python recurses.
        subprocess.run(["chmod", "-R", "u+rwX", "--", path], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", "--", path], check=False, capture_output=True)


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a plain file name")
