"""Chats that keep themselves: continued, named, bounded, readable by their owner only, and taken back."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import msgspec
import pytest

from localllm.cli.chat.kept import sessions as sessions_module
from localllm.cli.chat.kept.keeping import Keeper, opened
from localllm.cli.chat.kept.saved import SavedChat, Turn
from localllm.cli.chat.kept.sessions import Sessions
from localllm.cli.chat.loop import Chat
from localllm.cli.commands.sessions import manage_sessions
from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.types import SamplingParams
from tests.unit.cli.test_chat_commands import FakeTalk, _lines

HELLO = SavedChat(localllm_chat=3, model="tiny", messages=(Turn("user", "Hello"), Turn("assistant", "Hi")))


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def chat(keeper: Keeper, *lines: str, talk: FakeTalk | None = None, system: str | None = None) -> Chat:
    """A chat of these lines, kept as `run` keeps it."""
    conversation = Chat(talk or FakeTalk(), system)
    keeper.model = keeper.model or "tiny"
    keeper.take_up(conversation)
    conversation.keep = keeper.keep
    conversation.run(_lines(*lines))
    return conversation


def contents(sessions: Sessions) -> list[list[str]]:
    """Of all chats, the last changed one first."""
    return [[turn.content for turn in sessions.load(each.name).messages] for each in sessions.listed()]


def test_a_chat_is_kept_after_each_message_and_continued(sessions: Sessions) -> None:
    chat(opened(sessions, None, continues=False), "one", "two", "/set temperature 0.5", system="Be brief.")
    assert contents(sessions) == [["one", "Hello there", "two", "Hello there"]]
    talk = FakeTalk()
    again = chat(opened(sessions, None, continues=True), "three", talk=talk)
    assert talk.prompts == [
        [("system", "Be brief."), ("user", "one"), ("assistant", "Hello there"), ("user", "two"),
         ("assistant", "Hello there"), ("user", "three")]
    ]  # fmt: skip
    assert again.talk.params.temperature == 0.5
    assert contents(sessions) == [["one", "Hello there", "two", "Hello there", "three", "Hello there"]]


def test_what_the_command_line_gives_wins_over_what_was_kept(sessions: Sessions) -> None:
    kept = msgspec.structs.replace(HELLO, system="Old.", parameters=SamplingParams(temperature=0.5, seed=1))
    sessions.save("work", kept)
    talk = FakeTalk()
    talk.params = SamplingParams(temperature=0.1)
    found = chat(opened(sessions, "work", continues=False), talk=talk, system="New.")
    assert (found.system, found.talk.params) == ("New.", SamplingParams(temperature=0.1, seed=1))


def test_a_named_session_begins_with_its_first_message(sessions: Sessions) -> None:
    chat(opened(sessions, "work notes", continues=False))
    assert sessions.listed() == []
    chat(opened(sessions, "work notes", continues=False), "one")
    chat(opened(sessions, "work notes", continues=False), "two", "/clear", "three")
    assert [each.name for each in sessions.listed()] == ["work notes"]
    assert contents(sessions) == [["three", "Hello there"]], "it has this name whatever it contains"


def test_after_clear_another_unnamed_chat_begins_and_what_is_taken_back_is_gone(sessions: Sessions) -> None:
    chat(opened(sessions, None, continues=False), "one", "/clear", "two")
    assert sorted(contents(sessions)) == [["one", "Hello there"], ["two", "Hello there"]]
    chat(opened(sessions, None, continues=False), "secret", "/undo")
    assert all("secret" not in texts for texts in contents(sessions))


def test_a_model_without_a_template_continues_nothing_and_is_not_kept(sessions: Sessions) -> None:
    chat(opened(sessions, None, continues=False), "one", talk=FakeTalk(raw=True))
    assert sessions.listed() == []
    sessions.save("work", HELLO)
    with pytest.raises(Exception, match="cannot continue a chat"):
        chat(opened(sessions, "work", continues=False), talk=FakeTalk(raw=True))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such bits")
def test_only_its_owner_may_read_a_chat(sessions: Sessions, tmp_path: Path) -> None:
    sessions.save("work", HELLO)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "sessions", tmp_path / "sessions" / "work.json")]
    assert modes == [0o700, 0o600]


def test_the_oldest_unnamed_chats_are_removed(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MAX_UNNAMED", 3)
    names = ["named", *(f"chat-2026-01-0{day}-120000" for day in range(1, 6))]
    for at, name in enumerate(names):
        sessions.save(name, HELLO)
        os.utime(sessions.path(name), (at, at))
    assert [each.name for each in sessions.listed()] == [*reversed(names[3:]), "named"]


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, " a", "a\n", "a\\b"])
def test_a_name_stays_in_the_folder(name: str, sessions: Sessions) -> None:
    with pytest.raises(InvalidParameter, match="cannot be a session's name"):
        sessions.path(name)


def test_a_folder_that_cannot_be_written_does_not_end_the_chat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    found = chat(opened(Sessions(tmp_path / "file"), None, continues=False), "one", "two")
    assert len(found.turns) == 4
    assert capsys.readouterr().err.count("the chat is not kept") == 1


def test_without_any_chat_there_is_none_to_continue(sessions: Sessions) -> None:
    with pytest.raises(InvalidParameter, match="there is no chat to continue"):
        opened(sessions, None, continues=True)


def manage(home: Path, action: str, *names: str, output: Path | None = None, every: bool = False) -> int:
    settings = Settings(home=home)
    return manage_sessions(settings, action, [*names], output=output, every=every, as_json=False)  # type: ignore[arg-type]


def test_they_are_listed_shown_exported_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sessions = Sessions(Settings(home=tmp_path).data_dir)
    sessions.save("work", HELLO)
    sessions.path("bad").write_text("{")
    assert manage(tmp_path, "list") == 0
    listed = capsys.readouterr().out
    assert "tiny" in listed
    assert "damaged" in listed
    assert manage(tmp_path, "show", "work") == 0
    assert capsys.readouterr().out == "# work\n\ntiny\n\n## You\n\nHello\n\n## Model\n\nHi\n"
    exported = tmp_path / "work.json"
    assert manage(tmp_path, "export", "work", output=exported) == 0
    assert msgspec.json.decode(exported.read_bytes(), type=SavedChat) == HELLO
    with pytest.raises(InvalidParameter, match="exists"):
        manage(tmp_path, "export", "work", output=exported)
    assert manage(tmp_path, "rm", "nothing", "work") == 3
    assert [each.name for each in sessions.listed()] == ["bad"]
    with pytest.raises(InvalidParameter, match="name the sessions to remove"):
        manage(tmp_path, "rm")
    assert manage(tmp_path, "rm", every=True) == 0
    assert sessions.listed() == []
