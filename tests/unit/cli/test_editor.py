"""Where messages are typed: keys, pasted text, history and completion, as prompt_toolkit gets them from a terminal."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from localllm.cli.chat.editor import CommandCompleter, Editor
from localllm.cli.chat.folding import Folds
from localllm.cli.chat.kept import saved
from localllm.cli.chat.questions import RESULT, LineDropped
from localllm.errors import Unavailable

ENTER, ALT_ENTER, CTRL_C, CTRL_D, CTRL_R, UP = "\r", "\x1b\r", "\x03", "\x04", "\x12", "\x1b[A"


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


def _models() -> list[str]:
    return ["tiny", "other"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("Hello" + ENTER, "Hello"),
        ("typed before the terminal was ready\n", "typed before the terminal was ready"),
        ("one" + ALT_ENTER + "two" + ENTER, "one\ntwo"),
        ("\x1b[200~def f():\r\n    return 1\n\n\x1b[201~" + ENTER, "def f():\n    return 1\n\n"),
        ('"""' + ENTER + "one" + ENTER + 'two"""' + ENTER, '"""\none\ntwo"""'),
        ('"""one"""' + ENTER, '"""one"""'),
    ],
)
def test_a_message_is_what_was_typed_or_pasted(keys: str, message: str, keyboard: PipeInput) -> None:
    keyboard.send_text(keys)
    assert Editor(None, models=_models).read(">>> ") == message


PASTED = "".join(f"line {at}\n" for at in range(20))
PASTE = f"\x1b[200~{PASTED}\x1b[201~"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("Read: " + PASTE + ENTER, f"Read: {PASTED}"),
        (PASTE + " and " + PASTE + ENTER, f"{PASTED} and {PASTED}"),
        ("a" + PASTE + "\x7f" + "b" + ENTER, "ab"),
        ("[pasted 1: 21 lines]" + ENTER, "[pasted 1: 21 lines]"),
        ("\x1b[200~" + "y" * 3000 + "\x1b[201~" + ENTER, "y" * 3000),
    ],
)
def test_a_long_paste_is_one_word_in_the_line_and_sent_whole(keys: str, message: str, keyboard: PipeInput) -> None:
    keyboard.send_text(keys)
    assert Editor(None, models=_models).read(">>> ") == message


def test_a_folded_paste_stands_in_the_line_by_its_size() -> None:
    folds = Folds()
    assert [folds.folded(text) for text in ("short", PASTED, "y" * 3000)] == [
        "short",
        "[pasted 1: 21 lines]",
        "[pasted 2: 3,000 characters]",
    ]
    assert folds.unfolded("[pasted 2: 3,000 characters][pasted 1: 21 lines]") == "y" * 3000 + PASTED
    assert folds.folded("[pasted 1: 21 lines]" * 200) == "[pasted 3: 4,000 characters]"
    assert folds.unfolded("[pasted 3: 4,000 characters]") == "[pasted 1: 21 lines]" * 200, "not looked through"


def test_the_history_has_what_was_pasted(keyboard: PipeInput, tmp_path: Path) -> None:
    keyboard.send_text(PASTE + ENTER)
    Editor(tmp_path, models=_models).read(">>> ")
    assert "+line 19" in (tmp_path / "history").read_text()


def test_ctrl_c_drops_a_line_or_interrupts_and_ctrl_d_ends(keyboard: PipeInput) -> None:
    editor = Editor(None, models=_models)
    keyboard.send_text("half" + CTRL_C)
    with pytest.raises(LineDropped):
        editor.read(">>> ")
    keyboard.send_text(CTRL_C)
    with pytest.raises(KeyboardInterrupt) as caught:
        editor.read(">>> ")
    assert not isinstance(caught.value, LineDropped)
    keyboard.send_text(CTRL_D)
    with pytest.raises(EOFError):
        editor.read(">>> ")


def test_a_calls_result_is_typed_as_messages_are_and_kept_in_no_history(keyboard: PipeInput, tmp_path: Path) -> None:
    editor = Editor(tmp_path, models=_models)
    for keys, result in (
        ("19 degrees" + ENTER, "19 degrees"),
        (ENTER, ""),
        ('"""a' + ENTER + 'b"""' + ENTER, '"""a\nb"""'),
    ):
        keyboard.send_text(keys)
        assert editor.read(RESULT) == result
    keyboard.send_text(CTRL_C)
    with pytest.raises(KeyboardInterrupt):
        editor.read(RESULT)
    assert "19 degrees" not in (tmp_path / "history").read_text("utf-8")


def test_history_lasts_and_is_found_again(keyboard: PipeInput, tmp_path: Path) -> None:
    first = Editor(tmp_path, models=_models)
    for message in ("the first", "the second\nof two lines", " a secret"):
        keyboard.send_text(message.replace("\n", ALT_ENTER) + ENTER)
        first.read(">>> ")
    second = Editor(tmp_path, models=_models)
    keyboard.send_text(UP + ENTER)
    assert second.read(">>> ") == "the second\nof two lines", "what begins with a space is not kept"
    keyboard.send_text(CTRL_R + "first" + ENTER + ENTER)
    assert second.read(">>> ") == "the first"
    assert "secret" not in (tmp_path / "history").read_text("utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="file modes")
def test_the_history_is_its_owners_alone(keyboard: PipeInput, tmp_path: Path) -> None:
    Editor(tmp_path / "new", models=_models)
    assert stat.S_IMODE((tmp_path / "new" / "history").stat().st_mode) == 0o600


def test_a_home_that_cannot_be_written_costs_the_history_only(keyboard: PipeInput, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keyboard.send_text("Hello" + ENTER)
    assert Editor(tmp_path / "file" / "home", models=_models).read(">>> ") == "Hello"


def test_a_history_that_grew_too_long_loses_its_older_half(tmp_path: Path) -> None:
    entries = [f"\n# 2025-01-01 00:00:00.000000\n+message {number} {'x' * 100}\n" for number in range(10_000)]
    (tmp_path / "history").write_text("".join(entries))
    path = saved.history_file(tmp_path)
    assert path is not None
    kept = path.read_text("utf-8")
    assert len(kept) < saved.MAX_HISTORY_BYTES
    assert kept.startswith("\n# 2025")
    assert kept.endswith(entries[-1])


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("/s", ["/set", "/system", "/save", "/stats"]),
        ("/set temp", ["temperature"]),
        ("/th", ["/thoughts"]),
        ("/set think ", ["on", "off", "hide", "default"]),
        ("/set seed d", ["default"]),
        ("/model o", ["other"]),
        ("/help u", ["undo"]),
        ("/nothing x", []),
        ("s", []),
        ("/set a\nb", []),
    ],
)
def test_commands_and_their_arguments_are_completed(text: str, choices: list[str]) -> None:
    found = CommandCompleter(_models).get_completions(Document(text), CompleteEvent())
    assert [completion.text for completion in found] == choices


def test_files_are_completed_after_load(tmp_path: Path) -> None:
    (tmp_path / "chat-1.json").write_text("")
    typed = Document(f"/load {tmp_path}/ch")
    (found,) = CommandCompleter(_models).get_completions(typed, CompleteEvent())
    assert found.text == "at-1.json"


def test_a_server_that_does_not_answer_completes_nothing() -> None:
    def models() -> list[str]:
        raise Unavailable("it does not answer")

    assert list(CommandCompleter(models).get_completions(Document("/model "), CompleteEvent())) == []
