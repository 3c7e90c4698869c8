"""Reads arguments that are one JSON object, bare or within a JSON string; missing arguments are an empty object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from localllm.chat.formats.arguments.json_scan import JsonScanner, is_object, value_of
from localllm.chat.formats.arguments.reading import ArgumentsReader, Piece
from localllm.chat.formats.tape import parts_of
from localllm.types.conversation import Function
from localllm.types.formats import JsonArguments

STOPS = frozenset("<`|")
"""First characters of literals that JSON has only in strings; elsewhere they end arguments with missing brackets."""


class JsonReader:
    """Reader for one call. `end`: the literal after the arguments; if it comes first, there are none."""

    def __init__(self, end: str = "") -> None:
        self._end = next(iter(parts_of(end)), "")
        self._stop = self._end[:1] if self._end[:1] in STOPS else ""
        self._held = ""
        """Text not yet known to be arguments or the literal after them."""
        self._scanner: JsonScanner | None = None
        self._word: list[str] | None = None
        """Parts of a value that is not an object, but may contain one."""

    def feed(self, text: str) -> Piece:
        if self._scanner is None:
            text = (self._held + text).lstrip() if not self._held else self._held + text
            self._held = ""
            if not text:
                return Piece()
            if self._end and self._end.startswith(text[: len(self._end)]):
                return self._nothing(text)
            if text[0] not in '{"n':
                return Piece(rest=text, is_broken=True)
            self._scanner = JsonScanner(self._stop)
            self._word = None if text[0] == "{" else []
        found, end = self._scanner.feed(text)
        rest = None if end is None else text[end:]
        if self._word is None:
            return Piece(found, rest)
        self._word.append(found)
        return Piece() if rest is None else self._other("".join(self._word), rest)

    def flush(self) -> Piece:
        if self._word is not None:
            return self._other("".join(self._word), "")
        return Piece()

    def _nothing(self, text: str) -> Piece:
        if len(text) < len(self._end):
            self._held = text
            return Piece()
        return Piece("{}", text)

    def _other(self, word: str, rest: str) -> Piece:
        """Accept null, an empty string, or a string that contains an object."""
        try:
            value = value_of(word)
        except ValueError:
            value = 0
        if value is None or (isinstance(value, str) and not value.strip()):
            return Piece("{}", rest)
        if isinstance(value, str) and is_object(value):
            return Piece(JsonScanner().feed(value.strip())[0], rest)
        return Piece(rest=rest, is_broken=True)


def reader(_kind: JsonArguments, _function: Function | None, end: str) -> ArgumentsReader:
    """Reader for one call."""
    return JsonReader(end)


def written(_kind: JsonArguments, arguments: Mapping[str, Any]) -> str:
    """Arguments as models were trained to write them."""
    return json.dumps(arguments, ensure_ascii=False)
