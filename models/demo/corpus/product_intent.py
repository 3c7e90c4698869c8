"""One thing that a person may want to know: the ways to ask for it, the answer, and how an answer is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .grammar import Check, Phrasings


@dataclass(frozen=True, slots=True)
class Intent:
    """Templates stand in one text, with ` / ` between them and no capital at the beginning; `{it}` is the product."""

    name: str
    asked: str
    asked_held_out: str
    answers: Sequence[str]
    check: Check

    @property
    def phrasings(self) -> Phrasings:
        return Phrasings(_templates(self.asked), _templates(self.asked_held_out))


def _templates(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split(" / "))
