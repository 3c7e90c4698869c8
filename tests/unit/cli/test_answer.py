"""What a model writes reaches a file as it is, and a terminal without what a terminal would obey."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Generator

import pytest

from localllm.cli.chat.answer import PrintedAnswer
from localllm.cli.chat.answer_views import AnswerStyle, DrawnView
from localllm.cli.chat.interrupts import undivided
from localllm.cli.chat.thinking import Thoughts
from localllm.cli.render.live import Size
from localllm.cli.render.progress import Waiting
from localllm.errors import WorkerCrashed
from localllm.types import CallDelta, Delta, ToolCall

HOSTILE = "a\x1b[2Jb\x07\x9b31m\tc\n"
THOUGHTFUL = (
    Delta(thought="I **wonder", num_tokens=3),
    Delta(thought="**.", num_tokens=2),
    Delta("The `answer"),
    Delta("`."),
)


def _deltas(*pieces: str | Delta | BaseException) -> Generator[Delta]:
    for piece in pieces:
        if isinstance(piece, BaseException):
            raise piece
        yield Delta(piece) if isinstance(piece, str) else piece


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes stdout a terminal of that kind."""

    def become(term: str) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setattr("localllm.system.terminals.obeys_sequences", lambda _: term != "dumb")
        monkeypatch.setattr("sys.stdout.fileno", lambda: 1)
        monkeypatch.delenv("NO_COLOR", raising=False)

    return become


@pytest.mark.parametrize(("on_terminal", "shown"), [(False, HOSTILE), (True, "a�[2Jb��31m\tc\n")])
def test_escape_sequences_reach_a_pipe_but_not_a_terminal(
    on_terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: on_terminal)
    printed = PrintedAnswer(AnswerStyle(markdown=False))
    printed.print(delta for delta in [Delta(HOSTILE)])
    assert capsys.readouterr().out == shown
    assert printed.text == HOSTILE, "the conversation keeps what the model said"


def test_escape_sequences_are_shown_and_not_obeyed_where_markdown_is_drawn(
    terminal: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal("xterm")
    PrintedAnswer().print(_deltas(HOSTILE, "&#27;]0;title&#7; \x1b", "]0;title\x07"))
    out = capsys.readouterr().out
    assert "a�[2Jb��31m" in out
    assert not set(re.sub(r"\x1b\[[0-9;]*m", "", out)) & {"\x1b", "\x07", "\x9b"}


def test_a_pipe_gets_the_text_as_it_was_generated_and_thoughts_between_tags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    PrintedAnswer().print(_deltas("<thi", "nk>\n**Hel", "lo**"))
    assert capsys.readouterr().out == "<think>\n**Hello**\n"
    PrintedAnswer().print(_deltas(*THOUGHTFUL))
    assert capsys.readouterr().out == "<think>\nI **wonder**.\n</think>\n\nThe `answer`.\n"
    PrintedAnswer().print(_deltas(Delta(thought="Cut\n")))
    assert capsys.readouterr().out == "<think>\nCut\n</think>\n\n"


@pytest.mark.parametrize("thoughts", ["hide", "off"])
def test_a_pipe_gets_no_thoughts_if_they_are_not_wanted(thoughts: Thoughts, capsys: pytest.CaptureFixture[str]) -> None:
    printed = PrintedAnswer(AnswerStyle(thoughts=thoughts))
    printed.print(_deltas(*THOUGHTFUL))
    assert capsys.readouterr().out == "The `answer`.\n"
    assert (printed.thoughts, printed.text) == ("I **wonder**.", "The `answer`.")
    assert printed.thinking_s > 0


def test_a_plain_terminal_gets_a_note_where_a_thought_is_hidden(
    terminal: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal("dumb")
    PrintedAnswer(AnswerStyle(thoughts="hide", unfolds=True)).print(_deltas(*THOUGHTFUL))
    out = capsys.readouterr().out
    assert re.fullmatch(r"\[thought for 0\.\d s \(5 tokens; /thoughts shows it\)\]\n\nThe `answer`\.\n", out)


def test_calls_are_kept_whole_and_are_no_part_of_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printed = PrintedAnswer()
    first = Delta(calls=(CallDelta(0, '{"city": ', "weather", "call_1"),), notes=("odd",))
    second = Delta(calls=(CallDelta(0, '"Ulm"}'), CallDelta(1, "{}", "ping", "call_2")), notes=("odd",))
    printed.print(_deltas(first, second))
    assert printed.calls == (ToolCall("weather", '{"city": "Ulm"}', "call_1"), ToolCall("ping", "{}", "call_2"))
    assert (printed.text, printed.notes, capsys.readouterr().out) == ("", ("odd",), "")


@pytest.mark.parametrize("reason", ["NO_COLOR", "TERM=dumb", "--plain", "no template"])
def test_a_plain_terminal_gets_the_text_as_it_is(
    reason: str, terminal: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal("dumb" if reason == "TERM=dumb" else "xterm")
    if reason == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    printed = PrintedAnswer(AnswerStyle(markdown=reason != "--plain"), plain_text=reason == "no template")
    printed.print(_deltas("# Title\n**bold**"))
    assert capsys.readouterr().out == "# Title\n**bold**\n"


def test_a_terminal_gets_markdown_and_dimmed_thoughts(
    terminal: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal("xterm")
    PrintedAnswer().print(_deltas(*THOUGHTFUL))
    out = capsys.readouterr().out
    assert "\x1b[2;1mwonder\x1b[0m" in out
    assert "thought for 0." in out
    assert out.endswith("The \x1b[36manswer\x1b[0m.\r\n")


@pytest.mark.parametrize(("thoughts", "noted"), [("hide", True), ("off", False)])
def test_hidden_thoughts_leave_a_note_or_nothing_once_they_are_over(thoughts: Thoughts, noted: bool) -> None:
    written: list[str] = []
    drawn = DrawnView(AnswerStyle(thoughts=thoughts, unfolds=True), written.append, lambda: Size(60, 20))
    drawn.show(Delta(thought="I wonder", num_tokens=2))
    assert "thinking: 0 s, 2 tokens" in "".join(written)
    drawn.show(Delta(thought=".", num_tokens=1))
    drawn.show(Delta("Yes", num_tokens=2))
    drawn.end()
    out = "".join(written)
    assert "wonder" not in out
    assert ("thought for 0." in out) is noted
    assert ("(3 tokens; /thoughts shows it)" in out) is noted
    assert out.endswith("Yes\r\n")


def test_a_long_call_shows_that_it_is_being_made() -> None:
    written: list[str] = []
    drawn = DrawnView(AnswerStyle(), written.append, lambda: Size(60, 20))
    drawn.show(Delta(calls=(CallDelta(0, '{"text": "' + "a" * 100, "wri\x1bte", "call_1"),)))
    out = "".join(written)
    assert "calling wri\N{REPLACEMENT CHARACTER}te 110 characters" in out
    written.clear()
    drawn.end()
    assert "calling" not in "".join(written)


def test_what_came_before_an_interrupt_is_shown_and_its_line_ended(
    terminal: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal("xterm")
    for end in (KeyboardInterrupt(), WorkerCrashed("it died")):
        printed = PrintedAnswer()
        with pytest.raises(type(end)):
            printed.print(_deltas("Hel", "lo **wor", end))
        assert capsys.readouterr().out.endswith("lo **wor\r\n")
        assert printed.text == "Hello **wor"


def test_ctrl_c_waits_until_a_sequence_is_written() -> None:
    done = []

    def write() -> None:
        with undivided():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["all of it"]


def test_a_long_wait_shows_that_it_is_one_and_leaves_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting(visible=True, patience_s=0.0) as waiting:
        while not capsys.readouterr().out.endswith(" 0 s\x1b[0m"):
            pass
        waiting.end()
        assert capsys.readouterr().out.endswith("\r\x1b[K")
