"""One thing that a person may want to know: the ways to ask for it, the answer, and how an answer is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .data import read
from .grammar import Check, Phrasings


@dataclass(frozen=True, slots=True)
class Intent:
    """Templates have no capital at the beginning; `{it}` is the product."""

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
