"""What the table of tools is made of: a thing that tools do, and its parameters."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    """What a tool can do, under many names. Templates stand one a line; `|` separates the alternatives elsewhere."""

    key: str
    names: str
    descriptions: str
    params: Sequence[Param]
    train: str
    """A template that begins with a small letter is a command that polite words may be put around."""
    held_out: str
    follow: str
    """What a second question asks for, to be put in `And ...?`."""
    answers: str
    """The one with the most slots that can be filled is said."""
    result: Mapping[str, Fill] = field(default_factory=dict)
    """What the tool gives back, by the names (`temperature temp`) of the field; nothing for a tool that only acts."""
    errors: str = "not allowed"
    derive: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    """The fields of the result that follow from the arguments."""
    carries: bool = True
    """Whether a second question means the first one's arguments where it says no others."""
    together: Callable[[random.Random], dict[str, Any]] = lambda _: {}
    """Values of parameters that must fit each other."""
