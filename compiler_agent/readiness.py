"""Readiness, as service managers are told of it: sd_notify(3), both ends.

A program says that it serves to the socket that NOTIFY_SOCKET names: systemd's, or that of `compiler-agent up`.
"""

import contextlib
import os
import socket
from collections.abc import Mapping

_VARIABLE = "NOTIFY_SOCKET"


def tell(*, is_ready: bool = False, status: str = "", environment: Mapping[str, str] = os.environ) -> None:
    """Does nothing where nobody wants to know."""
    address = environment.get(_VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    lines = [*(["READY=1"] if is_ready else []), *([f"STATUS={status}"] if status else [])]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller, contextlib.suppress(OSError):
        # Whoever started us may have ended; it is not for us to fail of it.
        teller.setblocking(False)
        teller.sendto("\n".join(lines).encode(), address.replace("@", "\0", 1))


class Listener:
    """The other end, for one program."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("")  # the kernel gives a name that is in no folder and ends with us
        self._socket.setblocking(False)

    @property
    def environment(self) -> dict[str, str]:
        """What the program is to be started with."""
        name: bytes = self._socket.getsockname()
        return {_VARIABLE: f"@{name[1:].decode()}"}

    def was_told_ready(self) -> bool:
        """Since it was last asked."""
        is_ready = False
        with contextlib.suppress(BlockingIOError):
            while True:
                is_ready |= b"READY=1" in self._socket.recv(4096).splitlines()
        return is_ready

    def close(self) -> None:
        self._socket.close()
