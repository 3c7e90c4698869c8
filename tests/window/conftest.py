"""A screen that nobody sees, and windows on it: real ones, of a real web view, driven by keys and by its debugger."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import COMMAND

TIMEOUT_S = 60.0
PROGRAMS, PACKAGES = ("Xvfb", "xdotool", "xwininfo"), ("webview", "PySide6", "websockets")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
MISSING += [name for name in PACKAGES if importlib.util.find_spec(name) is None]


@pytest.fixture(scope="session")
def screen() -> Iterator[str]:
    """An X server's name; the tests are skipped where there is none, or nothing to show on it."""
    if MISSING:
        pytest.skip(f"no {', '.join(MISSING)}")
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1200x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as answer:
        number = answer.readline().strip()
    yield f":{number}"
    server.terminate()
    server.wait(TIMEOUT_S)


class Window:
    """`localllm app` with a home of its own."""

    def __init__(self, screen: str, home: Path, *args: str, command: tuple[str, ...] = tuple(COMMAND)) -> None:
        self.home = home
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.debug_port = free.getsockname()[1]
        self.environment = os.environ | {
            "DISPLAY": screen,
            "LOCALLLM_HOME": str(home),
            "PYWEBVIEW_GUI": "qt",
            "QT_API": "pyside6",
            "QT_QPA_PLATFORM": "xcb",
            "QTWEBENGINE_DISABLE_SANDBOX": "1",  # which containers do not let it have
            "QTWEBENGINE_REMOTE_DEBUGGING": str(self.debug_port),
        }
        self.command = [*command, "app", *args]
        self.log = home / "window.log"
        home.mkdir(exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stderr=log, stdin=subprocess.DEVNULL)
        self._page: Any = None

    @property
    def page(self) -> Any:
        """What is in it, once it is there."""
        from tests.window.page import Page

        if self._page is None:
            self._page = Page(self.debug_port)
            self._page.wait("window.localllmWindow !== undefined")
        return self._page

    def again(self) -> subprocess.CompletedProcess[str]:
        """A second start."""
        return subprocess.run(
            self.command, env=self.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    def on_screen(self, title: str) -> str:
        """The X window of that title, once it is there."""
        done = self._x("search", "--sync", "--onlyvisible", "--name", f"^{title}$")
        return done.split()[-1]

    def choose(self, title: str, path: Path) -> None:
        """In a dialog of that title, which is gone then. What is typed before it listens is typed again."""
        window = self.on_screen(title)
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._shows(title) and time.monotonic() < deadline_s:
            for words in (
                ["windowfocus", window],
                ["key", "--window", window, "ctrl+a"],
                ["type", "--window", window, str(path)],
                ["key", "--window", window, "Return"],  # whose release finds no window any more
            ):
                subprocess.run(["xdotool", *words], env=self.environment, capture_output=True, check=False)
            patience_s = time.monotonic() + 3
            while self._shows(title) and time.monotonic() < patience_s:
                time.sleep(0.05)

    def _shows(self, title: str) -> bool:
        command = ["xdotool", "search", "--onlyvisible", "--name", f"^{title}$"]
        done = subprocess.run(command, env=self.environment, capture_output=True, timeout=TIMEOUT_S, check=False)
        return done.returncode == 0

    def geometry(self) -> tuple[int, int, int, int]:
        """Its left, top, width and height."""
        text = self._run("xwininfo", "-id", self.on_screen("localllm"))
        found = dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line)
        names = ("Absolute upper-left X", "Absolute upper-left Y", "Width", "Height")
        left, top, width, height = (int(found[name]) for name in names)
        return left, top, width, height

    def move(self, left: int, top: int, width: int, height: int) -> None:
        window = self.on_screen("localllm")
        self._x("windowmove", "--sync", window, str(left), str(top))
        self._x("windowsize", "--sync", window, str(width), str(height))

    def processes(self) -> set[int]:
        """It, and all that it has started."""
        children: dict[int, list[int]] = {}
        for line in self._run("ps", "-e", "-o", "pid=,ppid=").splitlines():
            pid, parent = map(int, line.split())
            children.setdefault(parent, []).append(pid)
        found, waiting = set(), [self.process.pid]
        while waiting:
            pid = waiting.pop()
            found.add(pid)
            waiting += children.get(pid, [])
        return found

    def command_lines(self) -> str:
        return self._run("ps", "-e", "-o", "args=")

    def close(self) -> int:
        """As a logout does; the exit code."""
        if self._page is not None:
            self._page.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def _x(self, *words: str) -> str:
        return self._run("xdotool", *words)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout


class Windows:
    """Opens them, and ends those that a test has left."""

    def __init__(self, screen: str) -> None:
        self._screen = screen
        self._opened: list[Window] = []

    def open(self, home: Path, *args: str, **more: Any) -> Window:
        window = Window(self._screen, home, *args, **more)
        self._opened.append(window)
        return window

    def end(self) -> None:
        for window in self._opened:
            if window.process.poll() is None:
                window.kill()


@pytest.fixture
def windows(screen: str) -> Iterator[Windows]:
    opened = Windows(screen)
    yield opened
    opened.end()


@pytest.fixture
def port() -> str:
    """One where nobody answers: other windows of this machine have theirs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def ended(pids: set[int]) -> bool:
    """Whether all of them end in time."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        if not any(_runs(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def exists(path: Path) -> bool:
    """Whether it does in time, with something in it."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        if path.exists() and path.stat().st_size:
            return True
        time.sleep(0.05)
    return False


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def kept(home: Path) -> dict[str, Any]:
    """What the window remembers."""
    found: dict[str, Any] = json.loads((home / "window" / "place.json").read_text("utf-8"))
    return found
