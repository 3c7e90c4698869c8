"""A server of one's own, as an application's developer starts, watches and ends it: real processes, some bad."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from localllm import AsyncSidecar, InvalidParameter, LoadFailed, ModelNotFound, Sidecar, SidecarExit
from localllm.system import processes
from tests.e2e.conftest import TIMEOUT_S
from tests.e2e.test_llm_ends import is_gone
from tests.homes import share_findings

HANGS = """
import sys
print("what it", "waits for", sep="\\n", file=sys.stderr, flush=True)
sys.stdin.read()
"""
DIES = """
import sys
print("first", file=sys.stderr)
print("the disk is on fire", file=sys.stderr)
sys.exit(7)
"""
READY = """
import os, sys
print('{"loading": 0.5}', flush=True)
print('{"url": "http://127.0.0.1:1", "token": "t", "model": "m", "pid": %d, "version": "0"}' % os.getpid(), flush=True)
print("what led to it", file=sys.stderr, flush=True)
sys.exit(9) if sys.stdin.read(1) else None
"""


def command(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def pids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of all that are started from now on."""
    started: list[int] = []
    popen = subprocess.Popen

    def start(*args: object, **kwargs: object) -> object:
        process = popen(*args, **kwargs)  # type: ignore[call-overload]
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    return started


def test_a_server_that_is_not_ready_in_time_is_ended_and_its_last_words_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = pids(monkeypatch)
    with pytest.raises(LoadFailed, match=r"not ready within \d+\.?\d* s; it last said: what it \| waits for") as caught:
        _until_it_speaks(lambda timeout: Sidecar.start(["x"], command=command(HANGS), timeout=timeout))
    assert caught.value.details["stderr"] == "what it\nwaits for"
    assert all(is_gone(pid) for pid in started)

    async def scenario() -> None:
        await AsyncSidecar.start(["x"], command=command(HANGS), timeout=0.4)

    with pytest.raises(LoadFailed, match=r"not ready within"):
        asyncio.run(scenario())
    assert all(is_gone(pid) for pid in started)


def _until_it_speaks(start: Callable[[float], object]) -> None:
    """How long a process takes to begin is the machine's affair."""
    for timeout in (0.4, 0.8, 1.6, 3.2, 6.4):
        try:
            start(timeout)
        except LoadFailed as error:
            if "said nothing" not in error.message:
                raise
    start(30.0)


def test_who_waits_in_vain_may_wait_again() -> None:
    with Sidecar.spawn(["x"], command=command(HANGS)) as sidecar:
        for _ in range(2):
            with pytest.raises(LoadFailed, match="not ready"):
                sidecar.wait_ready(timeout=0.01)
        assert sidecar.alive
    assert not sidecar.alive


def test_a_server_that_dies_before_it_is_ready_is_an_error_with_its_code_and_last_words() -> None:
    with pytest.raises(LoadFailed, match=r"exit code 7\); it last said: first \| the disk is on fire"):
        Sidecar.start(["x"], command=command(DIES))

    async def scenario() -> None:
        await AsyncSidecar.start(["x"], command=command(DIES))

    with pytest.raises(LoadFailed, match="the disk is on fire"):
        asyncio.run(scenario())
    with Sidecar.spawn(["x"], command=command(DIES)) as sidecar:
        for _ in range(2):
            with pytest.raises(LoadFailed, match="fire"):
                sidecar.wait_ready(timeout=TIMEOUT_S)


def test_the_end_of_a_server_that_was_ready_is_told_with_its_code_and_last_words() -> None:
    told: queue.SimpleQueue[SidecarExit] = queue.SimpleQueue()
    progress: list[float] = []
    with Sidecar.start(["x"], command=command(READY), on_exit=told.put, on_progress=progress.append) as sidecar:
        assert sidecar.alive
        assert sidecar.process.stdin is not None
        sidecar.process.stdin.write(b"x")
        sidecar.process.stdin.flush()
        exit = told.get(timeout=TIMEOUT_S)
        assert (exit.exit_code, exit.signal, exit.reason, exit.stderr) == (9, None, "exit code 9", "what led to it")
        assert sidecar.process.poll() == 9
    with Sidecar.start(["x"], command=command(READY), on_exit=told.put) as sidecar:
        os.kill(sidecar.process.pid, signal.SIGKILL)
        assert told.get(timeout=TIMEOUT_S).signal == "SIGKILL"
    assert progress == [0.5]


def test_nothing_is_told_of_a_server_that_was_closed() -> None:
    told: list[SidecarExit] = []
    threads = [threading.Thread()]
    with Sidecar.start(["x"], command=command(READY), on_exit=told.append) as sidecar:
        threads = [threading.Thread(target=sidecar.close) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
    assert told == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sidecar")]


def test_letting_go_of_a_sidecar_ends_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    started = pids(monkeypatch)
    sidecar = Sidecar.start(["x"], command=command(READY))
    del sidecar
    gc.collect()
    assert is_gone(started[0])


def test_ctrl_c_while_a_sidecar_starts_leaves_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    started = pids(monkeypatch)
    begin = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        begin(thread)
        if thread.name == "sidecar":
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Sidecar.start(["x"], command=command(HANGS))
    monkeypatch.setattr(threading.Thread, "start", begin)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sidecar.start(["x"], command=command(READY), on_progress=interrupt)
    assert len(started) == 2
    assert all(is_gone(pid) for pid in started)


def test_a_cancelled_start_leaves_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    started = pids(monkeypatch)

    async def scenario() -> None:
        starting = asyncio.create_task(AsyncSidecar.start(["x"], command=command(HANGS)))
        await asyncio.sleep(0)
        assert started
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(scenario())
    assert is_gone(started[0])


def test_bad_arguments_are_named_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started = pids(monkeypatch)
    for timeout in (0, -1, float("nan"), "5", True):
        with pytest.raises(InvalidParameter, match="timeout"):
            Sidecar.start(["x"], timeout=timeout)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="on_exit"):
        Sidecar.start(["x"], on_exit="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="on_exit"):
        asyncio.run(AsyncSidecar.start(["x"], on_exit="x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="prot"):
        Sidecar.spawn(["x"], prot=8080)  # type: ignore[call-arg]
    assert started == []


def test_a_log_that_cannot_be_passed_on_stops_no_server(tmp_path: Path) -> None:
    chatty = 'import sys\nfor _ in range(3000): print("x" * 100, file=sys.stderr)\n' + READY
    with (tmp_path / "log").open("wb") as log:
        log.close()
        with Sidecar.start(["x"], command=command(chatty), stderr=log, timeout=TIMEOUT_S) as sidecar:
            assert sidecar.alive
    with (
        (tmp_path / "log").open("wb") as log,
        Sidecar.start(["x"], command=command(chatty), stderr=log, timeout=TIMEOUT_S),
    ):
        pass
    assert (tmp_path / "log").stat().st_size == 3000 * (100 + len(os.linesep)) + len("what led to it" + os.linesep)


def test_a_sidecar_is_quiet_unless_it_is_told_where_its_log_goes(capsys: pytest.CaptureFixture[str]) -> None:
    for stderr, shown in ((None, ""), (sys.stderr, "first\nthe disk is on fire\n")):
        with pytest.raises(LoadFailed, match="the disk is on fire"):
            Sidecar.start(["x"], command=command(DIES), stderr=stderr)
        assert capsys.readouterr().err == shown


def test_an_async_sidecar_serves_a_model_from_a_home_of_its_own(
    tiny_chat_model: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_findings(home, tmp_path)
    monkeypatch.setenv("LOCALLLM_CTX", "nonsense")
    progress: list[float] = []

    async def scenario() -> None:
        told: asyncio.Queue[SidecarExit] = asyncio.Queue()
        async with await AsyncSidecar.start(
            [str(tiny_chat_model), "--threads=1"],
            home=tmp_path,
            on_progress=progress.append,
            on_exit=told.put_nowait,
            timeout=TIMEOUT_S,
        ) as sidecar:
            headers = {"authorization": f"Bearer {sidecar.token}"}
            async with httpx.AsyncClient(base_url=sidecar.url, headers=headers) as http:
                assert (await http.get("/v1/models")).json()["data"][0]["id"] == sidecar.ready.model
            os.kill(sidecar.ready.pid, signal.SIGKILL)
            exit = await asyncio.wait_for(told.get(), TIMEOUT_S)
            assert exit.signal == "SIGKILL"
            assert not sidecar.alive
        with pytest.raises(ModelNotFound):
            await AsyncSidecar.start([str(tmp_path / "nothing.gguf")], home=tmp_path)

    asyncio.run(scenario())
    assert progress == sorted(progress)
    assert (tmp_path / "selftest.json").exists()


def test_no_child_opens_a_window_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NO_WINDOW", 0x08000000, raising=False)
    assert processes.own_process_group() == {"creationflags": 0x08000200}
