"""Reads the sentences and words of the corpus from `data/*.toml`, one file for each module. Knows nothing of their use.

The order in the file matters: the corpus is sampled by index, so moving a line changes the output of a seed.
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
    """One file. A missing key raises `KeyError`; a value of another shape raises `AssertionError`."""

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
        """A list of lists, as tuples; entries may contain lists."""
        rows = _frozen(self._values[key])
        assert isinstance(rows, tuple), key
        return rows

    def phrasings(self, key: str) -> Phrasings:
        """Phrasings for training and for evaluation: `train` and `held_out`."""
        return self.table(key).own_phrasings()

    def own_phrasings(self) -> Phrasings:
        """The phrasings in a table with `train`, `held_out` and other keys."""
        return Phrasings(self.texts("train"), self.texts("held_out"))

    def check(self) -> Check:
        """The check for an answer: `mentions` (all words) or `mentions_one_of`."""
        if "mentions" in self:
            return mentions(*self.texts("mentions"))
        return mentions_one_of(*self.texts("mentions_one_of"))

    def get(self, key: str, default: Any) -> Any:
        """A number, flag, text or list; `default` if the key is missing."""
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
