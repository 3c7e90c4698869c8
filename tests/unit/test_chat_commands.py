"""The interactive chat without terminal, server and model: lines in, requests out."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from localllm.cli.answer import Talk
from localllm.cli.chat import Conversation, read_message
from localllm.client.api import ServerGone
from localllm.errors import ContextLengthExceeded, LocalLLMError, WorkerCrashed
from localllm.types import Delta, Message, SamplingParams


class FakeTalk(Talk):
    """Answers every request with `reply`."""

    def __init__(self, *, raw: bool = False) -> None:
        self.raw = raw
        self.model_id = "tiny"
        self.params = SamplingParams()
        self.reply: list[str | BaseException] = ["Hello", " there"]
        self.prompts: list[object] = []

    def ask(self, prompt: str, system: str | None) -> Generator[Delta]:
        self.prompts.append((prompt, system))
        return self._play()

    def answer(self, messages: list[Message]) -> Generator[Delta]:
        self.prompts.append([(message.role, message.content) for message in messages])
        return self._play()

    def _play(self) -> Generator[Delta]:
        for piece in self.reply:
            if isinstance(piece, BaseException):
                raise piece
            yield Delta(piece)


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
    return Conversation(talk, system).run(_lines(*lines))


def test_each_request_holds_the_conversation_so_far(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    assert _chat(talk, "Hi", "", "More", system="Be brief.") == 0
    first = [("system", "Be brief."), ("user", "Hi")]
    assert talk.prompts == [first, [*first, ("assistant", "Hello there"), ("user", "More")]]
    assert capsys.readouterr().out == "Hello there\nHello there\n"


def test_clear_and_system_begin_a_new_conversation() -> None:
    talk = FakeTalk()
    _chat(talk, "Hi", "/clear", "Again", "/system Be rude.", "Once more", "/system", "Last")
    assert talk.prompts[1:] == [
        [("user", "Again")],
        [("system", "Be rude."), ("user", "Once more")],
        [("user", "Last")],
    ]


def test_ctrl_c_keeps_what_had_come(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    talk.reply = ["Hel", KeyboardInterrupt()]
    assert _chat(talk, "Hi", KeyboardInterrupt, "More") == 0
    assert talk.prompts[1] == [("user", "Hi"), ("assistant", "Hel"), ("user", "More")]
    assert "[stopped]" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ContextLengthExceeded("too long"), WorkerCrashed("it died, and a new one starts")])
def test_a_message_that_fails_is_forgotten_and_the_chat_goes_on(
    capsys: pytest.CaptureFixture[str], error: LocalLLMError
) -> None:
    talk = FakeTalk()
    talk.reply = [error]
    assert _chat(talk, "Hi", "More") == 0
    assert talk.prompts == [[("user", "Hi")], [("user", "More")]]
    assert error.message in capsys.readouterr().err


def test_a_server_that_is_gone_ends_the_chat() -> None:
    talk = FakeTalk()
    talk.reply = [ServerGone("it does not answer")]
    assert _chat(talk, "Hi", "More") == 1
    assert len(talk.prompts) == 1


def test_commands_are_not_sent_and_unknown_ones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    talk = FakeTalk()
    assert _chat(talk, "/help", "/nonsense", "/bye", "never") == 0
    assert talk.prompts == []
    assert "/nonsense" in capsys.readouterr().err
    assert _chat(talk, "/usr/bin is a folder") == 0
    assert len(talk.prompts) == 1


def test_without_a_template_each_line_is_continued_alone() -> None:
    talk = FakeTalk(raw=True)
    _chat(talk, "Once", "/system x", "Then")
    assert talk.prompts == [("Once", None), ("Then", None)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("plain",), "plain"),
        (('"""one line"""',), "one line"),
        (('"""', "first", "second", '"""'), "first\nsecond"),
        (('"""first', '  second"""'), "first\n  second"),
        (('say """this"""',), 'say """this"""'),
    ],
)
def test_triple_quotes_hold_a_message_of_several_lines(lines: tuple[str, ...], message: str) -> None:
    assert read_message(_lines(*lines)) == message
