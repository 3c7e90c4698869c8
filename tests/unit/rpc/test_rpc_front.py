"""Clients of `localllm worker`: real sockets, and processes that are played by threads which echo."""

from __future__ import annotations

import contextlib
import queue
import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from localllm.errors import WorkerCrashed
from localllm.rpc.front import WORTH_A_LINE_BYTES, Child, Front
from localllm.types.rpc_endpoints import parse_networks
from tests.sockets import received

DIE = b"\xff"


class Echo:
    """Sends back what comes, until it is told to die."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.num_clients = 0
        self.dead = threading.Event()
        self.closed = False
        self._client: socket.socket | None = None
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def death(self, within_s: float) -> str | None:
        return "signal SIGABRT" if self.dead.wait(within_s) else None

    def close(self) -> None:
        self.closed = True
        self._listener.close()
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while not self.dead.is_set():
                client, _ = self._listener.accept()
                self.num_clients += 1
                self._client = client
                with client, contextlib.suppress(ConnectionError):
                    while data := client.recv(65536):
                        if data.startswith(DIE):
                            self.dead.set()
                            break
                        client.sendall(data)


class Served(Front):
    """With what a test looks at."""

    def __init__(self, *, clients: str | None = None, most: int = 4, start: Callable[[], Echo] | None = None) -> None:
        self.children = [Echo()]
        self.said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.gone: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.socket = socket.create_server(("127.0.0.1", 0))
        super().__init__(
            self.socket,
            start or self._another,
            clients=parse_networks(clients),
            most=most,
            say=self.said.put,
            first=self.children[0],
        )

    def connect(self) -> socket.socket:
        return socket.create_connection(self.socket.getsockname(), 20)

    def _give_back(self, child: Child | None, death: str | None, name: str) -> None:
        super()._give_back(child, death, name)
        self.gone.put(name)

    def _another(self) -> Echo:
        self.children.append(Echo())
        return self.children[-1]


@contextlib.contextmanager
def _running(front: Served) -> Iterator[Served]:
    def run() -> None:
        with contextlib.suppress(OSError):  # its listener is closed
            front.run()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield front
    finally:
        front.socket.shutdown(socket.SHUT_RDWR)
        front.close()


def _echo(connection: socket.socket, data: bytes) -> bytes:
    threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
    return received(connection, len(data))


def test_bytes_pass_unchanged_both_ways_in_pieces_of_any_size() -> None:
    with _running(Served()) as front, front.connect() as client:
        for size in (1, 8, 1000, 3 * WORTH_A_LINE_BYTES + 7):
            data = random.Random(size).randbytes(size).replace(DIE, b"\0")  # wherever it is cut into pieces
            assert _echo(client, data) == data


def test_clients_are_served_side_by_side_each_by_a_process_of_its_own() -> None:
    with _running(Served()) as front, front.connect() as one, front.connect() as other:
        assert _echo(one, b"one") == b"one"
        assert _echo(other, b"other") == b"other"
        assert _echo(one, b"again") == b"again"
        assert [child.num_clients for child in front.children] == [1, 1]


def test_a_process_whose_client_has_gone_serves_the_next() -> None:
    with _running(Served(most=1)) as front:
        for _ in range(5):
            with front.connect() as client:
                assert _echo(client, b"x" * WORTH_A_LINE_BYTES)
            assert front.said.get(timeout=20).endswith("is served")
            assert front.said.get(timeout=20).endswith("has gone")
            front.gone.get(timeout=20)
        assert len(front.children) == 1


def test_a_process_that_dies_takes_its_own_client_along_and_no_other() -> None:
    with _running(Served()) as front, front.connect() as one, front.connect() as other:
        assert _echo(one, b"one") == b"one"
        assert _echo(other, b"other") == b"other"
        one.sendall(DIE)
        assert one.recv(1) == b""
        assert "which ended: signal SIGABRT" in front.said.get(timeout=20)
        assert _echo(other, b"still here") == b"still here"
        with front.connect() as next_one:
            assert _echo(next_one, b"next") == b"next"


def test_who_is_not_among_the_clients_gets_nothing() -> None:
    with _running(Served(clients="10.0.0.0/8")) as front, front.connect() as client:
        assert client.recv(1) == b""
        assert "is not among --clients" in front.said.get(timeout=20)
        assert front.children[0].num_clients == 0


def test_there_are_only_so_many_processes() -> None:
    with _running(Served(most=1)) as front, front.connect() as one:
        assert _echo(one, b"one") == b"one"
        with front.connect() as other:
            assert other.recv(1) == b""
        assert "--max-clients" in front.said.get(timeout=20)
        assert _echo(one, b"one") == b"one"


def test_a_process_that_cannot_be_started_is_said_and_the_next_client_tries_again() -> None:
    def fail() -> Echo:
        raise WorkerCrashed("no memory")

    with _running(Served(start=fail)) as front, front.connect() as one:
        assert _echo(one, b"one") == b"one"
        with front.connect() as other:
            assert other.recv(1) == b""
        assert "is not served: no memory" in front.said.get(timeout=20)


def test_at_the_end_every_process_is_ended_and_no_client_is_left_waiting() -> None:
    with _running(Served()) as front:
        client = front.connect()
        assert _echo(client, b"one") == b"one"
    with client, contextlib.suppress(ConnectionError):
        assert client.recv(1) == b""
    assert all(child.closed for child in front.children)


@pytest.mark.parametrize("message", [b"", b"\0"])
def test_whoever_only_looks_is_not_worth_a_line(message: bytes) -> None:
    with _running(Served()) as front:
        with front.connect() as client:
            client.sendall(message)
        front.gone.get(timeout=20)
        assert front.said.empty()


def test_a_process_that_starts_while_the_server_ends_is_ended_too() -> None:
    is_starting, may_start = threading.Event(), threading.Event()
    late: list[Echo] = []

    def start() -> Echo:
        is_starting.set()
        may_start.wait(20)
        late.append(Echo())
        return late[-1]

    front = Served(start=start)
    with _running(front), front.connect() as one, front.connect():
        assert _echo(one, b"one") == b"one"
        assert is_starting.wait(20)
    may_start.set()
    front.gone.get(timeout=20)
    front.gone.get(timeout=20)
    assert late[0].closed


def test_an_idle_process_that_died_is_closed_and_replaced() -> None:
    with _running(Served()) as front:
        front.children[0].dead.set()
        with front.connect() as client:
            assert _echo(client, b"one") == b"one"
        assert front.children[0].closed


def test_a_client_without_a_thread_is_refused_and_the_next_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    start, failures = threading.Thread.start, ["can't start new thread"]

    def start_thread(thread: threading.Thread) -> None:
        if thread.name == "rpc-client" and failures:
            raise RuntimeError(failures.pop())
        start(thread)

    with _running(Served(most=1)) as front:
        monkeypatch.setattr(threading.Thread, "start", start_thread)
        with front.connect() as one:
            assert one.recv(1) == b""
        assert "is not served: can't start new thread" in front.said.get(timeout=20)
        with front.connect() as other:
            assert _echo(other, b"other") == b"other"
