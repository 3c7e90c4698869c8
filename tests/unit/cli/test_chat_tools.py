"""Tools and thoughts in the chat, without terminal and model: calls are shown, results typed, all of it kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localllm.cli.chat.conversation import UNANSWERED
from localllm.cli.chat.kept import saved
from localllm.cli.chat.loop import Chat
from localllm.cli.chat.questions import LineDropped
from localllm.errors import WorkerCrashed
from localllm.types import CallDelta, Delta, Message, ToolCall
from tests.unit.cli.test_chat_commands import FakeTalk, _finish, _lines

ULM = ToolCall("weather", '{"city": "Ulm"}', "call_1")
PING = ToolCall("ping", "{}", "call_2")
FILE = [{"type": "function", "function": {"name": "weather", "description": "The weather\nof a city"}}]


def called(*calls: ToolCall) -> Delta:
    return Delta(calls=tuple(CallDelta(place, call.arguments, call.name, call.id) for place, call in enumerate(calls)))


def talk_that_calls(*calls: ToolCall) -> FakeTalk:
    talk = FakeTalk()
    talk.reply, talk.later = [Delta(thought="Look."), called(*calls), _finish()], [["It is ", "warm."]]
    return talk


def result(call: ToolCall, content: str) -> Message:
    return Message("tool", content, tool_call_id=call.id, name=call.name)


def test_a_call_is_shown_its_result_typed_and_the_answer_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    talk = talk_that_calls(ULM)
    conversation = Chat(talk, None)
    conversation.run(_lines("Weather?", "19 degrees", "Thanks"))
    asks = [Message("user", "Weather?"), Message("assistant", "", thought="Look.", tool_calls=(ULM,))]
    assert talk.asked[1] == [*asks, result(ULM, "19 degrees")]
    assert talk.asked[2][-2:] == [Message("assistant", "It is warm."), Message("user", "Thanks")]
    said = capsys.readouterr()
    assert 'calls weather(city="Ulm")\n' in said.err
    assert "empty" not in said.err
    assert "It is warm.\n" in said.out


def test_several_calls_are_asked_for_one_after_the_other() -> None:
    talk = talk_that_calls(ULM, PING)
    Chat(talk, None).run(_lines("Weather?", '"""', "two", "lines", '"""', LineDropped, ""))
    assert talk.asked[1][-2:] == [result(ULM, "two\nlines"), result(PING, "null")]


def test_calls_may_follow_each_other() -> None:
    talk = talk_that_calls(ULM)
    talk.later = [[called(PING)], ["Done."]]
    conversation = Chat(talk, None)
    conversation.run(_lines("Weather?", "19", "pong"))
    assert [turn.role for turn in conversation.turns] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_ctrl_c_leaves_calls_unanswered_and_the_conversation_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    talk = talk_that_calls(ULM, PING)
    conversation = Chat(talk, None)
    conversation.run(_lines("Weather?", "19", KeyboardInterrupt, "Never mind"))
    assert len(talk.asked) == 2, "no answer was asked for until the person wrote again"
    assert talk.asked[1][-3:] == [result(ULM, "19"), result(PING, UNANSWERED), Message("user", "Never mind")]
    assert "[no result]" in capsys.readouterr().err


def test_ctrl_d_at_a_result_leaves_the_chat_and_keeps_the_question() -> None:
    conversation = Chat(talk_that_calls(ULM), None)
    assert conversation.run(_lines("Weather?")) == 0
    assert [turn.role for turn in conversation.turns] == ["user", "assistant", "tool"]


def test_regen_asks_the_question_again_and_undo_takes_all_of_an_exchange_back() -> None:
    talk = talk_that_calls(ULM)
    conversation = Chat(talk, None)
    conversation.run(_lines("Weather?", "19", "/regen"))
    assert talk.asked[2] == [Message("user", "Weather?")]
    assert [turn.content for turn in conversation.turns] == ["Weather?", "It is warm."]
    other = talk_that_calls(ULM)
    conversation = Chat(other, None)
    conversation.run(_lines("Weather?", "19", "/undo"))
    assert conversation.turns == []


def test_a_result_that_could_not_be_answered_is_kept_and_sent_again(capsys: pytest.CaptureFixture[str]) -> None:
    talk = talk_that_calls(ULM)
    talk.later = [[WorkerCrashed("it died")], ["It is warm."]]
    conversation = Chat(talk, None)
    conversation.run(_lines("Weather?", "19", "/regen"))
    assert talk.asked[1] == talk.asked[2]
    assert [turn.content for turn in conversation.turns] == ["Weather?", "", "19", "It is warm."]
    assert "The result is kept; /regen sends it again." in capsys.readouterr().err


def test_a_call_that_was_cut_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    talk = talk_that_calls(ToolCall("weather", '{"city": "Ul', "call_1"))
    talk.reply = ["Wait.", *talk.reply[1:-1], _finish("length")]
    conversation = Chat(talk, None)
    conversation.run(_lines("Weather?"))
    assert conversation.turns[1] == saved.Turn("assistant", "Wait.")
    said = capsys.readouterr().err
    assert "[the call to weather is incomplete and is dropped]" in said
    assert "cut at max_tokens" in said


def test_a_saved_chat_keeps_calls_results_thoughts_and_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools, file = tmp_path / "tools.json", tmp_path / "chat.json"
    tools.write_text(json.dumps(FILE))
    talk = talk_that_calls(ULM)
    conversation = Chat(talk, None)
    conversation.run(_lines(f"/tools {tools}", "Weather?", "19", f"/save {file}"))
    again = FakeTalk()
    loaded = Chat(again, None)
    loaded.run(_lines(f"/load {file}", "Thanks", "/thoughts"))
    assert again.asked[0][:-1] == talk.asked[1] + [Message("assistant", "It is warm.")]
    assert again.tools is not None
    assert again.tools.entries == FILE
    assert loaded.turns[:4] == conversation.turns
    assert "Look.\n" in capsys.readouterr().err


def test_tools_are_shown_and_dropped_and_a_wrong_file_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, wrong = tmp_path / "my tools.json", tmp_path / "wrong.json"
    file.write_text(json.dumps(FILE))
    wrong.write_text("[]")
    talk = FakeTalk()
    conversation = Chat(talk, None)
    conversation.run(_lines("/tools", f'/tools "{file}"', f"/tools {wrong}", "/tools"))
    said = capsys.readouterr().err
    assert "no tools" in said
    assert said.count("weather()  The weather\n") == 2
    assert "has no tools" in said
    conversation.run(_lines("/tools off"))
    assert talk.tools is None


def test_thoughts_shows_the_last_ones_those_of_a_stopped_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    talk.reply, talk.later = [Delta(thought="First."), "One"], [[Delta(thought="Second"), KeyboardInterrupt()]]
    conversation = Chat(talk, None)
    conversation.run(_lines("/thoughts", "Hi", "Hi", "/thoughts", "/thoughts 0"))
    said = capsys.readouterr().err
    assert "no thoughts yet" in said
    assert "First." not in said
    assert "Second\n" in said
    assert "takes a number of answers, all, or no argument" in said
    conversation.run(_lines("/thoughts all"))
    assert "First.\n" in capsys.readouterr().err


def test_what_the_server_notes_of_an_answer_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    talk.reply = [Delta(thought="Hm", notes=("the answer ended within its thought",)), _finish()]
    Chat(talk, None).run(_lines("Hi"))
    said = capsys.readouterr().err
    assert "[the answer ended within its thought]" in said
    assert "[the answer is empty]" not in said
