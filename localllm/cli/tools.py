"""Tools for the terminal: a file of them, as it is sent; calls as a person reads them, and as a program does.

Knows neither models nor the conversation. The tools themselves are the person's: nothing is run here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, RequestError
from localllm.printable import printable
from localllm.types import MAX_SOURCE_BYTES, Delta, ToolCall

LINE_CHARS = 100
"""A call that is shorter is shown on one line."""
PARAM = "tools"


class Tools(NamedTuple):
    """What a file says, as OpenAI's `tools`."""

    entries: list[dict[str, Any]]
    file: Path

    def asked(self, ask: Callable[[Sequence[dict[str, Any]]], Generator[Delta]]) -> Generator[Delta]:
        """An answer with these tools; what is refused of one is refused by the name of their file."""
        try:
            yield from ask(self.entries)
        except RequestError as error:
            if not (error.param or "").startswith(PARAM):
                raise
            raise error.renamed(f"{self.file}: {error.message}", error.param or PARAM) from error

    def lines(self) -> Iterator[str]:
        """One for each: its name, what it takes, what it is for."""
        for entry in self.entries:
            function = entry.get(entry["type"], {})
            schema = function.get("parameters")
            properties = schema.get("properties") if isinstance(schema, dict) else None
            takes = ", ".join(properties) if isinstance(properties, dict) else ""
            purpose = str(function.get("description") or "").partition("\n")[0]
            yield f"{function['name']}({takes})" + (f"  {purpose}" if purpose else "")


def load_tools(path: Path) -> Tools:
    """Of an array, or an object that has it as `tools`. Raises `InvalidParameter`, which says what is wrong."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read: {error.strerror or error}", param=PARAM) from error
    if len(data) > MAX_SOURCE_BYTES:
        raise InvalidParameter(f"{path} is longer than {MAX_SOURCE_BYTES} bytes, the most of tools", param=PARAM)
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))  # some editors begin a file with that mark
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter(f"{path} is not JSON: {error}", param=PARAM) from error
    entries = found.get("tools") if isinstance(found, dict) else found
    if not isinstance(entries, list) or not entries:
        raise InvalidParameter(f'{path} has no tools: an array, or {{"tools": [...]}}, of OpenAI\'s', param=PARAM)
    return Tools([_entry(entry, f"{path}: tools[{index}]") for index, entry in enumerate(entries)], path)


def _entry(found: object, where: str) -> dict[str, Any]:
    """A tool, or a function alone, as some write it."""
    if isinstance(found, dict) and isinstance(found.get("name"), str) and found.get("type", "function") == "function":
        found = {"type": "function", "function": {name: value for name, value in found.items() if name != "type"}}
    kind = found.get("type") if isinstance(found, dict) else None
    function = found.get(kind) if isinstance(found, dict) and kind in ("function", "custom") else None
    if not isinstance(found, dict) or not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InvalidParameter(
            f'{where} is no tool: {{"type": "function", "function": {{"name": ..., "parameters": ...}}}}', param=PARAM
        )
    return found


def shown(call: ToolCall) -> str:
    """For a person: the name and the arguments, long texts as they are."""
    arguments = parsed(call)
    if arguments is None:
        return printable(f"{call.name}({call.arguments}")
    line = f"{call.name}({', '.join(f'{name}={_json(value)}' for name, value in arguments.items())})"
    if len(line) <= LINE_CHARS:
        return printable(line)
    return printable("\n".join([call.name, *(_argument(name, value) for name, value in arguments.items())]))


def as_json_line(call: ToolCall) -> str:
    """For a program."""
    arguments = parsed(call)
    return _json({"name": call.name, "arguments": call.arguments if arguments is None else arguments})


def parsed(call: ToolCall) -> dict[str, Any] | None:
    """Its arguments; None where they are no whole JSON object."""
    try:
        found = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _argument(name: str, value: object) -> str:
    if isinstance(value, str) and "\n" in value:
        lines = "".join(f"\n    {line}" for line in value.splitlines())
        return f"  {name}:{lines}"
    return f"  {name}: {_json(value)}"


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
