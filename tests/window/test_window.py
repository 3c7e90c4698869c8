"""`localllm app` on a screen: what somebody who opens, uses and closes the window would see."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.servers import Server
from tests.window.conftest import Windows, ended, exists, kept

if TYPE_CHECKING:
    from tests.window.page import Page

COUNT_VIOLATIONS = (
    "window.violations = []; addEventListener('securitypolicyviolation', "
    "(event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`)); 0"
)
ASK = (
    "(() => { const field = document.querySelector('textarea'); field.value = 'What is the capital of France?'; "
    "field.dispatchEvent(new Event('input', {bubbles: true})); field.form.requestSubmit(); })()"
)
ANSWERED = "document.querySelector('main').textContent.includes('tokens/s')"
TITLES = "[...document.querySelectorAll('.chats .title')].map((each) => each.textContent)"


def ask(page: Page) -> None:
    """Until the model has answered."""
    page.wait("document.querySelector('select').value === 'demo'")
    page.evaluate(ASK)
    page.wait(ANSWERED)


def press(name: str) -> str:
    return f"[...document.querySelectorAll('button')].find((each) => each.textContent === {json.dumps(name)}).click()"


def test_a_window_chats_exports_and_imports_and_comes_back_with_its_chats_and_its_place(
    windows: Windows, tmp_path: Path, port: str
) -> None:
    """Nothing asks for the key, no command line has it, the page's policy holds, and nothing is left running."""
    window = windows.open(tmp_path / "home", "demo", "--port", port)
    page = window.page
    page.evaluate(COUNT_VIOLATIONS)
    key = page.evaluate("sessionStorage.getItem('localllm.key')")
    assert len(key) >= 32
    assert key not in window.command_lines()
    assert key not in page.evaluate("location.href")
    assert page.evaluate("document.querySelector('dialog')") is None
    ask(page)

    file = tmp_path / "chats.json"
    page.evaluate(press("Export all"))
    window.choose("Save file", file)
    assert exists(file)
    page.evaluate(press("Import"))
    window.choose("Open", file)
    page.wait(f"{TITLES}.length === 2")
    assert json.loads(file.read_text("utf-8"))["format"] == "localllm-conversations"
    assert page.evaluate("window.violations") == []

    window.move(300, 200, 900, 700)
    pids = window.processes()
    assert len(pids) > 3
    assert window.close() == 0
    assert ended(pids)
    assert kept(tmp_path / "home")["place"] == {"width": 900, "height": 700, "x": 300, "y": 200, "maximized": False}

    window = windows.open(tmp_path / "home", "--port", port)
    window.page.wait(f"{TITLES}.length === 2")
    assert window.geometry() == (300, 200, 900, 700)
    assert window.close() == 0
    assert "Traceback" not in window.log.read_text("utf-8")


def test_a_second_start_shows_the_first_window_and_ends(windows: Windows, tmp_path: Path, port: str) -> None:
    window = windows.open(tmp_path / "home", "--port", port)
    window.page.wait("document.querySelector('textarea')")
    second = window.again()
    assert second.returncode == 0
    assert second.stderr.endswith("localllm: the window is already open\n")
    assert window.process.poll() is None
    assert window.close() == 0


def test_nothing_outlives_a_window_that_is_killed_and_the_next_one_opens(
    windows: Windows, tmp_path: Path, port: str
) -> None:
    window = windows.open(tmp_path / "home", "demo", "--port", port)
    ask(window.page)
    pids = window.processes()
    window.kill()
    assert ended(pids)
    again = windows.open(tmp_path / "home", "--port", port)
    again.page.wait(f"{TITLES}.length === 1")
    assert again.close() == 0


def test_the_running_server_is_used_with_the_key_of_the_settings_and_stays(
    windows: Windows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALLLM_API_KEYS", "a-key-of-the-settings")
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path / "home"))
    with Server("demo") as server:
        window = windows.open(tmp_path / "home", "--port", server.url.rpartition(":")[2])
        page = window.page
        page.wait("document.querySelector('select').value === 'demo'")
        assert page.evaluate("sessionStorage.getItem('localllm.key')") == "a-key-of-the-settings"
        assert not any("serve" in _arguments(pid) for pid in window.processes())
        assert window.close() == 0
        assert server.process.poll() is None


def test_a_server_of_the_windows_own_that_dies_is_started_again(windows: Windows, tmp_path: Path, port: str) -> None:
    program = "from localllm.cli import main; from localllm.window import app; app.RESTART_S = 0.0; main()"
    command = (sys.executable, "-P", "-c", program)  # otherwise it would have to run for RESTART_S first
    window = windows.open(tmp_path / "home", "--port", port, command=command)
    page = window.page
    first = page.evaluate("sessionStorage.getItem('localllm.key')")
    [server] = [pid for pid in window.processes() if "serve" in _arguments(pid)]
    os.kill(server, 9)
    page.wait(f"![null, {json.dumps(first)}].includes(sessionStorage.getItem('localllm.key'))")
    ask(page)
    assert window.close() == 0


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").split("\0")
    except OSError:
        return []
