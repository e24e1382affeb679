"""StartedProcess: a SandboxedProcess made of a ProcessTree and two pipes; and such pipes."""

import contextlib
import os
from io import FileIO
from typing import IO

from kernel_sandbox.process_tree import ProcessTree
from kernel_sandbox.sandbox import Finished


class StartedProcess:
    def __init__(self, tree: ProcessTree, stdin: FileIO, stdout: FileIO) -> None:
        self.stdin: IO[bytes] = stdin
        self.stdout: IO[bytes] = stdout
        self._tree = tree

    def freeze(self) -> None:
        self._tree.freeze()

    def thaw(self) -> None:
        self._tree.thaw()

    def cpu_time_ns(self) -> int:
        return self._tree.cpu_time_ns()

    def kill(self, grace_s: float = 0.0) -> Finished:
        finished = self._tree.kill(grace_s)
        self.stdin.close()
        self.stdout.close()
        return finished


def open_pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """(read, write), each closed by a stack."""
    read, write = (FileIO(descriptor, mode) for descriptor, mode in zip(os.pipe(), "rw", strict=True))
    return reader.enter_context(read), writer.enter_context(write)
