"""Which module reads and writes which kind of arguments. A kind's module has `reader` and `written`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from localllm.chat.formats import json_arguments, tagged_arguments
from localllm.chat.formats.arguments import ArgumentsReader
from localllm.conversation import Function
from localllm.formats import Arguments, JsonArguments, TaggedArguments

READERS: dict[type, Callable[[Any, Function | None, str], ArgumentsReader]] = {
    JsonArguments: json_arguments.reader,
    TaggedArguments: tagged_arguments.reader,
}
WRITERS: dict[type, Callable[[Any, Mapping[str, Any]], str]] = {
    JsonArguments: json_arguments.written,
    TaggedArguments: tagged_arguments.written,
}
OPENINGS: dict[type, Callable[[Any], tuple[str, ...]]] = {
    JsonArguments: lambda _kind: ("{",),
    TaggedArguments: lambda kind: (kind.before.strip(),),
}
"""What arguments begin with: a name before them that no literal ends, ends there."""


def arguments_reader(kind: Arguments, function: Function | None = None, end: str = "") -> ArgumentsReader:
    """Of one call of this function. `end`: the literal behind its arguments."""
    return READERS[type(kind)](kind, function, end)


def written_arguments(kind: Arguments, arguments: Mapping[str, Any]) -> str:
    """As models were taught it."""
    return WRITERS[type(kind)](kind, arguments)


def argument_openings(kind: Arguments) -> tuple[str, ...]:
    """What arguments of this kind begin with."""
    return tuple(filter(None, OPENINGS[type(kind)](kind)))
