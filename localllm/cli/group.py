"""Commands built on demand: building all of them takes longer than `--help` may.

Typer would build a command from every function's signature at startup; here the help page reads docstrings only, and
just the command that is run, completed or explained is built. Knows no command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from localllm.cli.help_page import Page
from localllm.cli.options.settings import TAKEN, expanded, with_options
from localllm.cli.plain_values import Plainly

if TYPE_CHECKING:
    from typer import _click

COMMANDS: dict[str, Callable[..., None]] = {}
"""Name -> function, in the order of the help."""
EVERYDAY = (
    "run", "serve", "app", "launch", "recommend", "pull", "list", "search", "show", "rm", "ps", "stop", "fit", "doctor",
    "help",
)  # fmt: skip
"""Those that the short help describes."""
HABITS = {
    "ask": "run", "chat": "run", "chats": "sessions", "delete": "rm", "download": "pull", "history": "sessions",
    "info": "show", "ls": "list", "models": "list", "remove": "rm", "server": "serve",
    "start": "serve", "unload": "stop",
}  # fmt: skip
"""Words that people type from habit -> the command."""
EVERY = "every command"
"""Key in a context's `meta`: whether its help describes all commands."""


class OnDemand(MutableMapping[str, Any]):
    """Name -> command, built at the first access."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            function = COMMANDS[name]
            info = CommandInfo(name=name, callback=with_options(function), cls=Page)
            command = get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)
            if isinstance(command, Page) and function in TAKEN:
                command.left_out = frozenset(expanded(TAKEN[function]).more)
            self._built[name] = command
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del COMMANDS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Group(Plainly, TyperGroup):
    """The root command."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = OnDemand()

    def format_commands(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        """The everyday ones with the first sentence of each, and the names of the others; or all with theirs."""
        described = COMMANDS if ctx.meta.get(EVERY) else EVERYDAY
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_line(COMMANDS[name])) for name in described])
        others = [name for name in COMMANDS if name not in described]
        if others:
            with formatter.section("More, described by --help-all"):
                formatter.write_text(", ".join(others))

    def get_command(self, ctx: _click.Context, cmd_name: str) -> _click.core.Command | None:
        """Also by a word of habit."""
        return super().get_command(ctx, HABITS.get(cmd_name, cmd_name))


def _first_line(function: Callable[..., None]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]
