"""The interactive chat: a line from the person, an answer from the model, until Ctrl-D. Knows no HTTP.

Ctrl-C stops an answer; what had come of it stays in the conversation. Lines between triple quotes are one message.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from localllm.cli import report
from localllm.cli.answer import PrintedAnswer, Talk, describe
from localllm.client.api import ServerGone
from localllm.errors import LocalLLMError
from localllm.types import Delta, Message

QUOTES = '"""'
HELP = f"""\
/help         this
/clear        forget the conversation
/system TEXT  set the system message and forget the conversation; without TEXT, none
/bye          leave, as does Ctrl-D
{QUOTES}           begin and end a message of several lines
Ctrl-C        stop the answer"""

ReadLine = Callable[[str], str]
"""Given the prompt to show; raises `EOFError` at Ctrl-D, `KeyboardInterrupt` at Ctrl-C."""


def chat(talk: Talk, system: str | None, *, verbose: bool) -> int:
    """Chat on the terminal; returns the exit code."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory

    session: PromptSession[str] = PromptSession(history=InMemoryHistory())
    if talk.raw:
        report.say(f"{talk.model_id} has no chat template, or --raw was given: each line is continued. /help for help")
    else:
        report.say(f"{talk.model_id}: /help for help, Ctrl-D to leave")
    return Conversation(talk, system, verbose=verbose).run(session.prompt)


class Conversation:
    """The messages so far, and the commands."""

    def __init__(self, talk: Talk, system: str | None, *, verbose: bool = False) -> None:
        self.talk = talk
        self.system = system
        self.verbose = verbose
        self.turns: list[Message] = []

    def run(self, read_line: ReadLine) -> int:
        """Until the person leaves or the server is gone; returns the exit code."""
        while True:
            try:
                text = read_message(read_line)
                if text.strip() in ("/bye", "/exit", "/quit"):
                    return report.OK
                self.take(text)
            except EOFError:
                return report.OK
            except KeyboardInterrupt:
                continue
            except ServerGone as error:
                return report.complain(error)
            except LocalLLMError as error:
                report.complain(error)

    def take(self, text: str) -> None:
        """One message or command. Raises `LocalLLMError`s."""
        command, _, rest = text.strip().partition(" ")
        if not command:
            return
        if command == "/help":
            report.say(HELP)
        elif command == "/clear":
            self.turns.clear()
        elif command == "/system":
            self._set_system(rest.strip() or None)
        elif command.startswith("/") and "/" not in command[1:] and "\n" not in text:
            report.say(f"there is no {command}; /help lists what there is")
        else:
            self._answer(text)

    def _set_system(self, system: str | None) -> None:
        if self.talk.raw:
            report.say("a model without chat template takes no system message")
            return
        self.system = system
        self.turns.clear()

    def _answer(self, text: str) -> None:
        if self.talk.raw:
            self._print(self.talk.ask(text, None))
            return
        asked = Message("user", text)
        first = [Message("system", self.system)] if self.system is not None else []
        answer = self._print(self.talk.answer([*first, *self.turns, asked]))
        self.turns += [asked, Message("assistant", answer)]

    def _print(self, deltas: Generator[Delta]) -> str:
        """Print an answer; returns its text, or what of it had come before Ctrl-C."""
        printed = PrintedAnswer()
        try:
            printed.print(deltas)
        except KeyboardInterrupt:
            report.say("[stopped]")
        if self.verbose and printed.finish is not None:
            report.say(describe(printed.finish))
        return printed.text


def read_message(read_line: ReadLine) -> str:
    """One line, or all between triple quotes. Raises `EOFError`, `KeyboardInterrupt` (which drops what was begun)."""
    line = read_line(">>> ")
    if not line.lstrip().startswith(QUOTES):
        return line
    text = line.lstrip().removeprefix(QUOTES)
    while not text.rstrip().endswith(QUOTES):
        text += "\n" + read_line("... ")
    return text.rstrip().removesuffix(QUOTES).strip("\n")
