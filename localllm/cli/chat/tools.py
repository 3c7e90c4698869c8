"""Tools from a file, and calls printed for people and for programs. Knows neither models nor the conversation.

The user carries out the calls: nothing is run here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, RequestError
from localllm.system.files import bounded_bytes
from localllm.system.printable import printable
from localllm.types import MAX_SOURCE_BYTES, Delta, ToolCall

LINE_CHARS = 100
"""Shorter calls are shown on one line."""
PARAM = "tools"


class Tools(NamedTuple):
    """The content of a file, in the form of OpenAI's `tools`."""

    entries: list[dict[str, Any]]
    file: Path

    def answer(self, ask: Callable[[Sequence[dict[str, Any]]], Generator[Delta]]) -> Generator[Delta]:
        """An answer with these tools; errors about them name their file."""
        try:
            yield from ask(self.entries)
        except RequestError as error:
            if not (error.param or "").startswith(PARAM):
                raise
            raise error.renamed(f"{self.file}: {error.message}", error.param or PARAM) from error

    def lines(self) -> Iterator[str]:
        """One per tool: name, parameters, purpose."""
        for entry in self.entries:
            function = entry.get(entry["type"], {})
            schema = function.get("parameters")
            properties = schema.get("properties") if isinstance(schema, dict) else None
            takes = ", ".join(properties) if isinstance(properties, dict) else ""
            purpose = str(function.get("description") or "").partition("\n")[0]
            yield f"{function['name']}({takes})" + (f"  {purpose}" if purpose else "")


def load_tools(path: Path) -> Tools:
    """Read a JSON array, or an object with it as `tools`. Raises `InvalidParameter` if the file is unusable."""
    data = bounded_bytes(path, MAX_SOURCE_BYTES, param=PARAM)
    try:
        found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))  # the byte order mark of some editors
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter(f"{path} is not JSON: {error}", param=PARAM) from error
    entries = found.get("tools") if isinstance(found, dict) else found
    if not isinstance(entries, list) or not entries:
        raise InvalidParameter(
            f'{path} has no tools: it has to be an array of OpenAI\'s tools, or {{"tools": [...]}}', param=PARAM
        )
    return Tools([_entry(entry, f"{path}: tools[{index}]") for index, entry in enumerate(entries)], path)


def _entry(found: object, where: str) -> dict[str, Any]:
    """A tool; a bare function is accepted as one."""
    if isinstance(found, dict) and isinstance(found.get("name"), str) and found.get("type", "function") == "function":
        found = {"type": "function", "function": {name: value for name, value in found.items() if name != "type"}}
    kind = found.get("type") if isinstance(found, dict) else None
    function = found.get(kind) if isinstance(found, dict) and kind in ("function", "custom") else None
    if not isinstance(found, dict) or not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InvalidParameter(
            f'{where} is not a tool: {{"type": "function", "function": {{"name": ..., "parameters": ...}}}}',
            param=PARAM,
        )
    return found


def shown(call: ToolCall) -> str:
    """For people: the name and the arguments, long texts verbatim."""
    arguments = parsed(call)
    if arguments is None:
        return printable(f"{call.name}({call.arguments}")
    line = f"{call.name}({', '.join(f'{name}={_json(value)}' for name, value in arguments.items())})"
    if len(line) <= LINE_CHARS:
        return printable(line)
    return printable("\n".join([call.name, *(_argument(name, value) for name, value in arguments.items())]))


def as_json_line(call: ToolCall) -> str:
    """For programs: one line of JSON."""
    arguments = parsed(call)
    return _json({"name": call.name, "arguments": call.arguments if arguments is None else arguments})


def parsed(call: ToolCall) -> dict[str, Any] | None:
    """The arguments; None if they are not a complete JSON object."""
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
