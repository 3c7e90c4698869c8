"""Options and help of `localllm help`. The body is imported when the command runs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Annotated

from typer import Argument, Exit


def help_(
    words: Annotated[
        list[str] | None,
        Argument(metavar="TOPIC or WORDS", help="A page, or words to search for [default: list the pages]"),
    ] = None,
) -> None:
    """Show the documentation: a page, or the sections about some words."""
    from localllm.cli.commands.help import show_help

    raise Exit(show_help(" ".join(words or ())))


def add_to(commands: MutableMapping[str, Callable[..., None]]) -> None:
    """Register the command."""
    commands["help"] = help_
