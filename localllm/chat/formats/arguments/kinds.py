"""Maps each kind of arguments to the module that reads and writes it, by its `reader` and `written`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from localllm.chat.formats.arguments import (
    bare_arguments,
    json_arguments,
    nested_arguments,
    python_arguments,
    tagged_arguments,
)
from localllm.chat.formats.arguments.reading import ArgumentsReader
from localllm.types.conversation import Function
from localllm.types.formats import (
    Arguments,
    BareArguments,
    JsonArguments,
    NestedArguments,
    PythonArguments,
    TaggedArguments,
)

READERS: dict[type, Callable[[Any, Function | None, str], ArgumentsReader]] = {
    JsonArguments: json_arguments.reader,
    TaggedArguments: tagged_arguments.reader,
    PythonArguments: lambda _kind, function, _end: python_arguments.reader(function),
    BareArguments: lambda kind, _function, _end: bare_arguments.reader(kind),
    NestedArguments: lambda kind, function, _end: nested_arguments.reader(kind, function),
}
WRITERS: dict[type, Callable[[Any, Mapping[str, Any]], str]] = {
    JsonArguments: json_arguments.written,
    TaggedArguments: tagged_arguments.written,
    PythonArguments: lambda _kind, arguments: python_arguments.written(arguments),
    BareArguments: bare_arguments.written,
    NestedArguments: nested_arguments.written,
}
OPENINGS: dict[type, Callable[[Any], tuple[str, ...]]] = {
    JsonArguments: lambda _kind: ("{",),
    TaggedArguments: lambda kind: (kind.before.strip(),),
    PythonArguments: lambda _kind: (),
    BareArguments: lambda _kind: ("{",),
    NestedArguments: lambda kind: (f"{kind.prefix}<",),
}
"""First literals of arguments, which also end a preceding name whose closing literal is missing."""


def arguments_reader(kind: Arguments, function: Function | None = None, end: str = "") -> ArgumentsReader:
    """Reader for one call of this function. `end`: the literal after its arguments."""
    return READERS[type(kind)](kind, function, end)


def written_arguments(kind: Arguments, arguments: Mapping[str, Any]) -> str:
    """Arguments as models were trained to write them."""
    return WRITERS[type(kind)](kind, arguments)


def argument_openings(kind: Arguments) -> tuple[str, ...]:
    """First literals of arguments of this kind."""
    return tuple(filter(None, OPENINGS[type(kind)](kind)))
