"""The guide's programs with a window, driven as a user drives them: type, read along, press Stop, close.

The model's answers do not end by themselves and it has one slot: only a Stop that frees it lets the next answer begin.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e import guide
from tests.e2e.conftest import TIMEOUT_S

QT = """
import asyncio, os, sys, qasync
from localllm import AsyncLLM
from PySide6.QtTest import QTest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
import chat_qt

class OneSlot(AsyncLLM):
    def __init__(self, _):
        super().__init__(os.environ["MODEL"], slots=1)

async def until(is_true):
    while not is_true():
        await asyncio.sleep(0.005)

async def user():
    async def ask(question):
        window.question.clear()
        QTest.keyClicks(window.question, question)
        QTest.keyClick(window.question, Qt.Key.Key_Return)
        await until(lambda: not window.question.isEnabled())

    await until(lambda: any(widget.isVisible() for widget in application.topLevelWidgets()))
    (window,) = [widget for widget in application.topLevelWidgets() if widget.isVisible()]
    await ask("Tell me a story")
    await until(lambda: len(window.answer.toPlainText()) > 20)
    QTest.mouseClick(window.stop, Qt.MouseButton.LeftButton)
    await until(window.question.isEnabled)
    first = len(window.answer.toPlainText())
    await ask("Tell me another story")
    await until(lambda: len(window.answer.toPlainText()) > first + 20)
    window.close()

async def both():
    driving = asyncio.ensure_future(user())
    await chat_qt.main()
    await driving

chat_qt.AsyncLLM = OneSlot
application = QApplication(sys.argv)
with qasync.QEventLoop(application) as loop:
    loop.run_until_complete(both())
print("closed")
"""
"""Imports the program and uses its window by mouse and keyboard."""

TK = """
import os
import threading
import tkinter as tk
from localllm import LLM
import chat_tk

with LLM(os.environ["MODEL"], slots=1) as llm:
    root = tk.Tk()
    window = chat_tk.Window(root, llm)

    def text():
        return window.answer.get("1.0", "end-1c")

    def ask(question):
        window.question.delete(0, "end")
        window.question.insert(0, question)
        window.question.event_generate("<Return>")

    def until(is_true, then):
        root.after(5, lambda: then() if is_true() else until(is_true, then))

    def stop():
        window.stop.invoke()
        until(lambda: threading.active_count() == num_threads, again)

    def again():
        ask("Tell me another story")
        before = len(text()) + window.pieces.qsize()
        until(lambda: len(text()) > before + 1000, window.close)

    num_threads = threading.active_count()
    root.update()
    window.question.focus_force()
    ask("Tell me a story")
    until(lambda: len(text()) > 20, stop)
    root.mainloop()
print("closed")
"""


def _drive(driver: str, folder: Path, home: Path, *before: str, **env: str) -> list[str]:
    """What it printed."""
    (folder / "drive.py").write_text(driver, "utf-8")
    environment = {**os.environ, "LOCALLLM_HOME": str(home), **env}
    done = subprocess.run(
        [*before, sys.executable, "drive.py"], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stderr, done.stderr
    return done.stdout.split()


def test_the_qt_window_streams_stops_answers_again_and_closes_in_the_middle_of_an_answer(
    tmp_path: Path, home: Path, endless_model: Path
) -> None:
    has_qt = [sys.executable, "-c", "import qasync; from PySide6.QtWidgets import QApplication"]
    if (tried := subprocess.run(has_qt, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"needs PySide6-Essentials and qasync: {tried.stderr.strip().splitlines()[-1]}")
    guide.write(tmp_path, "chat_qt.py")
    assert _drive(QT, tmp_path, home, QT_QPA_PLATFORM="offscreen", MODEL=str(endless_model)) == ["closed"]


def test_the_tk_window_streams_stops_answers_again_and_closes_in_the_middle_of_an_answer(
    tmp_path: Path, home: Path, endless_model: Path
) -> None:
    xvfb = shutil.which("xvfb-run")
    if xvfb is None:
        pytest.skip("needs xvfb-run")
    path = {} if _has_tkinter() else _system_tkinter(tmp_path / "tkinter")
    guide.write(tmp_path, "chat_tk.py")
    assert _drive(TK, tmp_path, home, xvfb, "-a", MODEL=str(endless_model), **path) == ["closed"]


def _has_tkinter(env: Mapping[str, str] | None = None) -> bool:
    command = [sys.executable, "-c", "import tkinter"]
    return subprocess.run(command, capture_output=True, env=env, check=False).returncode == 0


def _system_tkinter(folder: Path) -> dict[str, str]:
    """tkinter of the system's Python, where that is of our version: one that was built without it can have it, too."""
    library = Path("/usr/lib") / f"python{sysconfig.get_python_version()}"
    found = [library / "tkinter", *(library / "lib-dynload").glob("_tkinter.*.so")]
    folder.mkdir()
    for each in found:
        (folder / each.name).symlink_to(each)
    path = {"PYTHONPATH": str(folder)}
    if len(found) != 2 or not _has_tkinter({**os.environ, **path}):
        pytest.skip("this Python has no tkinter, nor has the system's (Debian: python3-tk)")
    return path
