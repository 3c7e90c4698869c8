"""Under a service manager such as systemd, which is told what the server does, and whose sockets outlive restarts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.server.listening import listener_of
from localllm.settings.config import Settings
from localllm.system import service_manager
from tests.e2e.conftest import COMMAND, TIMEOUT_S
from tests.e2e.servers import SIGHUP
from tests.waiting import line_with

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets and file descriptors")

AS_FD_3 = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.argv[2], sys.argv[2:])
"""


@contextlib.contextmanager
def activated(listener: socket.socket, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A server that is given the socket as fd 3, once it is ready."""
    starter = [sys.executable, "-P", "-c", AS_FD_3, str(listener.fileno())]
    process = subprocess.Popen(
        [*starter, *COMMAND, "serve", "--port", "1", *args],
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        line_with(process, "/v1 (")
        try:
            yield process
        finally:
            process.terminate()


class Load:
    """Threads that ask again and again, each time over a new connection."""

    def __init__(self, url: str, count: int = 4) -> None:
        self.url = url
        self.failures: list[object] = []
        self.answers = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def _ask(self) -> None:
        while not self._over.is_set():
            try:
                answer = httpx.get(self.url, headers={"connection": "close"}, timeout=60, trust_env=False)
                failure: object = None if answer.status_code == 200 else answer.text
            except httpx.HTTPError as error:
                failure = error
            with self._lock:
                self.answers += 1
                if failure is not None:
                    self.failures.append(failure)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def test_a_restart_under_load_refuses_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models"
        with activated(listener) as first, Load(url) as load:
            while load.answers < 20:
                assert httpx.get(url, trust_env=False).status_code == 200
            first.send_signal(signal.SIGTERM)
            assert first.wait(TIMEOUT_S) == 0
            before = load.answers
            with activated(listener):
                assert httpx.get(url, timeout=60, trust_env=False).status_code == 200
                while load.answers < before + 20:
                    assert httpx.get(url, trust_env=False).status_code == 200
                load.__exit__()
    assert load.failures == []


def test_the_manager_is_told_of_start_reload_and_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(TIMEOUT_S)
        process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
        with process:
            try:
                ready = manager.recv(999).decode().splitlines()
                assert ready[0] == "READY=1"
                url = ready[1].removeprefix("STATUS=serving at ")
                assert httpx.get(f"{url}/ready", trust_env=False).status_code == 200
                process.send_signal(SIGHUP)
                reloading = manager.recv(999).decode().splitlines()
                assert reloading[0] == "RELOADING=1"
                assert reloading[1].startswith("MONOTONIC_USEC=")
                assert manager.recv(999) == b"READY=1"
            finally:
                process.terminate()
            assert manager.recv(999).startswith(b"STOPPING=1\n")
            assert process.wait(TIMEOUT_S) == 0


def test_without_a_manager_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for address in ("", "relative", str(tmp_path / "nobody-listens")):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        assert not service_manager.notify("READY=1")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="abstract sockets")
def test_an_abstract_address_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0localllm-test-{os.getpid()}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@localllm-test-{os.getpid()}")
        assert service_manager.notify("READY=1")
        assert manager.recv(99) == b"READY=1"


def test_sockets_for_another_process_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_FDS", "1")
    for pid in ("", "1", "x"):
        monkeypatch.setenv("LISTEN_PID", pid)
        assert service_manager.passed_sockets() == []


def _passed(monkeypatch: pytest.MonkeyPatch, *sockets: socket.socket) -> None:
    monkeypatch.setattr(service_manager, "passed_sockets", lambda: [each.dup() for each in sockets])


def test_what_is_no_listening_tcp_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        socket.socket() as idle,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        for wrong in (idle, local, datagrams):
            _passed(monkeypatch, wrong)
            with pytest.raises(LocalLLMError, match="ListenStream"):
                listener_of(Settings(), has_key=True)
        _passed(monkeypatch, idle, idle)
        with pytest.raises(LocalLLMError, match="passes 2 sockets"):
            listener_of(Settings(), has_key=True)


def test_a_passed_socket_on_the_network_needs_a_key_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        _passed(monkeypatch, everywhere)
        with pytest.raises(InvalidParameter, match=r"without an API key"):
            listener_of(Settings(), has_key=False)
        with listener_of(Settings(), has_key=True) as listener:
            assert listener.getsockname() == everywhere.getsockname()
