"""`/retry`, `/edit` and `/copy`: another answer, another message in its place, and the answer on the clipboard."""

from __future__ import annotations

import base64
import stat
import sys
from pathlib import Path

import pytest

from localllm.cli.chat import copying, writing
from localllm.cli.chat.answer import Talk
from localllm.cli.chat.loop import Chat
from localllm.errors import LocalLLMError
from tests.unit.cli.test_chat_commands import FakeTalk, _lines


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that keeps what it was given beside itself, and appends ` Edited.`"""
    program = tmp_path / "edit.py"
    program.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "pathlib.Path(__file__).with_suffix('.seen').write_bytes(file.read_bytes())\n"
        "file.write_text(file.read_text().rstrip() + ' Edited.\\n')\n"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f'"{sys.executable}" "{program}"')
    return program.with_suffix(".seen")


def asked(talk: FakeTalk) -> list[str]:
    """The last message of each request."""
    return [prompt[-1][1] for prompt in talk.prompts]  # type: ignore[index]


@pytest.mark.skipif(sys.platform == "win32", reason="its quotes are others")
def test_the_last_message_is_edited_and_sent_in_its_place(editor: Path) -> None:
    talk = FakeTalk()
    chat = Chat(talk, None)
    chat.run(_lines("One.", "Two.", "/edit"))
    assert editor.read_text() == "Two.\n"
    assert asked(talk) == ["One.", "Two.", "Two. Edited."]
    assert [turn.content for turn in chat.turns] == ["One.", "Hello there", "Two. Edited.", "Hello there"]


@pytest.mark.skipif(sys.platform == "win32", reason="its quotes are others")
def test_a_message_without_an_answer_or_a_new_one_is_edited(editor: Path) -> None:
    talk = FakeTalk()
    talk.reply, talk.later = [LocalLLMError("no")], [["Yes"], ["Yes"]]
    chat = Chat(talk, None)
    chat.run(_lines("One.", "/edit", "/edit Three."))
    assert asked(talk) == ["One.", "One. Edited.", "Three. Edited."]
    assert len(chat.turns) == 4
    assert stat.S_IMODE(editor.stat().st_mode), "it was written"


def test_nothing_is_sent_if_nothing_changes_or_the_editor_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writing, "written", lambda text: text)
    talk = FakeTalk()
    Chat(talk, None).run(_lines("One.", "/edit"))
    assert asked(talk) == ["One."]
    assert "nothing was changed" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    with pytest.raises(LocalLLMError, match="cannot be started"):
        writing.written("")


def test_another_model_answers_the_last_message_and_the_chat_goes_on_with_it() -> None:
    other = FakeTalk(model_id="other")
    other.reply = ["I am other"]

    def switch(_: str) -> Talk:
        return other

    chat = Chat(FakeTalk(), None, switch=switch)
    chat.run(_lines("One.", "/retry other", "/retry"))
    assert [turn.content for turn in chat.turns] == ["One.", "I am other"]
    assert chat.talk is other


def test_the_last_answer_or_its_last_code_is_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(copying, "_send", sent.append)
    monkeypatch.delenv("TMUX", raising=False)
    talk = FakeTalk()
    answer = "See:\n```py\na = 1\n```\nor\n~~~\nb = 2\n~~~\nDone. ä"
    talk.reply = [answer]
    Chat(talk, None).run(_lines("/copy", "One.", "/copy", "/copy code", "/copy all"))
    assert sent == [f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07" for text in (answer, "b = 2\n")]
    said = capsys.readouterr().err
    assert "there is no answer to copy yet" in said
    assert "/copy takes no argument" in said


def test_what_no_terminal_takes_is_not_sent() -> None:
    talk = FakeTalk()
    talk.reply = ["x" * (copying.MAX_BYTES + 1)]
    chat = Chat(talk, None)
    chat.run(_lines("One."))
    with pytest.raises(LocalLLMError, match="do not copy"):
        copying.copy(chat, "")
    assert copying.sequence("a", is_in_tmux=True).count("52;c;YQ==") == 2
