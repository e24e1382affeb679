"""Scratch: the one writable folder of a sandbox session, on the host side, where its content is hostile."""

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from kernel_sandbox.sandbox import SandboxError, SandboxUnavailable


class Scratch:
    """A private host folder, owned by the uid that the program runs with."""

    def __init__(self, owner_uid: int) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="kernel-sandbox-"))
        self.directory_fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._owner_uid = owner_uid
        if owner_uid != os.geteuid():
            try:
                os.chown(self.path, owner_uid, owner_uid)
            except OSError as error:
                raise SandboxUnavailable(
                    f"this root may not act for uid {owner_uid} ({error.strerror}): it is root of a container or user "
                    "namespace that holds no other uids; run as a plain user, or give the container more uids"
                ) from error

    def put(self, name: str, content: bytes) -> None:
        """Replaces whatever the program left under that name, never follows it."""
        _check_name(name)
        try:
            os.unlink(name, dir_fd=self.directory_fd)
        except FileNotFoundError:
            pass
        except IsADirectoryError as error:
            raise SandboxError(f"the program made a folder of /work/{name}") from error
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o755, dir_fd=self.directory_fd), "wb") as file:
            file.write(content)

    def get(self, name: str, limit_bytes: int) -> bytes:
        """Raises SandboxError for what is not a regular file of at most `limit_bytes`."""
        _check_name(name)
        try:
            # O_NONBLOCK, or a named pipe would hold us here for ever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self.directory_fd)
        except OSError as error:
            raise SandboxError(f"/work/{name} cannot be taken out: {error.strerror}") from error
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise SandboxError(f"/work/{name} is not a plain file (mode {status.st_mode:o})")
            content = file.read(limit_bytes + 1)
        if len(content) > limit_bytes:
            raise SandboxError(f"/work/{name} has more than {limit_bytes} bytes")
        return content

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

    def remove(self) -> None:
        """Idempotent."""
        if self.directory_fd < 0:
            return
        os.close(self.directory_fd)
        self.directory_fd = -1
        try:
            shutil.rmtree(self.path)
        except (OSError, RecursionError):
            # Unreadable folders, or a tree deeper than Python recurses.
            subprocess.run(["chmod", "-R", "u+rwX", "--", self.path], check=False, capture_output=True)
            subprocess.run(["rm", "-rf", "--", self.path], check=False, capture_output=True)
        if self.path.exists():
            raise SandboxError(f"cannot remove the scratch folder {self.path}: remove it by hand")


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a plain file name")
