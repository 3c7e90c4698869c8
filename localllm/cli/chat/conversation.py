"""A conversation in the terminal: its messages and settings, and how the model answers. Knows no commands and no HTTP.

When the model calls a tool, the user is asked for the result (or an MCP server gives it) and the answer continues: a
question, its calls, their results and the final answer are one exchange.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from localllm.cli.chat import tools
from localllm.cli.chat.answer import AnswerStyle, PrintedAnswer, Talk, describe, stats_line, why_incomplete
from localllm.cli.chat.attachments import Attachment
from localllm.cli.chat.kept.saved import Turn
from localllm.cli.chat.mcp_tools import McpTools
from localllm.cli.chat.questions import RESULT, LineDropped, ReadLine, read_message
from localllm.cli.chat.stats import Totals
from localllm.cli.shared import report
from localllm.errors import LocalLLMError
from localllm.types import Delta, Message, ToolCall

EMPTY_RESULT = "null"
"""What the model gets when the user enters an empty line as a call's result."""
UNANSWERED = "The user gave no result for this call."
"""What the model gets after Ctrl-C: most templates reject a call that has no result."""

Switch = Callable[[str], Talk]
"""A model's name -> how to talk to it; loads the model if needed. Raises `LocalLLMError`s."""


class Leave(Exception):
    """The user leaves the chat."""


class Thought(NamedTuple):
    """What the model thought before one answer, for /thoughts."""

    text: str
    seconds: float = 0.0
    num_tokens: int = 0


class Conversation:
    """The messages so far and the settings for the next answer."""

    def __init__(
        self,
        talk: Talk,
        system: str | None,
        *,
        verbose: bool = False,
        stats: bool = False,
        markdown: bool = True,
        switch: Switch | None = None,
    ) -> None:
        self.talk = talk
        self.system = system
        self.verbose = verbose
        self.stats = stats
        self.markdown = markdown
        self.switch = switch
        self.turns: list[Turn] = []
        self.cleared: list[Turn] = []
        """The messages that /clear removed, for /undo."""
        self.pending: list[Attachment] = []
        """Pictures and sounds that go with the next message."""
        self.unanswered: Turn | None = None
        """A message that got no answer, for /regen; it is not in `turns`."""
        self.file: Path | None = None
        """The file it was saved to or loaded from."""
        self.is_saved = True
        self.totals = Totals()
        self.thoughts: list[Thought] = []
        """The thinking of all answers, newest last."""
        self.read_line: ReadLine = _end_of_input
        self.exit_code = report.OK

    @property
    def look(self) -> AnswerStyle:
        """How answers are shown."""
        return AnswerStyle(self.markdown, self.talk.think.shown, unfolds=True)

    def attach(self, found: list[Attachment]) -> None:
        """Add to the next message. Raises `UnsupportedParameter`."""
        self.talk.check_reads([each.kind for each in found])
        self.pending += found

    def answer(self, text: str) -> None:
        """Send a message with what is attached, and print the answer. Raises as `ask`."""
        attached, self.pending = self.pending, []
        if attached:
            report.say(" ".join(each.shown for each in attached))
        self.ask(Turn("user", text, attached=tuple(attached)))

    def ask(self, question: Turn) -> None:
        """Send it and print the answer. On an error, keeps what has arrived, or the question in `unanswered`.

        Raises `LocalLLMError`s, `Leave`.
        """
        self.unanswered = question
        if self.talk.raw:
            self._print(self.talk.ask(question.content, None))
            return
        self.resume([question])

    def resume(self, exchange: list[Turn]) -> None:
        """Get the answer to an exchange that ends with a question or with results. Raises as `answer` does."""
        self.is_saved = False
        has_calls, num_rounds = True, 0
        try:
            while has_calls:
                answer = self._print(self._next_answer(self.messages(*exchange), num_rounds))
                num_rounds += 1
                exchange = [*exchange, *([] if answer is None else [answer])]
                has_calls = answer is not None and bool(answer.calls) and self._add_results(answer.calls, exchange)
        except _Broken as broken:
            exchange = [*exchange, *([] if broken.partial is None else [broken.partial])]
            raise broken.error from broken
        finally:
            self._keep(exchange)

    def _next_answer(self, messages: list[Message], num_rounds: int) -> Generator[Delta]:
        """After `max_rounds` of calls to MCP servers, an answer that may not call tools."""
        available = self.talk.tools
        if not isinstance(available, McpTools) or num_rounds < available.max_rounds:
            return self.talk.answer(messages)
        report.say(f"[limit of {available.max_rounds} rounds of calls reached; answering without further calls]")
        return self.talk.answer(messages, may_call=False)

    def _add_results(self, calls: tuple[ToolCall, ...], exchange: list[Turn]) -> bool:
        """Show each call and append its result; False if the user did not give all of them. Raises `Leave`."""
        results: list[str] = []
        leaves = False
        available = self.talk.tools
        try:
            for call in calls:
                if isinstance(available, McpTools):
                    results.append(available.result(call, self.read_line))
                    continue
                report.say(f"calls {tools.shown(call)}")
                results.append(self._typed_result())
        except KeyboardInterrupt:
            report.say("[no result]")
        except EOFError:
            leaves = True
        for place, call in enumerate(calls):
            has_result = place < len(results)
            content = results[place] if has_result else UNANSWERED
            exchange.append(Turn("tool", content, interrupted=not has_result, call_id=call.id, name=call.name))
        if leaves:
            raise Leave
        return len(results) == len(calls)

    def _typed_result(self) -> str:
        """Raises `EOFError`, `KeyboardInterrupt`."""
        while True:
            try:
                return read_message(self.read_line, RESULT) or EMPTY_RESULT
            except LineDropped:
                continue

    def messages(self, *more: Turn) -> list[Message]:
        """What the model gets."""
        first = [Message("system", self.system)] if self.system is not None else []
        return [*first, *(turn.message(self.talk.attachments.files) for turn in (*self.turns, *more))]

    def _keep(self, exchange: list[Turn]) -> None:
        """Add it to the conversation, unless it is only a question."""
        if len(exchange) > 1:
            self.turns += exchange
            self.cleared = []
            self.unanswered = None

    def _print(self, deltas: Generator[Delta]) -> Turn | None:
        """Print an answer and return what arrived of it; None if nothing did. Raises `_Broken`."""
        printed = PrintedAnswer(self.look, plain_text=self.talk.is_plain)
        interrupted = True
        try:
            printed.print(deltas)
            interrupted = False
        except KeyboardInterrupt:
            report.say("[stopped]")
        except LocalLLMError as error:
            raise _Broken(error, _turn(printed, interrupted=True)) from error
        finally:
            self._add_thought(printed)
        self.exit_code = report.OK
        if printed.finish is not None:
            self._report_finish(printed)
        _leave_a_line()
        return _turn(printed, interrupted=interrupted)

    def restore_thoughts(self) -> None:
        """Replace `thoughts` by those saved with the conversation's answers."""
        self.thoughts = [Thought(turn.thinking) for turn in self.turns if turn.thinking]

    def _add_thought(self, printed: PrintedAnswer) -> None:
        if printed.thoughts:
            self.thoughts.append(Thought(printed.thoughts, printed.thinking_s, printed.num_thought_tokens))

    def _report_finish(self, printed: PrintedAnswer) -> None:
        """Count a finished answer, and say what is unusual about it."""
        finish = printed.finish
        assert finish is not None
        self.totals.add(finish, printed.first_token_s, self.talk.ctx)
        ctx = self.talk.ctx
        for note in printed.notes:
            report.say(f"[{note}]")
        for call in printed.calls:
            if tools.parsed(call) is None:
                report.say(f"[the call to {call.name} is incomplete and is dropped]")
        if not printed.text.strip() and not printed.calls and not printed.notes:
            report.say("[the answer is empty]")
        if finish.reason == "timeout":
            report.say(f"[{why_incomplete(finish, self.talk)}]")
        elif finish.is_context_full:
            report.say(f"[{why_incomplete(finish, self.talk)}; /undo or /clear frees some, --ctx sets a larger one]")
        elif finish.reason == "length":
            remedy = "/set max_tokens default lifts the limit"
            if self.talk.params.max_tokens is None:
                remedy = "a setting of the model; /set max_tokens N changes it for this chat"
            report.say(f"[{why_incomplete(finish, self.talk)}; {remedy}]")
        if self.stats:
            report.say(stats_line(finish, printed.first_token_s, ctx))
        if self.verbose:
            report.say(describe(finish))


class _Broken(Exception):
    """An answer that ended with an error; `partial` is what had arrived."""

    def __init__(self, error: LocalLLMError, partial: Turn | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.partial = partial


def _turn(printed: PrintedAnswer, *, interrupted: bool) -> Turn | None:
    """The answer as a message, without incomplete calls."""
    calls = tuple(call for call in printed.calls if not interrupted and tools.parsed(call) is not None)
    if not printed.text and not calls and (interrupted or printed.finish is None):
        return None
    return Turn("assistant", printed.text, thinking=printed.thoughts, interrupted=interrupted, calls=calls)


def _leave_a_line() -> None:
    """An empty line between an answer and the next prompt, on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write("\n")
        sys.stdout.flush()


def _end_of_input(_prompt: str) -> str:
    """A `ReadLine` for when there is no keyboard."""
    raise EOFError
