"""The interactive chat without terminal, server and model: lines in, requests out."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
import pytest

from localllm.cli.chat import parameters
from localllm.cli.chat.answer import AnswerStyle, Talk
from localllm.cli.chat.attachments import Attachments
from localllm.cli.chat.loop import Chat
from localllm.cli.chat.questions import LineDropped, read_message
from localllm.cli.chat.slash_commands import COMMANDS
from localllm.client.api import ServerGone
from localllm.errors import ContextLengthExceeded, InvalidParameter, LoadFailed, LocalLLMError, WorkerCrashed
from localllm.types import (
    Delta,
    Finish,
    FinishReason,
    Message,
    SamplingParams,
    Timings,
    Usage,
)


class FakeTalk(Talk):
    """Answers every request with `reply`."""

    def __init__(self, *, raw: bool = False, model_id: str = "tiny") -> None:
        self.raw = raw
        self.model_id = model_id
        self.params = SamplingParams()
        self.attachments = Attachments()
        self.reply: list[str | BaseException | Finish | Delta] = ["Hello", " there"]
        self.later: list[list[str | BaseException | Finish | Delta]] = []
        """The replies after the first."""
        self.asked: list[list[Message]] = []
        self.prompts: list[object] = []
        self.asked_with: list[SamplingParams] = []

    def ask(self, prompt: str, system: str | None, attached: object = ()) -> Generator[Delta]:  # noqa: ARG002
        self.prompts.append((prompt, system))
        return self._play()

    def answer(self, messages: list[Message], *, may_call: bool = True) -> Generator[Delta]:  # noqa: ARG002
        self.prompts.append([(message.role, message.content) for message in messages])
        self.asked_with.append(self.params)
        self.asked.append(messages)
        return self._play()

    def model_names(self) -> list[str]:
        return ["tiny", "other"]

    def _play(self) -> Generator[Delta]:
        reply, self.reply = self.reply, self.later.pop(0) if self.later else self.reply
        for piece in reply:
            if isinstance(piece, BaseException):
                raise piece
            yield (
                piece
                if isinstance(piece, Delta)
                else Delta(finish=piece)
                if isinstance(piece, Finish)
                else Delta(piece)
            )


def _finish(reason: FinishReason = "stop", prompt: int = 20, completion: int = 11) -> Finish:
    return Finish(reason, Usage(prompt, completion, 5), Timings(0.0, 0.5, 0.5))


def _lines(*lines: str | type[BaseException]) -> Callable[[str], str]:
    """A person who types `lines` and then Ctrl-D."""
    coming = iter(lines)

    def read_line(_: str) -> str:
        line = next(coming, EOFError)
        if not isinstance(line, str):
            raise line
        return line

    return read_line


def _chat(talk: FakeTalk, *lines: str | type[BaseException], system: str | None = None) -> int:
    return Chat(talk, system).run(_lines(*lines))


def test_each_request_holds_the_conversation_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    assert _chat(talk, "Hi", "", "More", system="Be brief.") == 0
    first = [("system", "Be brief."), ("user", "Hi")]
    assert talk.prompts == [first, [*first, ("assistant", "Hello there"), ("user", "More")]]
    assert capsys.readouterr().out == "Hello there\nHello there\n"


def test_clear_begins_a_new_conversation_and_undo_brings_the_old_one_back() -> None:
    talk = FakeTalk()
    _chat(talk, "Hi", "/clear", "Again", "/clear", "/undo", "More")
    again = [("user", "Again"), ("assistant", "Hello there")]
    assert talk.prompts[1:] == [[("user", "Again")], [*again, ("user", "More")]]


def test_system_is_shown_set_and_removed_and_the_conversation_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    _chat(talk, "Hi", "/system Be rude.", "Once more", "/system", '/system ""', "/system", "Last")
    hi = [("user", "Hi"), ("assistant", "Hello there")]
    assert talk.prompts[1] == [("system", "Be rude."), *hi, ("user", "Once more")]
    assert talk.prompts[2][:2] == hi  # type: ignore[index]
    said = capsys.readouterr().err
    assert "the conversation continues" in said
    assert "\nBe rude.\n" in said
    assert "no system message" in said


def test_a_system_message_may_have_several_lines() -> None:
    talk = FakeTalk()
    _chat(talk, "/system Be rude.\nBe brief.", "Hi", '/set system "Be kind."', "Hi")
    assert [prompt[0] for prompt in talk.prompts] == [  # type: ignore[index]
        ("system", "Be rude.\nBe brief."),
        ("system", "Be kind."),
    ]


def test_thoughts_go_back_apart_from_the_text_and_are_saved(tmp_path: Path) -> None:
    """Whether the model sees them again is up to its template."""
    talk = FakeTalk()
    talk.reply = [Delta(thought="H"), Delta(thought="m."), "Hello"]
    _chat(talk, "Hi", "More", f"/save {tmp_path / 'chat'}")
    assert talk.asked[1] == [
        Message("user", "Hi"),
        Message("assistant", "Hello", thought="Hm."),
        Message("user", "More"),
    ]
    saved = json.loads((tmp_path / "chat.json").read_bytes())
    assert saved["messages"][1] == {"role": "assistant", "content": "Hello", "thinking": "Hm."}


def test_ctrl_c_keeps_what_had_come(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    talk = FakeTalk()
    talk.reply = ["Hel", KeyboardInterrupt()]
    assert _chat(talk, "Hi", KeyboardInterrupt, "More", f"/save {tmp_path / 'a.json'}") == 0
    assert talk.prompts[1] == [("user", "Hi"), ("assistant", "Hel"), ("user", "More")]
    assert "[stopped]" in capsys.readouterr().err
    assert json.loads((tmp_path / "a.json").read_bytes())["messages"][1]["interrupted"] is True


def test_ctrl_c_before_the_first_word_leaves_the_message_to_regen() -> None:
    talk = FakeTalk()
    talk.reply = [KeyboardInterrupt()]
    conversation = Chat(talk, None)
    conversation.take("Hi")
    assert conversation.turns == []
    talk.reply = ["Hello"]
    conversation.take("/regen")
    assert talk.prompts == [[("user", "Hi")], [("user", "Hi")]]
    assert [turn.content for turn in conversation.turns] == ["Hi", "Hello"]


def test_ctrl_c_at_an_empty_prompt_says_how_to_leave(capsys: pytest.CaptureFixture[str]) -> None:
    _chat(FakeTalk(), LineDropped)
    assert "Ctrl-D" not in capsys.readouterr().err
    _chat(FakeTalk(), KeyboardInterrupt)
    assert "Ctrl-D" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ContextLengthExceeded("too long"), WorkerCrashed("it died, and a new one starts")])
def test_a_message_that_fails_is_forgotten_and_the_chat_goes_on(
    capsys: pytest.CaptureFixture[str], error: LocalLLMError
) -> None:
    talk = FakeTalk()
    talk.reply = [error]
    assert _chat(talk, "Hi", "More") == 0
    assert talk.prompts == [[("user", "Hi")], [("user", "More")]]
    assert error.message in capsys.readouterr().err


def test_what_came_before_an_error_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    talk.reply = ["Hel", WorkerCrashed("it died")]
    _chat(talk, "Hi", "More")
    assert talk.prompts[1] == [("user", "Hi"), ("assistant", "Hel"), ("user", "More")]
    assert capsys.readouterr().out == "Hel\nHel\n"


def test_a_full_context_loses_nothing_and_says_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    talk.ctx = 2048
    conversation = Chat(talk, None)
    conversation.run(_lines("One", "Two"))
    talk.reply = [ContextLengthExceeded("the prompt has 2100 tokens")]
    conversation.run(_lines("Three"))
    said = capsys.readouterr().err
    assert all(word in said for word in ("2100", "2048", "/undo", "/clear", "/save", "/regen"))
    talk.reply = ["Yes"]
    conversation.run(_lines("/undo", "/regen"))
    assert talk.prompts[-1] == [("user", "One"), ("assistant", "Hello there"), ("user", "Three")]


def test_a_server_that_is_gone_leaves_the_conversation_to_be_saved(tmp_path: Path) -> None:
    talk = FakeTalk()
    conversation = Chat(talk, None)
    conversation.take("Hi")
    talk.reply = [ServerGone("it does not answer")]
    file = tmp_path / "kept.json"
    assert conversation.run(_lines("More", f"/save {file}")) == 1, "the exit code says how it ended"
    assert [turn["content"] for turn in json.loads(file.read_bytes())["messages"]] == ["Hi", "Hello there"]
    talk.reply = ["Back"]
    assert conversation.run(_lines("/regen")) == 0
    assert conversation.turns[-1].content == "Back"


def test_commands_are_not_sent_and_unknown_ones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    assert _chat(talk, "/help", "/nonsense", "/bye", "never") == 0
    assert talk.prompts == []
    assert "/nonsense" in capsys.readouterr().err
    assert _chat(talk, "/usr/bin is a folder", " /help", "/nonsense\nof two lines", "/") == 0
    assert len(talk.prompts) == 4


@pytest.mark.parametrize(("typed", "meant"), [("/hlep", "/help"), ("/regenerate", "/regen"), ("/quti", "/quit")])
def test_a_mistyped_command_brings_the_one_that_was_meant(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _chat(FakeTalk(), typed)
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_help_explains_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    _chat(FakeTalk(), "/help", *(f"/help {name}" for name in COMMANDS), "/help set", "/help nothing")
    said = capsys.readouterr().err
    for name, command in COMMANDS.items():
        assert f"\n{name}" in f"\n{said}"
        assert all(len(line) <= 110 for line in f"{command.summary}\n{command.details}".splitlines())
    assert "/set temperature default" in said
    assert "/save! overwrites" in said
    assert "unknown command nothing" in said


def test_without_a_template_each_line_is_continued_alone() -> None:
    talk = FakeTalk(raw=True)
    _chat(talk, "Once", "/system x", "Then", "/regen")
    assert talk.prompts == [("Once", None), ("Then", None), ("Then", None)]


def test_undo_takes_back_the_last_exchange() -> None:
    talk = FakeTalk()
    _chat(talk, "One", "Two", "/undo", "Three", "/undo", "/undo", "/undo", "Four")
    one = [("user", "One"), ("assistant", "Hello there")]
    assert talk.prompts[2:] == [[*one, ("user", "Three")], [("user", "Four")]]


def test_regen_asks_the_same_again_and_replaces_the_answer() -> None:
    talk = FakeTalk()
    conversation = Chat(talk, None)
    conversation.run(_lines("One", "/regen"))
    assert talk.prompts == [[("user", "One")]] * 2
    assert len(conversation.turns) == 2
    talk.reply = [WorkerCrashed("it died")]
    conversation.run(_lines("/regen"))
    assert [turn.content for turn in conversation.turns] == ["One", "Hello there"], "the old answer is better than none"


def test_regen_says_when_the_answer_cannot_be_another(capsys: pytest.CaptureFixture[str]) -> None:
    _chat(FakeTalk(), "/regen", "One", "/regen", "/set seed 3", "/regen")
    said = capsys.readouterr().err
    assert "no message to answer again" in said
    assert said.count("likely be the same") == 1
    assert "seed is 3" in said


def test_set_changes_how_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    commands = ["/set temperature 0.5", "/set top_k=7", '/set stop "END" "\\n"', '/set logit_bias {"15": -2}', "Hi"]
    _chat(talk, *commands, "/set temperature", "/set temperature default", "Hi")
    first, second = talk.asked_with
    assert first == SamplingParams(temperature=0.5, top_k=7, stop=("END", "\\n"), logit_bias={15: -2.0})
    assert second.temperature is None
    assert "temperature is 0.5; it takes a number from 0 to 100, or default" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in parameters.parameter_names() if name not in parameters.SWITCHES])
def test_every_parameter_can_be_set_to_what_it_says_it_takes(name: str) -> None:
    typed = {"stop_token_ids": "3 4", "logit_bias": '{"3": 1}', "ignore_eos": "true", "stop": '["\\n"]'}.get(name, "1")
    typed = '"a" b' if name == "dry_sequence_breakers" else typed
    params = parameters.with_parameter(SamplingParams(max_tokens=5), name, typed)
    shown = parameters.shown(params, name)
    assert shown != "default"
    assert parameters.with_parameter(SamplingParams(max_tokens=5), name, shown) == params, "what is shown can be typed"
    assert parameters.with_parameter(params, name, "default") == parameters.with_parameter(
        SamplingParams(max_tokens=5), name, "default"
    )


@pytest.mark.parametrize("seed", ["9223372036854775807", "-9223372036854775808", "-1"])
def test_a_seed_of_64_bits_is_shown_as_it_was_typed(seed: str) -> None:
    assert parameters.shown(parameters.with_parameter(SamplingParams(), "seed", seed), "seed") == seed
    with pytest.raises(InvalidParameter, match="seed"):
        parameters.with_parameter(SamplingParams(), "seed", "9223372036854775808")
    assert "64-bit" in parameters.kind("seed")


def test_a_random_seed_promises_another_answer(capsys: pytest.CaptureFixture[str]) -> None:
    _chat(FakeTalk(), "One", "/set seed -1", "/regen")
    assert "the answer will likely be the same" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("/set temperatur 1", "did you mean temperature?"),
        ("/set temperature hot", "temperature takes a number from 0 to 100, not 'hot'"),
        ("/set temperature -1", "temperature must be from 0"),
        ("/set top_k 1.5", "top_k takes an integer"),
        ("/set think maybe", "think takes on, off, hide, a number"),
        ("/set logit_bias {", "logit_bias takes JSON"),
        ('/set stop "open', "stop takes strings"),
    ],
)
def test_what_cannot_be_set_says_why_and_changes_nothing(
    typed: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = FakeTalk()
    assert _chat(talk, typed, "Hi") == 0
    assert reason in capsys.readouterr().err
    assert talk.asked_with == [SamplingParams()]


def test_set_alone_lists_everything(capsys: pytest.CaptureFixture[str]) -> None:
    _chat(FakeTalk(), "/set seed 12", "/set")
    said = capsys.readouterr().err
    listed = {line.split()[0]: line.split()[1] for line in said.splitlines()[1:]}
    assert set(parameters.parameter_names()) <= set(listed)
    assert (listed["seed"], listed["top_p"], listed["think"]) == ("12", "default", "default")


def test_set_changes_how_answers_look() -> None:
    conversation = Chat(FakeTalk(), None)
    conversation.run(_lines("/set think hide", "/set markdown off", "/set stats on"))
    assert conversation.look == AnswerStyle(markdown=False, thoughts="hide", unfolds=True)
    assert conversation.stats


def test_stats_on_tells_what_each_answer_cost(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    talk.ctx = 100
    talk.reply = ["Hello", _finish()]
    _chat(talk, "/stats", "/set stats on", "Hi", "/stats")
    said = capsys.readouterr().err
    assert "no answer yet" in said
    assert "[stop] 11 tokens, 20.0 tokens/s; first after 0." in said
    assert "prompt 20 (5 cached); context 31 of 100" in said
    assert "context  31 of 100 tokens (31%)" in said


def test_stats_tell_what_came_of_guesses(capsys: pytest.CaptureFixture[str]) -> None:
    talk, finish = FakeTalk(), _finish()
    usage = msgspec.structs.replace(finish.usage, accepted_guesses=6, rejected_guesses=2)
    talk.reply = ["Hello", msgspec.structs.replace(finish, usage=usage)]
    _chat(talk, "/set stats on", "Hi", "Hi", "/stats")
    said = capsys.readouterr().err
    assert "; guessed 6 of 8; " in said
    assert "guesses  12 of 16 guessed tokens accepted" in said


@pytest.mark.parametrize(
    ("finish", "max_tokens", "reason"),
    [
        (_finish("length"), 11, "max_tokens, 11; /set max_tokens default"),
        (_finish("length"), None, "max_tokens, 11; a setting of the model"),
        (msgspec.structs.replace(_finish("length"), is_context_full=True), 99, "full; /undo or /clear"),
        (_finish("timeout"), None, "time"),
    ],
)
def test_a_cut_answer_says_why(
    finish: Finish, max_tokens: int | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = FakeTalk()
    talk.params = SamplingParams(max_tokens=max_tokens)
    talk.reply = ["Hello", finish]
    _chat(talk, "Hi")
    assert reason in capsys.readouterr().err


def test_model_lists_and_switches_and_the_conversation_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    talk, other = FakeTalk(), FakeTalk(model_id="other")

    def switch(name: str) -> Talk:
        if name != "other":
            raise LoadFailed(f"{name} cannot be loaded")
        return other

    lines = _lines("Hi", "/set seed 3", "/model", "/model nothing", "/model other", "More")
    assert Chat(talk, None, switch=switch).run(lines) == 0
    assert other.prompts == [[("user", "Hi"), ("assistant", "Hello there"), ("user", "More")]]
    assert other.asked_with[0].seed == 3
    said = capsys.readouterr().err
    assert "* tiny\n  other\n" in said
    assert "nothing cannot be loaded" in said


def test_a_chat_that_cannot_switch_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert _chat(FakeTalk(), "/model other") == 0
    assert "localllm run" in capsys.readouterr().err


def test_a_saved_chat_goes_on_where_it_was(tmp_path: Path) -> None:
    talk = FakeTalk()
    file = tmp_path / "my chat.json"
    _chat(talk, "/set temperature 0.5", "/system Be brief.", "Hi ✓", f'/save "{file}"')
    assert "Hi ✓" in file.read_text("utf-8")
    again = FakeTalk()
    _chat(again, f"/load {file}", "More")
    assert again.prompts == [
        [("system", "Be brief."), ("user", "Hi ✓"), ("assistant", "Hello there"), ("user", "More")]
    ]
    assert again.asked_with[0].temperature == 0.5


def test_save_replaces_its_own_file_and_another_only_when_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chat.json"
    file.write_text("mine")
    talk = FakeTalk()
    conversation = Chat(talk, None)
    conversation.run(_lines("/save x", "Hi", f"/save {file}"))
    said = capsys.readouterr().err
    assert "nothing to save" in said
    assert "/save! replaces it" in said
    assert file.read_text() == "mine"
    conversation.run(_lines(f"/save! {file}", "More", "/save"))
    assert len(json.loads(file.read_bytes())["messages"]) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat.json"]


def test_save_without_a_name_makes_a_new_file_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _chat(FakeTalk(), "Hi", "/save")
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("chat-")
    assert file.suffix == ".json"


def test_load_drops_an_unsaved_conversation_only_when_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.json"
    conversation = Chat(FakeTalk(), None)
    conversation.run(_lines("Old", f"/save {file}", "/clear", "New", f"/load {file}"))
    assert "2 messages would be lost" in capsys.readouterr().err
    assert conversation.turns[0].content == "New"
    conversation.run(_lines(f"/load! {file}"))
    assert conversation.turns[0].content == "Old"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        (b"\xff", "not a saved chat"),
        (b"[]", "not a saved chat"),
        (b'{"localllm_chat": 99}', "version 99"),
        (b'{"messages": []}', "localllm_chat"),
        (b'{"localllm_chat": 1, "messages": [{"role": "user"}]}', "content"),
        (b'{"localllm_chat": 1, "parameters": {"temperature": -1}}', "temperature"),
    ],
)
def test_a_file_that_is_no_chat_says_why_and_changes_nothing(
    content: bytes | None, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chat.json"
    if content is not None:
        file.write_bytes(content)
    conversation = Chat(FakeTalk(), "Be brief.")
    conversation.run(_lines("Hi", f"/load! {file}"))
    said = capsys.readouterr().err
    assert reason in said
    assert str(file) in said
    assert (len(conversation.turns), conversation.system) == (2, "Be brief.")


def test_a_folder_that_cannot_be_written_is_an_error_and_the_chat_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _chat(FakeTalk(), "Hi", f"/save {tmp_path / 'missing' / 'chat.json'}", "More") == 0
    assert "cannot be written" in capsys.readouterr().err


def test_a_number_out_of_range_is_named_by_the_parameter() -> None:
    with pytest.raises(InvalidParameter, match="top_p must be from"):
        parameters.with_parameter(SamplingParams(), "top_p", "2")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("plain",), "plain"),
        (('"""one line"""',), "one line"),
        (('"""', "first", "second", '"""'), "first\nsecond"),
        (('"""first', '  second"""'), "first\n  second"),
        (('"""\nfirst\nsecond\n"""',), "first\nsecond"),
        (('say """this"""',), 'say """this"""'),
    ],
)
def test_triple_quotes_hold_a_message_of_several_lines(lines: tuple[str, ...], message: str) -> None:
    assert read_message(_lines(*lines)) == message
