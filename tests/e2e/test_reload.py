"""SIGHUP to a real server: keys and certificate are read again; what cannot be used changes nothing."""

from __future__ import annotations

import os
import shutil
import ssl
import sys
from pathlib import Path

import httpx
import pytest

from localllm.client.api import Client
from localllm.types import SamplingParams
from tests.e2e.conftest import TIMEOUT_S
from tests.e2e.servers import Server

DATA = Path(__file__).parents[1] / "server" / "data"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")

ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes stdin the terminal of its session, then becomes the command."""
HANG_UP = "import signal; signal.signal(signal.SIGHUP, signal.{})"
"""Sets what SIGHUP does, whether or not the tests run under nohup."""


def test_new_keys_count_at_once_and_removed_ones_are_refused_while_their_answers_go_on(
    endless_model: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("ann(admin)=one\nbob=two\n")
    with Server(endless_model, "--threads", "1", "--ctx", "65536", "--api-key-file", keys) as server:
        with Client(server.url, "two") as client:
            deltas = client.complete("endless", "x", SamplingParams(temperature=0))
            next(deltas)
            keys.write_text("ann(admin)=one\ncarol=three\n")
            line = server.reload("api_keys_reloaded")
            assert (line["keys"], line["admins"], line["added"], line["removed"]) == (2, 1, "carol", "bob")
            assert [server.status(key) for key in ("one", "two", "three")] == [200, 401, 200]
            assert all(next(deltas).text for _ in range(20)), "what runs goes on"
            deltas.close()
        unload = httpx.post(
            f"{server.url}/localllm/unload", json={"model": "endless"}, headers={"x-api-key": "three"}, trust_env=False
        )
        assert unload.status_code == 403


def test_a_file_that_cannot_be_used_changes_nothing_and_says_why(home: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("ann=sesame\n")
    with Server("--api-key-file", keys) as server:
        for broken in ("ann(boss)=sesame\n", "# ann=sesame\n"):
            keys.write_text(broken)
            line = server.reload("api_keys_not_reloaded")
            assert line["level"] == "error"
            assert line["reason"]
            assert "sesame" not in line["reason"]
            assert [server.status(key) for key in ("sesame", None)] == [200, 401]
        keys.unlink()
        assert "No such file" in server.reload("api_keys_not_reloaded")["reason"]
        keys.write_text("ann=two\n")
        server.reload("api_keys_reloaded")
        assert [server.status(key) for key in ("sesame", "two")] == [401, 200]


def test_without_a_file_the_signal_ends_nothing(home: Path) -> None:
    with Server() as server:
        server.reload("nothing_to_reload")
        assert server.status() == 200


def test_a_renewed_certificate_is_used_for_new_connections(home: Path, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(name: str) -> None:
        shutil.copy(DATA / f"{name}.cert.pem", cert)
        shutil.copy(DATA / f"{name}.key.pem", key)

    def is_trusted(name: str) -> bool:
        verify = ssl.create_default_context(cafile=str(DATA / f"{name}.cert.pem"))
        try:
            return httpx.get(f"{server.url}/health", verify=verify, trust_env=False).status_code == 200
        except httpx.ConnectError:
            return False

    install("localhost")
    with Server("--tls-cert-file", cert, "--tls-key-file", key) as server:
        assert [is_trusted(name) for name in ("localhost", "other")] == [True, False]
        shutil.copy(DATA / "other.cert.pem", cert)
        assert "has no key for the certificate" in server.reload("certificate_not_reloaded")["reason"]
        assert [is_trusted(name) for name in ("localhost", "other")] == [True, False]
        install("other")
        server.reload("certificate_reloaded")
        assert [is_trusted(name) for name in ("localhost", "other")] == [False, True]


@pytest.mark.parametrize("ignores", [False, True])
def test_a_server_ends_with_its_terminal_unless_nohup_protects_it(home: Path, ignores: bool) -> None:
    main, side = os.openpty()  # type: ignore[attr-defined, unused-ignore]
    script = HANG_UP.format("SIG_IGN" if ignores else "SIG_DFL") + ON_A_TERMINAL
    with Server(stdin=side, before=(sys.executable, "-c", script)) as server:
        os.close(side)
        server.reload("nothing_to_reload")
        os.close(main)
        if ignores:
            server.until("nothing_to_reload")
            assert server.status() == 200
        else:
            assert server.process.wait(TIMEOUT_S) == 0
