"""How many connections are open, which one goes when there are too many, and taking new ones from a listening socket.

asyncio's own accept loop knows no bound: out of file descriptors it logs a line for each try, thousands a second
(a limit of 256 and 400 clients wrote 68 MB in 15 s), and answers nobody. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from localllm.server import log

RESERVED_FILES = 128
"""File descriptors for everything else: pipes to the models' processes, files, downloads, clients that are refused."""
MAX_REFUSED = 32
"""Clients at a time that are told that there is no room; more of them are hung up on."""
LOG_EVERY_S = 10.0
RETRY_S = 0.1
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def most_connections(wanted: int, max_files: int | None) -> int:
    """What the system's limit of open files leaves of `wanted`; None: it has none."""
    if max_files is None:
        return wanted
    return max(1, min(wanted, max_files - min(RESERVED_FILES, max_files // 2)))


class Idle(Protocol):
    """A connection, as far as it matters here."""

    @property
    def is_idle(self) -> bool:
        """No request is at hand: it can be dropped, and its client will connect anew."""

    def drop(self) -> None:
        """Close it now."""


C = TypeVar("C", bound=Idle)


class Connections(Generic[C]):
    """Those of one server. One that was not idle when it was looked at is looked at again once it says `rested`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: set[C] = set()
        self._refused: set[C] = set()
        self._resting: dict[C, None] = {}
        """In the order in which they came to rest."""

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: C) -> None:
        self._open.add(connection)
        self.rested(connection)

    def refused(self, connection: C) -> None:
        """It is being told that there is no room."""
        self._refused.add(connection)

    @property
    def num_refused(self) -> int:
        return len(self._refused)

    def rested(self, connection: C) -> None:
        """Its answer is complete, or nothing was asked yet."""
        if connection in self._open:
            self._resting.pop(connection, None)
            self._resting[connection] = None

    def lost(self, connection: C) -> None:
        self._open.discard(connection)
        self._refused.discard(connection)
        self._resting.pop(connection, None)

    def make_room(self) -> bool:
        """Whether one more may come; if need be, the one that is idle longest goes for it."""
        return len(self._open) < self.most or self.drop_oldest()

    def drop_oldest(self) -> bool:
        """Whether there was an idle one."""
        while self._resting:
            connection = next(iter(self._resting))
            del self._resting[connection]
            if connection.is_idle:
                self._open.discard(connection)
                connection.drop()
                return True
        return False


class Acceptor(Generic[C]):
    """Takes connections from one listening socket until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[bool], asyncio.Protocol],
        connections: Connections[C],
        tls: ssl.SSLContext | None,
    ) -> None:
        """`make` gets whether there is room for the connection; if not, it says so and closes."""
        listener.setblocking(False)
        self._listener = listener
        self._make = make
        self._connections = connections
        self._tls = tls
        self._connecting: set[asyncio.Task[None]] = set()
        self._refusing: set[asyncio.Task[None]] = set()
        self._num_failed = 0
        self._logged_s = float("-inf")
        self._task = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """No more connections; those that are open stay."""
        self._task.cancel()

    async def wait_closed(self) -> None:
        """After `close`."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._connections.drop_oldest()
                    self._log(error)
                await asyncio.sleep(RETRY_S)
                continue
            self._take(client)
            await asyncio.sleep(
                0
            )  # who waits in the backlog is taken without a turn of the loop, however many they are

    def _take(self, client: socket.socket) -> None:
        has_room = len(self._connections) + len(self._connecting) < self._connections.most
        has_room = has_room or self._connections.make_room()
        tasks = self._connecting if has_room else self._refusing
        if not has_room and len(self._refusing) + self._connections.num_refused >= MAX_REFUSED:
            client.close()
            return
        task = asyncio.get_running_loop().create_task(self._connect(client, has_room=has_room))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _connect(self, client: socket.socket, *, has_room: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            client.setblocking(False)
            await loop.connect_accepted_socket(lambda: self._make(has_room), client, ssl=self._tls)
        except (OSError, ssl.SSLError) as error:  # it went away, or speaks no TLS
            log.event(logging.DEBUG, "connection_failed", error=str(error))
            client.close()

    def _log(self, error: OSError) -> None:
        self._num_failed += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_s >= LOG_EVERY_S:
            log.event(
                logging.ERROR,
                "cannot_accept",
                error=error.strerror,
                times=self._num_failed,
                open=len(self._connections),
            )
            self._logged_s, self._num_failed = now_s, 0
