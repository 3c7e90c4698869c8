"""The service manager that started this process: notifications to it (sd_notify) and sockets from it (socket
activation), as systemd defines them. Does nothing where no manager asks for it. Knows nothing of servers.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time

FIRST_FD = 3
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def notify(*states: str) -> bool:
    """Tell the manager, e.g. `READY=1`; returns whether there is one that listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.connect("\0" + address[1:] if address.startswith("@") else address)  # @: a name without a file
        told.send("\n".join(states).encode())
        return True
    return False


def notify_reloading() -> bool:
    """Tell the manager that a reload begins; `READY=1` ends it."""
    return notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def passed_sockets() -> list[socket.socket]:
    """The sockets that the manager opened for this process, which owns them from now on; asking again returns none."""
    given = {name: os.environ.pop(name, "") for name in _VARIABLES}  # our children have none of them
    if given["LISTEN_PID"] != str(os.getpid()) or not given["LISTEN_FDS"].isdigit():
        return []
    sockets = []
    for fd in range(FIRST_FD, FIRST_FD + int(given["LISTEN_FDS"])):
        os.set_inheritable(fd, False)
        sockets.append(socket.socket(fileno=fd))
    return sockets
