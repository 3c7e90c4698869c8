"""The chat on a real terminal, with a real server and model: what is typed, shown, interrupted, saved, left behind."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pyte
import pytest

from tests.e2e.terminal import PROMPT, PROMPT_ENDS, Terminal, needs_pty
from tests.e2e.test_run import ENDLESS, GREEDY, descendants, needs_proc
from tests.homes import share_findings

PASTED = b"\x1b[200~first line\r\n    second line\x1b[201~"


@needs_pty
def test_without_a_prompt_on_a_terminal_there_is_a_chat_until_ctrl_d(tiny_chat_model: Path) -> None:
    with Terminal(tiny_chat_model, *GREEDY) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"/help\r")
        terminal.until(b"/bye")
        terminal.until(PROMPT)
        terminal.type(b"caf\xe9\r")  # Latin-1: it is told, and the chat stays
        terminal.until(b"not valid UTF-8")
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 0


@needs_pty
def test_ctrl_c_in_a_chat_stops_the_answer_and_not_the_chat(endless_model: Path) -> None:
    with Terminal(endless_model, *ENDLESS) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
        terminal.until(PROMPT_ENDS)
        terminal.until_more(40)
        terminal.interrupt()
        terminal.until(b"[stopped]")
        terminal.until(PROMPT)
        terminal.type(b"/bye\r")
        assert terminal.end() == 0


@needs_pty
def test_a_terminal_is_as_it_was_after_a_chat(endless_model: Path) -> None:
    with Terminal(endless_model, *ENDLESS) as terminal:
        before = terminal.settings()
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
        terminal.until(PROMPT_ENDS)
        terminal.until_more(40)
        assert terminal.settings() != before, "what is typed meanwhile is not echoed"
        terminal.interrupt()
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 0
        assert terminal.settings() == before
        switched = dict(re.findall(rb"\x1b\[\?(\d+)([hl])", terminal.everything))
        assert switched[b"25"] == b"h", "the cursor is visible"
        assert switched[b"2004"] == switched.get(b"2026", b"l") == b"l"


@needs_pty
def test_what_is_typed_during_an_answer_waits_for_the_prompt(endless_model: Path, tmp_path: Path) -> None:
    with Terminal(endless_model, *ENDLESS) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
        terminal.until(PROMPT_ENDS)
        terminal.until_more(40)
        terminal.type(f"/save {tmp_path / 'chat'}\r/bye\r".encode())
        terminal.interrupt()
        terminal.until(b"[stopped]")
        assert terminal.end() == 0
        assert terminal.seen.count(b"/bye") >= 1
    hello, answer = json.loads((tmp_path / "chat.json").read_bytes())["messages"]
    assert hello == {"role": "user", "content": "Hello"}
    assert answer["interrupted"] is True


@needs_pty
def test_pasted_lines_are_one_message_and_the_history_is_kept_and_searched(
    tiny_chat_model: Path, tmp_path: Path, home: Path
) -> None:
    share_findings(home, tmp_path)
    with Terminal(tiny_chat_model, *GREEDY, "--home", tmp_path) as terminal:
        terminal.until(PROMPT)
        terminal.type(PASTED + b"\r")
        terminal.until(PROMPT_ENDS)
        terminal.until(PROMPT)
        terminal.type(f"/save {tmp_path / 'chat.json'}\r".encode())
        terminal.until(b"saved 2 messages")
        terminal.until(PROMPT)
        terminal.type(b"\x12first")  # Ctrl-R
        while "first line" not in (shown := "\n".join(displayed(terminal)).rpartition(">>>")[2]):
            terminal.until_more(len(terminal.seen) + 1)
        assert "second line" in shown
        assert "Send a message" not in shown, "the hit stands alone"
        terminal.type(b"\x07")  # Ctrl-G
        while "Send a message" not in displayed(terminal)[-1]:
            terminal.until_more(len(terminal.seen) + 1)
        terminal.type(b"\x04")
        assert terminal.end() == 0
    assert json.loads((tmp_path / "chat.json").read_bytes())["messages"][0]["content"] == "first line\n    second line"
    assert "+first line\n+    second line\n" in (tmp_path / "history").read_text("utf-8")


def displayed(terminal: Terminal) -> list[str]:
    """The lines of the screen that have text."""
    screen = pyte.Screen(80, 40)
    pyte.ByteStream(screen).feed(terminal.everything.replace(b"\x1b[>4;2m", b""))
    return [line.rstrip() for line in screen.display if line.strip()]


@needs_pty
@pytest.mark.usefixtures("demo")
def test_a_call_is_shown_its_result_asked_for_and_the_answer_goes_on(tmp_path: Path) -> None:
    function = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    (tmp_path / "tools.json").write_text(json.dumps([{"type": "function", "function": function}]))
    with Terminal("demo", "--temperature", "0") as terminal:
        for line in (f"/tools {tmp_path / 'tools.json'}", "What is the weather in Paris?"):
            terminal.until(PROMPT)
            terminal.type(line.encode() + b"\r")
        terminal.until(b'calls get_weather(city="Paris")')
        terminal.until(PROMPT)
        terminal.type(b'{"temperature": 19, "sky": "cloudy"}\r')
        terminal.until(b"19")
        terminal.until(PROMPT)
        terminal.type(b"What is the weather in Oslo?\r")
        terminal.until(b"calls get_weather(")
        terminal.until(PROMPT)
        terminal.type(b"\x03")
        terminal.until(b"[no result]")
        terminal.until(PROMPT)
        terminal.type(f"/save {tmp_path / 'chat.json'}\r".encode())
        terminal.until(PROMPT)
        terminal.type(b"What can you do?\r")
        terminal.until(b"stories")
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 0
    saved = json.loads((tmp_path / "chat.json").read_bytes())["messages"]
    exchange = ["user", "assistant", "tool"]
    assert [message["role"] for message in saved] == [*exchange, "assistant", *exchange]
    assert saved[2]["content"] == '{"temperature": 19, "sky": "cloudy"}'
    assert saved[2]["call_id"] == saved[1]["calls"][0]["id"]
    assert saved[-1]["interrupted"] is True


@needs_pty
@pytest.mark.usefixtures("demo")
def test_a_hidden_thought_is_a_line_that_tells_its_size_and_can_be_unfolded() -> None:
    screen = pyte.Screen(80, 40)
    with Terminal("demo", "--temperature", "0", "--think", "hide") as terminal:
        for line in (b"What is 4 + 4?", b"/thoughts"):
            terminal.until(PROMPT)
            terminal.type(line + b"\r")
            terminal.until(PROMPT_ENDS)
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 0
        pyte.ByteStream(screen).feed(terminal.everything.replace(b"\x1b[>4;2m", b""))
    shown = "\n".join(line.rstrip() for line in screen.display)
    note = re.search(r"^thought for \d+\.\d s \((\d+) tokens; /thoughts shows it\)\n\n4 \+ 4 = 8", shown, re.MULTILINE)
    unfolded = re.search(r"^\[thought for \d+\.\d s, (\d+) tokens\]\n.*4 \+ 4", shown, re.MULTILINE)
    assert note is not None, shown
    assert unfolded is not None, shown
    assert note[1] == unfolded[1]
    assert "Send a message" not in shown, "no hint is left behind where nothing was typed"


@needs_pty
def test_without_colour_nothing_of_an_answer_is_coloured_or_moved(tiny_chat_model: Path) -> None:
    with Terminal(tiny_chat_model, "Hi", *GREEDY, NO_COLOR="1") as terminal:
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.seen


@needs_pty
@needs_proc
def test_a_model_that_dies_ends_its_answer_and_the_chat_goes_on(endless_model: Path) -> None:
    with Terminal(endless_model, *ENDLESS) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
        terminal.until(PROMPT_ENDS)
        terminal.until_more(40)
        os.kill(_process(terminal, "localllm.worker"), signal.SIGKILL)
        terminal.until(b"localllm: ")
        terminal.until(PROMPT)
        terminal.type(b"Again\r")
        terminal.until(PROMPT_ENDS)
        terminal.until_more(40)
        terminal.interrupt()
        terminal.until(b"[stopped]")
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 0


@needs_pty
@needs_proc
def test_a_server_that_dies_leaves_the_conversation_to_be_saved(endless_model: Path, tmp_path: Path) -> None:
    with Terminal(endless_model, *ENDLESS) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
        terminal.until(PROMPT_ENDS)
        terminal.until_more(40)
        os.kill(_process(terminal, "serve"), signal.SIGKILL)
        terminal.until(b"localllm: the server ")
        terminal.until(PROMPT)
        terminal.type(f"/save {tmp_path / 'kept'}\r".encode())
        terminal.until(b"saved 2 messages")
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 1
    assert (tmp_path / "kept.json").is_file()


def _process(terminal: Terminal, word: str) -> int:
    """The descendant with that word in its command line."""
    for pid in descendants(terminal.process.pid):
        if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    raise AssertionError(f"there is no {word}")
