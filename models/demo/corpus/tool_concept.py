"""What the table of tools is made of: a thing that tools do, and its parameters."""

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
    """One parameter of a tool. The first of its names is its slot in the templates."""

    names: str
    fill: Fill
    descriptions: str
    type: str = "string"
    enum: Sequence[str] = ()
    optional: bool = False
    spoken: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """How people say a value, where that is not the value itself."""

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
    """What the tool gives back, by the names (`temperature temp`) of the field; nothing for a tool that only acts."""
    derive: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    """The fields of the result that follow from the arguments."""
    carries: bool = True
    """Whether a second question means the first one's arguments where it says no others."""
    together: Callable[[random.Random], dict[str, Any]] = lambda _: {}
    """Values of parameters that must fit each other."""

    def templates(self, split: Split) -> tuple[str, ...]:
        """Questions; one that begins with a small letter is a command that polite words may be put around."""
        return self.texts.texts(split)

    @property
    def names(self) -> tuple[str, ...]:
        """What the tool may be called."""
        return self.texts.texts("names")

    @property
    def descriptions(self) -> tuple[str, ...]:
        """What its definition may say of it."""
        return self.texts.texts("descriptions")

    @property
    def follow(self) -> tuple[str, ...]:
        """What a second question asks for, to be put in `And ...?`."""
        return self.texts.texts("follow")

    @property
    def answers(self) -> tuple[str, ...]:
        """The one with the most slots that can be filled is said."""
        return self.texts.texts("answers")

    @property
    def errors(self) -> str:
        """What can go wrong, with `|` between them."""
        errors: str = self.texts.get("errors", "not allowed")
        return errors
