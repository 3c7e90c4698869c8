"""Open connections: their limit, which idle one to close at the limit, and accepting new ones.

asyncio's own accept loop has no limit: out of file descriptors it logs a line per attempt, thousands a second
(256 descriptors and 400 clients wrote 68 MB in 15 s), and serves nobody. Knows nothing of HTTP.
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

from localllm.server.edge import log

RESERVED_FILES = 128
"""File descriptors reserved for workers' pipes, files, downloads and clients being refused."""
MAX_REFUSED = 32
"""Clients at a time that get an error about the limit; further ones are disconnected."""
HANDSHAKE_S = 1.0
"""Age at which an incomplete TLS handshake may be dropped to make room."""
LOG_EVERY_S = 10.0
RETRY_S = 0.1
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def most_connections(wanted: int, max_files: int | None) -> int:
    """The number of connections to allow: `wanted`, or fewer if the process may open fewer files.

    `max_files`: the process's limit of open files, of which `RESERVED_FILES`, but at most half, are left for other
    uses; None: there is no limit, so `wanted` is returned. Never less than 1.
    """
    if max_files is None:
        return wanted
    return max(1, min(wanted, max_files - min(RESERVED_FILES, max_files // 2)))


class Idle(Protocol):
    """The part of a connection needed here."""

    @property
    def is_idle(self) -> bool:
        """Whether it has no request and can be closed; its client will reconnect."""

    def drop(self) -> None:
        """Close it now."""


C = TypeVar("C", bound=Idle)


class Connections(Generic[C]):
    """The connections of one server. A connection found busy is considered again after it reports `rested`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: set[C] = set()
        self._opening: dict[object, tuple[float, Callable[[], object]]] = {}
        """Connections whose handshake is incomplete, oldest first: when it began, and what drops it."""
        self._refused: set[C] = set()
        self._resting: dict[C, None] = {}
        """Idle connections, longest idle first."""

    def __len__(self) -> int:
        return len(self._open)

    def opening(self, connection: object, began_s: float, drop: Callable[[], object]) -> None:
        """The handshake of an accepted connection begins; it counts as open from now on."""
        self._opening[connection] = (began_s, drop)

    def settled(self, connection: object) -> None:
        """The handshake succeeded or failed."""
        self._opening.pop(connection, None)

    def opened(self, connection: C) -> None:
        self.settled(connection)
        self._open.add(connection)
        self.rested(connection)

    def refused(self, connection: C) -> None:
        """This connection gets an error and is closed."""
        self._refused.add(connection)

    @property
    def num_refused(self) -> int:
        return len(self._refused)

    def rested(self, connection: C) -> None:
        """Its reply is complete, or it has had no request yet."""
        if connection in self._open:
            self._resting.pop(connection, None)
            self._resting[connection] = None

    def lost(self, connection: C) -> None:
        self._open.discard(connection)
        self._refused.discard(connection)
        self._resting.pop(connection, None)

    def make_room(self, now_s: float = 0.0) -> bool:
        """Whether one more is allowed; if necessary, drops the longest idle one or a stuck handshake."""
        has_room = len(self._open) + len(self._opening) < self.most
        return has_room or self.drop_oldest() or self._drop_stuck(now_s)

    def drop_oldest(self) -> bool:
        """Drop the longest idle connection; returns whether there was one."""
        while self._resting:
            connection = next(iter(self._resting))
            del self._resting[connection]
            if connection.is_idle:
                self._open.discard(connection)
                connection.drop()
                return True
        return False

    def _drop_stuck(self, now_s: float) -> bool:
        """Drop the oldest handshake if it takes too long; returns whether it does."""
        if not self._opening:
            return False
        connection, (began_s, drop) = next(iter(self._opening.items()))
        if now_s - began_s < HANDSHAKE_S:
            return False
        self.settled(connection)
        drop()
        return True


class Acceptor(Generic[C]):
    """Accepts connections from one listening socket until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[bool], asyncio.Protocol],
        connections: Connections[C],
        tls: ssl.SSLContext | None,
    ) -> None:
        """`make(has_room)` creates a connection; without room, it sends an error and closes."""
        listener.setblocking(False)
        self._listener = listener
        self._make = make
        self._connections = connections
        self._tls = tls
        self._connecting: set[asyncio.Task[None]] = set()
        self._refusing: dict[asyncio.Task[None], None] = {}
        """Handshakes of clients that will get an error, oldest first."""
        self._num_failed = 0
        self._logged_s = float("-inf")
        self._task = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections; open ones stay."""
        self._task.cancel()

    async def wait_closed(self) -> None:
        """After `close`."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client = await self._next(loop)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._connections.drop_oldest()
                    self._log(error)
                await asyncio.sleep(RETRY_S)
                continue
            self._take(client)
            await asyncio.sleep(0)  # otherwise the whole backlog would be accepted before other tasks run

    async def _next(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        """The next connection. Once it is accepted, `close` does not lose it: its client has connected, and in the
        queue of a listening socket that others have, too, it would have been another server's."""
        while True:
            try:
                return self._listener.accept()[0]
            except BlockingIOError:
                readable = asyncio.Event()
            try:
                loop.add_reader(self._listener, readable.set)
            except NotImplementedError:  # the proactor loop of Windows
                return (await loop.sock_accept(self._listener))[0]
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._listener)

    def _take(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        has_room = self._connections.make_room(loop.time())
        if not has_room and len(self._refusing) + self._connections.num_refused >= MAX_REFUSED:
            if self._tls is None or not self._refusing:
                client.close()
                return
            self._end_refusing(next(iter(self._refusing))).cancel()  # its client may never complete the handshake
        connection = self._make(has_room)
        task = loop.create_task(self._connect(client, connection))
        if has_room:
            self._connections.opening(connection, loop.time(), task.cancel)
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            self._refusing[task] = None
            task.add_done_callback(self._end_refusing)

    def _end_refusing(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._refusing.pop(task, None)
        return task

    async def _connect(self, client: socket.socket, connection: asyncio.Protocol) -> None:
        loop = asyncio.get_running_loop()
        try:
            client.setblocking(False)
            await loop.connect_accepted_socket(lambda: connection, client, ssl=self._tls)
        except (OSError, ssl.SSLError) as error:  # disconnected, or not TLS
            log.event(logging.DEBUG, "connection_failed", error=str(error))
            client.close()
        finally:
            self._connections.settled(connection)

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
