"""The interactive chat: a message from the person, an answer from the model, until Ctrl-D. Knows no HTTP.

Ctrl-C stops an answer; what had come of it stays in the conversation. Lines between triple quotes are one message.
Where the model calls a tool, the person is asked for its result, and the answer goes on: all that is one exchange.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from localllm.cli import commands, report, tools
from localllm.cli.answer import Look, PrintedAnswer, Talk, cut, describe, is_at_limit, stats_line
from localllm.cli.mcp_tools import McpTools
from localllm.cli.saved import Turn
from localllm.cli.stats import Totals
from localllm.client.api import ServerGone
from localllm.errors import ContextLengthExceeded, LocalLLMError
from localllm.types import Delta, Message, ToolCall

QUOTES = '"""'
MESSAGE, RESULT = ">>> ", "result> "
"""What is asked for."""
LEAVING = "to leave, press Ctrl-D or type /bye"
NO_RESULT = "null"
"""What an empty line is as a call's result."""
UNANSWERED = "The user gave no result for this call."
"""What the model is told after a Ctrl-C, since a call without any result is no conversation to most templates."""

ReadLine = Callable[[str], str]
"""Given the prompt to show; raises `EOFError` at Ctrl-D, `KeyboardInterrupt` at Ctrl-C."""

Switch = Callable[[str], Talk]
"""A model's name -> how to talk to it, loaded if need be. Raises `LocalLLMError`s."""


class Thought(NamedTuple):
    """For /thoughts."""

    text: str
    seconds: float = 0.0
    num_tokens: int = 0


class LineDropped(KeyboardInterrupt):
    """Ctrl-C at a line with something in it."""


def chat(
    talk: Talk,
    system: str | None,
    *,
    verbose: bool,
    stats: bool = False,
    markdown: bool = True,
    home: Path | None = None,
    switch: Switch | None = None,
) -> int:
    """Chat on the terminal; returns the exit code. `home`: where what was typed is kept for next time; None: not."""
    from localllm.cli.editor import Editor

    conversation = Conversation(talk, system, verbose=verbose, stats=stats, markdown=markdown, switch=switch)
    editor = Editor(home, models=lambda: conversation.talk.model_names())
    if talk.raw:
        report.say(f"{talk.model_id} has no chat template, or --raw was given: each line is continued. /help for help")
    else:
        report.say(f"{talk.model_id}: /help for help, Ctrl-D to leave")
    return conversation.run(editor.read)


class Conversation:
    """The messages so far, and how they are answered."""

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
        """What /clear took away, for /undo."""
        self.unanswered: str | None = None
        """A message that could not be answered, for /regen; the conversation is without it."""
        self.file: Path | None = None
        """Where it was saved to or loaded from."""
        self.is_saved = True
        self.totals = Totals()
        self.thoughts: list[Thought] = []
        """Of all answers, the last at the end."""
        self._read_line: ReadLine = _nobody
        self._exit_code = report.OK

    @property
    def look(self) -> Look:
        """How answers are shown."""
        return Look(self.markdown, self.talk.think.shown, unfolds=True)

    def run(self, read_line: ReadLine) -> int:
        """Until the person leaves; returns the exit code."""
        self._read_line = read_line
        while True:
            try:
                text = read_message(read_line)
            except EOFError:
                return self._exit_code
            except LineDropped:
                continue
            except KeyboardInterrupt:
                report.say(LEAVING)
                continue
            try:
                self.take(text)
            except commands.Leave:
                return self._exit_code
            except KeyboardInterrupt:
                continue
            except LocalLLMError as error:
                self._complain(error)

    def take(self, text: str) -> None:
        """One message or command. Raises `LocalLLMError`s, `commands.Leave`."""
        if commands.is_command(text):
            commands.execute(self, text.strip())
        elif text.strip():
            self.answer(text)

    def answer(self, text: str) -> None:
        """Ask and print. Raises `LocalLLMError`s; what had come is kept, and without any the message is."""
        self.unanswered = text
        if self.talk.raw:
            self._print(self.talk.ask(text, None))
            return
        self.go_on([Turn("user", text)])

    def go_on(self, exchange: list[Turn]) -> None:
        """The answer to a question, or to the results at an exchange's end. Raises as `answer` does, `Leave`."""
        self.is_saved = False
        asks_on, num_rounds = True, 0
        try:
            while asks_on:
                answer = self._print(self._next_answer(self.messages(*exchange), num_rounds))
                num_rounds += 1
                exchange = [*exchange, *([] if answer is None else [answer])]
                asks_on = answer is not None and bool(answer.calls) and self._ask_results(answer.calls, exchange)
        except _Broken as broken:
            exchange = [*exchange, *([] if broken.kept is None else [broken.kept])]
            raise broken.error from broken
        finally:
            self._keep(exchange)

    def _next_answer(self, messages: list[Message], num_rounds: int) -> Generator[Delta]:
        """Where as many have called servers' tools as may, one that calls none."""
        given = self.talk.tools
        if not isinstance(given, McpTools) or num_rounds < given.max_rounds:
            return self.talk.answer(messages)
        report.say(f"[{given.max_rounds} rounds of calls are the most; it answers with what it has]")
        return self.talk.answer(messages, may_call=False)

    def _ask_results(self, calls: tuple[ToolCall, ...], exchange: list[Turn]) -> bool:
        """Each of them shown, and its result appended; False once the person gives none. Raises `Leave`."""
        results: list[str] = []
        leaves = False
        given = self.talk.tools
        try:
            for call in calls:
                if isinstance(given, McpTools):
                    results.append(given.result(call, self._read_line))
                    continue
                report.say(f"calls {tools.shown(call)}")
                results.append(self._result())
        except KeyboardInterrupt:
            report.say("[no result]")
        except EOFError:
            leaves = True
        for place, call in enumerate(calls):
            is_given = place < len(results)
            content = results[place] if is_given else UNANSWERED
            exchange.append(Turn("tool", content, interrupted=not is_given, call_id=call.id, name=call.name))
        if leaves:
            raise commands.Leave
        return len(results) == len(calls)

    def _result(self) -> str:
        """What the person types. Raises `EOFError`, `KeyboardInterrupt`."""
        while True:
            try:
                return read_message(self._read_line, RESULT) or NO_RESULT
            except LineDropped:
                continue

    def messages(self, *more: Turn) -> list[Message]:
        """What the model gets."""
        first = [Message("system", self.system)] if self.system is not None else []
        return [*first, *(turn.message for turn in (*self.turns, *more))]

    def _keep(self, exchange: list[Turn]) -> None:
        """A question alone is no exchange."""
        if len(exchange) > 1:
            self.turns += exchange
            self.cleared = []
            self.unanswered = None

    def _print(self, deltas: Generator[Delta]) -> Turn | None:
        """Print an answer; returns what there is of it, None if there is nothing. Raises `_Broken`."""
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
            self._remember_thought(printed)
        self._exit_code = report.OK
        if printed.finish is not None:
            self._account(printed)
        _leave_a_line()
        return _turn(printed, interrupted=interrupted)

    def remember_thoughts(self) -> None:
        """Of the conversation's own answers, as they were saved."""
        self.thoughts = [Thought(turn.thinking) for turn in self.turns if turn.thinking]

    def _remember_thought(self, printed: PrintedAnswer) -> None:
        if printed.thoughts:
            self.thoughts.append(Thought(printed.thoughts, printed.thinking_s, printed.num_thought_tokens))

    def _account(self, printed: PrintedAnswer) -> None:
        finish = printed.finish
        assert finish is not None
        self.totals.add(finish, printed.first_token_s, self.talk.ctx)
        ctx = self.talk.ctx
        for note in printed.notes:
            report.say(f"[{note}]")
        for call in printed.calls:
            if tools.parsed(call) is None:
                report.say(f"[the call of {call.name} is not whole, and is left out]")
        if not printed.text.strip() and not printed.calls and not printed.notes:
            report.say("[the answer is empty]")
        if finish.reason == "timeout":
            report.say(f"[{cut(finish, self.talk)}]")
        elif finish.reason == "length" and is_at_limit(finish, self.talk.params):
            report.say(f"[{cut(finish, self.talk)}; /set max_tokens default lifts that]")
        elif finish.reason == "length":
            report.say(f"[{cut(finish, self.talk)}; /undo or /clear makes room, --ctx gives more]")
        if self.stats:
            report.say(stats_line(finish, printed.first_token_s, ctx))
        if self.verbose:
            report.say(describe(finish))

    def _complain(self, error: LocalLLMError) -> None:
        """Say what went wrong and what can be done; the conversation is as it was."""
        code = report.complain(error)
        if isinstance(error, ContextLengthExceeded):
            ctx = f" of {self.talk.ctx} tokens" if self.talk.ctx else ""
            report.say(
                f"The context{ctx} is full. Nothing is lost: /undo takes back the last exchange, /clear all of them,"
            )
            report.say("/save keeps them in a file; then /regen sends your message again. --ctx gives more context.")
        elif isinstance(error, ServerGone):
            self._exit_code = code
            report.say("The conversation is still here: /save keeps it in a file, /regen sends your message again.")
        elif self.unanswered is not None:
            report.say("/regen sends your message again.")
        elif self.turns and self.turns[-1].interrupted:
            report.say("What had come of the answer is kept; /regen asks for another.")
        elif self.turns and self.turns[-1].role == "tool":
            report.say("The result is kept; /regen sends it again.")


class _Broken(Exception):
    """An answer that ended with an error."""

    def __init__(self, error: LocalLLMError, kept: Turn | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.kept = kept


def _turn(printed: PrintedAnswer, *, interrupted: bool) -> Turn | None:
    """Calls that are not whole are not part of it."""
    calls = tuple(call for call in printed.calls if not interrupted and tools.parsed(call) is not None)
    if not printed.text and not calls and (interrupted or printed.finish is None):
        return None
    return Turn("assistant", printed.text, thinking=printed.thoughts, interrupted=interrupted, calls=calls)


def _leave_a_line() -> None:
    """Between an answer and the next prompt, where a person looks at both."""
    if sys.stdout.isatty():
        sys.stdout.write("\n")
        sys.stdout.flush()


def _nobody(_prompt: str) -> str:
    """Who types where nobody does."""
    raise EOFError


def read_message(read_line: ReadLine, prompt: str = MESSAGE) -> str:
    """One line, or all between triple quotes. Raises `EOFError`, `KeyboardInterrupt` (which drops what was begun)."""
    line = read_line(prompt)
    if not line.lstrip().startswith(QUOTES):
        return line
    text = line.lstrip().removeprefix(QUOTES)
    while not text.rstrip().endswith(QUOTES):
        text += "\n" + read_line("... ")
    return text.rstrip().removesuffix(QUOTES).strip("\n")
