"""The rows of the table of tools: something that tools do, and its parameters."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .data import Data
from .grammar import Split
from .tool_fillers import Fill


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a tool. Its first name is its slot in the templates."""

    names: str
    fill: Fill
    descriptions: str
    type: str = "string"
    enum: Sequence[str] = ()
    optional: bool = False
    spoken: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """How people say a value, where it differs from the value."""

    @property
    def key(self) -> str:
        """Its slot."""
        return self.names.split()[0]


@dataclass(frozen=True, slots=True)
class Concept:
    """What a tool can do, and how people ask for it."""

    key: str
    texts: Data
    """Its names, descriptions, templates and answers."""
    params: Sequence[Param]
    result: Mapping[str, Fill] = field(default_factory=dict)
    """The tool's result, by the names (`temperature temp`) of its fields; empty for a tool that only acts."""
    derive: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    """The fields of the result that follow from the arguments."""
    carries: bool = True
    """Whether a second question inherits the first one's arguments unless it gives others."""
    together: Callable[[random.Random], dict[str, Any]] = lambda _: {}
    """Values of parameters that must match each other."""

    def templates(self, split: Split) -> tuple[str, ...]:
        """Questions; one that begins in lower case is a command that may be made polite."""
        return self.texts.texts(split)

    @property
    def names(self) -> tuple[str, ...]:
        """Possible names of the tool."""
        return self.texts.texts("names")

    @property
    def descriptions(self) -> tuple[str, ...]:
        """Possible descriptions of the tool."""
        return self.texts.texts("descriptions")

    @property
    def follow(self) -> tuple[str, ...]:
        """What a second question asks for, as in `And ...?`."""
        return self.texts.texts("follow")

    @property
    def answers(self) -> tuple[str, ...]:
        """The one with the most fillable slots is used."""
        return self.texts.texts("answers")

    @property
    def errors(self) -> str:
        """What can go wrong, with `|` between them."""
        errors: str = self.texts.get("errors", "not allowed")
        return errors
