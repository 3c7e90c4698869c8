"""The line editor of the chat: keys, history and completion, by prompt_toolkit. Knows no conversation.

Imported while the model loads, since importing prompt_toolkit is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style

from localllm.cli.chat import parameters
from localllm.cli.chat.folding import Folds
from localllm.cli.chat.kept.saved import history_file
from localllm.cli.chat.mcp_tools import MAY_RUN
from localllm.cli.chat.questions import QUOTES, RESULT, LineDropped
from localllm.cli.chat.slash_commands import COMMANDS
from localllm.errors import LocalLLMError

PLACEHOLDER = "Send a message (/help for help)"
RESULT_PLACEHOLDER = "The call's result (empty: null; Ctrl-C: no result)"
MAY_RUN_PLACEHOLDER = "Empty: no; Ctrl-C stops the answer"
_STYLE = Style.from_dict({"placeholder": "ansibrightblack", "prompt": "bold"})


class Editor:
    """Reads messages. `models` returns the names for /model."""

    def __init__(self, home: Path | None, *, models: Callable[[], list[str]]) -> None:
        path = history_file(home) if home is not None else None
        self._folds = Folds()
        history: History = InMemoryHistory()
        if path is not None:
            history = PrivateHistory(str(path), self._folds.unfolded)
        self._session: PromptSession[str] = PromptSession(
            history=history,
            multiline=True,
            prompt_continuation=[("class:prompt", "... ")],
            key_bindings=_keys(self._folds),
            completer=CommandCompleter(models),
            complete_while_typing=Condition(self._is_command),
            complete_in_thread=True,
            enable_suspend=True,
            enable_open_in_editor=True,
            tempfile_suffix=".md",
            style=_STYLE,
        )
        self._results: PromptSession[str] = PromptSession(
            history=InMemoryHistory(),
            multiline=True,
            key_bindings=_keys(self._folds),
            enable_suspend=True,
            style=_STYLE,
        )

    def read(self, prompt: str) -> str:
        """One input. Raises `EOFError` at Ctrl-D; at Ctrl-C `LineDropped`, or `KeyboardInterrupt` on an empty line."""
        placeholder = {RESULT: RESULT_PLACEHOLDER, MAY_RUN: MAY_RUN_PLACEHOLDER}.get(prompt, PLACEHOLDER)
        session = self._results if prompt in (RESULT, MAY_RUN) else self._session
        shown = FormattedText([("class:prompt", prompt)])
        hint, nothing = FormattedText([("class:placeholder", placeholder)]), FormattedText()
        try:
            text = session.prompt(shown, placeholder=lambda: nothing if _shows_text(session) else hint)
        except KeyboardInterrupt:
            if session.default_buffer.text:
                raise LineDropped from None
            raise
        return self._folds.unfolded(text)

    def _is_command(self) -> bool:
        text = self._session.default_buffer.text
        return text.startswith("/") and "\n" not in text


def _shows_text(session: PromptSession[str]) -> bool:
    """Whether the line shows something although it is empty: what was sent, or what a search has found."""
    return session.app.is_done or session.app.layout.is_searching


class PrivateHistory(FileHistory):
    """The input history in a file; a line with a leading space is not kept, as in shells. `whole`: the text of a line
    as it is kept."""

    def __init__(self, filename: str, whole: Callable[[str], str] = str) -> None:
        super().__init__(filename)
        self._whole = whole

    def store_string(self, string: str) -> None:
        if not string.startswith(" "):
            super().store_string(self._whole(string))


def is_open(text: str) -> bool:
    """Whether triple quotes are still open."""
    message = text.lstrip()
    return message.startswith(QUOTES) and not message.removeprefix(QUOTES).rstrip().endswith(QUOTES)


def _keys(folds: Folds) -> KeyBindings:
    keys = KeyBindings()
    in_message = has_focus(DEFAULT_BUFFER)  # not in the history search

    @keys.add("enter", filter=in_message)
    def _send(event: KeyPressEvent) -> None:
        if is_open(event.current_buffer.text):
            event.current_buffer.insert_text("\n")
        else:
            event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=in_message)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste, filter=in_message)
    def _paste(event: KeyPressEvent) -> None:
        pasted = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(folds.folded(pasted))

    @keys.add("backspace", filter=in_message)
    def _delete(event: KeyPressEvent) -> None:
        """A folded paste as a whole."""
        before = event.current_buffer.document.text_before_cursor
        event.current_buffer.delete_before_cursor(folds.length_at_end(before) or event.arg)

    return keys


class CommandCompleter(Completer):
    """Completes commands and their arguments."""

    def __init__(self, models: Callable[[], list[str]]) -> None:
        self._models = models
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in document.text:
            return
        command, space, argument = text.partition(" ")
        if not space:
            yield from _matching(command, {name: command.summary for name, command in COMMANDS.items()})
        elif command.rstrip("!") in ("/save", "/load", "/tools", "/image", "/audio", "/file"):
            yield from self._paths.get_completions(Document(argument), complete_event)
        elif command == "/copy":
            yield from _matching(argument, {"code": "the last block of code"})
        elif command == "/help":
            yield from _matching(argument, {name.removeprefix("/"): "" for name in COMMANDS})
        elif command in ("/model", "/retry"):
            yield from _matching(argument, dict.fromkeys(self._model_names(), ""))
        elif command == "/set":
            name, space, value = argument.partition(" ")
            if not space:
                yield from _matching(
                    name, {name: parameters.kind(name) for name in [*parameters.parameter_names(), "system"]}
                )
            elif name != "system":
                values = parameters.SWITCHES.get(name, ("default",))
                yield from _matching(value, dict.fromkeys(values, ""))

    def _model_names(self) -> list[str]:
        try:
            return self._models()
        except LocalLLMError:  # the command itself reports the error
            return []


def _matching(prefix: str, choices: dict[str, str]) -> Iterable[Completion]:
    for choice, meaning in choices.items():
        if choice.startswith(prefix):
            yield Completion(choice, start_position=-len(prefix), display_meta=meaning)
