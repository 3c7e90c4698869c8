"""Reads the sentences and words of the corpus from `data/*.toml`, one file for each module. Knows nothing of their use.

The order of what is read is the order in the file: the corpus is drawn from it by number, so that a line that moves
changes what a seed gives.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .grammar import Check, Phrasings, mentions, mentions_one_of

FOLDER = Path(__file__).parent / "data"

Texts = tuple[str, ...]


class Data:
    """One file. A key that it lacks is a `KeyError`, and what has another shape an `AssertionError`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def text(self, key: str) -> str:
        """One text."""
        value = self._values[key]
        assert isinstance(value, str), key
        return value

    def texts(self, key: str) -> Texts:
        """A list of texts."""
        value = self._values[key]
        assert isinstance(value, list), key
        assert all(isinstance(each, str) for each in value), key
        return tuple(value)

    def rows(self, key: str) -> tuple[Any, ...]:
        """A list of lists, as tuples; an entry may have lists itself."""
        rows = _frozen(self._values[key])
        assert isinstance(rows, tuple), key
        return rows

    def phrasings(self, key: str) -> Phrasings:
        """What is taught and what is only ever examined: `train` and `held_out`."""
        return self.table(key).own_phrasings()

    def own_phrasings(self) -> Phrasings:
        """Of a table that has `train` and `held_out` among others."""
        return Phrasings(self.texts("train"), self.texts("held_out"))

    def check(self) -> Check:
        """How an answer is judged: by `mentions`, all of its words, or by `mentions_one_of`."""
        if "mentions" in self:
            return mentions(*self.texts("mentions"))
        return mentions_one_of(*self.texts("mentions_one_of"))

    def get(self, key: str, default: Any) -> Any:
        """A number, flag, text or list; `default` where the key is missing."""
        return _frozen(self._values.get(key, default))

    def table(self, key: str) -> Data:
        """A table."""
        value = self._values[key]
        assert isinstance(value, dict), key
        return Data(value)

    def tables(self, key: str) -> list[Data]:
        """A list of tables, `[[key]]`."""
        return [Data(value) for value in self._values[key]]

    def named(self, key: str) -> dict[str, Data]:
        """A table of tables, by name."""
        return {name: Data(value) for name, value in self._values[key].items()}

    def all_phrasings(self, key: str) -> dict[str, Phrasings]:
        """A table of phrasings, by name."""
        return {name: each.own_phrasings() for name, each in self.named(key).items()}

    def mapping(self, key: str) -> dict[str, Any]:
        """A table of texts or lists, by name; lists as tuples."""
        return {name: _frozen(value) for name, value in self._values[key].items()}

    def __contains__(self, key: str) -> bool:
        return key in self._values


def read(name: str) -> Data:
    """The file of a module, by `__name__`."""
    return Data(tomllib.loads((FOLDER / f"{name.rpartition('.')[2]}.toml").read_text("utf-8")))


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value
