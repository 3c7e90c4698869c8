"""The chat on a real terminal, with a real server and model: what is typed, shown, interrupted, saved, left behind."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

from tests.e2e.terminal import PROMPT, PROMPT_ENDS, Terminal, needs_pty
from tests.e2e.test_run import ENDLESS, GREEDY, descendants, needs_proc

PASTED = b"\x1b[200~first line\r\n    second line\x1b[201~"


@needs_pty
def test_without_a_prompt_on_a_terminal_there_is_a_chat_until_ctrl_d(tiny_chat_model: Path) -> None:
    with Terminal(tiny_chat_model, *GREEDY) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"/help\r")
        terminal.until(b"/bye")
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
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
def test_pasted_lines_are_one_message_and_the_history_is_kept(
    tiny_chat_model: Path, tmp_path: Path, home: Path
) -> None:
    with Terminal(tiny_chat_model, *GREEDY, "--home", tmp_path) as terminal:
        terminal.until(PROMPT)
        terminal.type(PASTED + b"\r")
        terminal.until(PROMPT_ENDS)
        terminal.until(PROMPT)
        terminal.type(f"/save {tmp_path / 'chat.json'}\r".encode())
        terminal.until(b"saved 2 messages")
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 0
    assert json.loads((tmp_path / "chat.json").read_bytes())["messages"][0]["content"] == "first line\n    second line"
    assert "+first line\n+    second line\n" in (tmp_path / "history").read_text("utf-8")


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
