"""Where RPC clients connect: each gets a process of its own, and bytes are passed on between the two.

llama.cpp's server serves one client at a time, lets others wait silently, and can be crashed by a client. Here several
are served side by side, and a crash ends only one client's connection. Does not know what the bytes mean.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable
from typing import Protocol

from localllm.errors import LocalLLMError
from localllm.types.rpc_endpoints import Network, is_among

BLOCK_BYTES = 1 << 20
WORTH_A_LINE_BYTES = 1 << 20
"""llama.cpp's client opens a connection for each query before it loads; those are not logged."""
MOST_IDLE = 2
"""Processes kept ready for clients: such a connection often comes before the previous one has ended."""
DEATH_S = 2.0
"""Time for a process whose connection broke to turn out dead."""
DRAIN_S = 30.0
"""Time for a process whose client has gone to finish computing."""


class Child(Protocol):
    """A process that serves one client at a time."""

    @property
    def port(self) -> int:
        """Port on the loopback address."""

    def death(self, within_s: float) -> str | None:
        """How it died, waiting up to `within_s` for that; None: it is alive."""

    def close(self) -> None:
        """End it."""


class Front:
    """The listening socket and the processes behind it. `run` needs one thread; each client has another."""

    def __init__(
        self,
        listener: socket.socket,
        start: Callable[[], Child],
        *,
        clients: tuple[Network, ...],
        most: int,
        say: Callable[[str], None],
        first: Child,
    ) -> None:
        """`clients`: who may connect. `most`: clients at a time. `first`: a process that is already running."""
        self._listener = listener
        self._start = start
        self._clients = clients
        self._most = most
        self._say = say
        self._lock = threading.Lock()
        self._idle = [first]
        self._busy: set[Child] = set()
        self.num_clients = 0
        """Clients being served now."""
        self._closed = False

    def run(self) -> None:
        """Accepts clients until an exception such as Ctrl-C ends it. Raises `OSError`."""
        while True:
            try:
                client, (host, port) = self._listener.accept()
            except ConnectionAbortedError:  # it went away before it was accepted
                continue
            name = f"{host}:{port}"
            if not is_among(ipaddress.IPv4Address(host), self._clients):
                self._say(f"{name} is refused: it is not among --clients")
                client.close()
                continue
            with self._lock:
                is_full = self.num_clients >= self._most
                self.num_clients += not is_full
            if is_full:
                self._say(f"{name} is refused: {self._most} clients are served already (--max-clients)")
                client.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(client, name), name="rpc-client", daemon=True).start()
            except RuntimeError as error:  # no more threads
                self._say(f"{name} is not served: {error}")
                client.close()
                with self._lock:
                    self.num_clients -= 1

    def close(self) -> None:
        """End everything; clients lose their connection."""
        with self._lock:
            self._closed = True
            children = [*self._idle, *self._busy]
            self._idle.clear()
        self._listener.close()
        for child in children:
            child.close()

    def _serve(self, client: socket.socket, name: str) -> None:
        child, death = None, None
        try:
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                child = self._take()
                death = self._pass_on(client, child, name)
        except (LocalLLMError, OSError) as error:
            if not self._closed:
                self._say(f"{name} is not served: {error}")
        finally:
            self._give_back(child, death, name)

    def _pass_on(self, client: socket.socket, child: Child, name: str) -> str | None:
        """Passes bytes both ways until one side ends. Returns how the process died, if it did."""
        with socket.create_connection(("127.0.0.1", child.port)) as inner:
            inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hung_up = threading.Event()

            def bring_answers() -> None:
                _pump(inner, client)
                hung_up.set()
                _shut(client, socket.SHUT_RDWR)  # what it sends now would be lost

            answers = threading.Thread(target=bring_answers, name="rpc-answers", daemon=True)
            answers.start()
            num_bytes = _pump(client, inner, lambda: self._say(f"{name} is served"))
            # If the client went first, the process may still be computing; if the process did, it may be dying.
            came_first = hung_up.is_set()
            _shut(inner, socket.SHUT_WR)
            answers.join(DRAIN_S)
            if answers.is_alive():
                child.close()
                return f"it did not notice within {DRAIN_S:g} s that its client had gone"
            if num_bytes >= WORTH_A_LINE_BYTES:
                self._say(f"{name} has gone")
        return child.death(DEATH_S if came_first else 0)

    def _take(self) -> Child:
        """An idle process, else a new one. Raises `LocalLLMError`."""
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is not None and child.death(0) is not None:
            child.close()
            child = None
        if child is None:
            child = self._start()
        with self._lock:
            if not self._closed:
                self._busy.add(child)
                return child
        child.close()  # `close` did not see it
        raise OSError("the server is ending")

    def _give_back(self, child: Child | None, death: str | None, name: str) -> None:
        """Keep the process for the next client, unless it died or enough are idle."""
        with self._lock:
            self.num_clients -= 1
            if child is None or self._closed:
                return
            self._busy.discard(child)
            stays = death is None and len(self._idle) < MOST_IDLE
            if stays:
                self._idle.append(child)
        if death is not None:
            self._say(f"{name} has lost its process, which ended: {death}")
        if not stays:
            child.close()


def _pump(source: socket.socket, sink: socket.socket, on_many: Callable[[], None] | None = None) -> int:
    """Copies bytes until either side ends. Returns their number; `on_many` is called at `WORTH_A_LINE_BYTES`."""
    block = memoryview(bytearray(BLOCK_BYTES))
    num_bytes = 0
    with contextlib.suppress(OSError):
        while size := source.recv_into(block):
            if on_many is not None and num_bytes < WORTH_A_LINE_BYTES <= num_bytes + size:
                on_many()
            num_bytes += size
            sink.sendall(block[:size])
    return num_bytes


def _shut(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # it is gone already
        connection.shutdown(how)
