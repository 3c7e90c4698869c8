"""One thing that a user may want to know: phrasings, the answer, and how answers are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .data import read
from .grammar import Check, Phrasings


@dataclass(frozen=True, slots=True)
class Intent:
    """Templates begin in lower case; `{it}` is the product."""

    name: str
    phrasings: Phrasings
    answers: Sequence[str]
    check: Check


def read_intents(name: str) -> list[Intent]:
    """Those of one data file."""
    return [
        Intent(each.text("name"), each.own_phrasings(), each.texts("answers"), each.check())
        for each in read(name).tables("intent")
    ]
