"""Checks the description of a format against a rendered answer: its writing must occur there exactly, and reading must
return what was rendered, wherever the answer is cut in two."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from localllm.chat.formats.reader import reader_of
from localllm.chat.formats.reading import NewParts, Reader
from localllm.chat.formats.writer import written_calls
from localllm.types.conversation import Function, ToolCall
from localllm.types.formats import ChatFormat


class ParsedAnswer(NamedTuple):
    """A whole answer as read."""

    text: str
    thought: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments."""
    notes: tuple[str, ...]


def read(reader: Reader, pieces: Iterable[str]) -> ParsedAnswer:
    """Read a whole answer that arrives in these pieces."""
    reads: list[NewParts] = [*(reader.feed(piece) for piece in pieces), reader.flush()]
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for each in reads:
        for call in each.calls:
            names[call.index] = names.get(call.index, "") + call.name
            arguments[call.index] = arguments.get(call.index, "") + call.arguments
    return ParsedAnswer(
        "".join(each.text for each in reads),
        "".join(each.thought for each in reads),
        tuple((names[index], arguments[index]) for index in sorted(names)),
        tuple(note for each in reads for note in each.notes),
    )


def reads_back(
    format: ChatFormat,
    functions: Sequence[Function],
    answer: str,
    expected: tuple[str, str, Sequence[ToolCall]],
    *,
    in_thought: bool = False,
    everywhere: bool = False,
) -> bool:
    """Whether an answer is read as the `expected` text, reasoning and calls, whole and character by character.

    `everywhere`: also cut in two at every place.
    """
    text, thought, calls = expected
    wanted = [(call.name, json.loads(call.arguments)) for call in calls]
    ways: list[Sequence[str]] = [(answer,), answer]
    if everywhere:
        ways += [(answer[:place], answer[place:]) for place in range(1, len(answer))]
    for pieces in ways:
        whole = read(reader_of(format, functions, in_thought=in_thought), pieces)
        if (whole.text.strip(), whole.thought.strip()) != (text, thought) or whole.notes:
            return False
        if [(name, _parsed(made)) for name, made in whole.calls] != wanted:
            return False
    return True


def writes(format: ChatFormat, calls: Sequence[ToolCall], rendered: str) -> str:
    """The calls as the format writes them, if that text occurs in the rendering; otherwise empty.

    Ids may be rendered as numbers, as in Cohere's templates.
    """
    if format.calls is None:
        return ""
    numbered = [replace(call, id=str(number)) for number, call in enumerate(calls)]
    for made in (written_calls(format.calls, each).strip() for each in (calls, numbered)):
        if made in rendered:
            return made
    return ""


def _parsed(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None
