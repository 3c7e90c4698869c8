"""The tabular part of small talk: what people say, by intent, and the answers."""

from __future__ import annotations

from dataclasses import dataclass

from .data import Data, read
from .grammar import Phrasings


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing people say, its few answers, and words of which a right answer has at least one."""

    asked: Phrasings
    answers: tuple[str, ...]
    words: tuple[str, ...]


def intent(data: Data, asked: Phrasings) -> Intent:
    """The intent of a table with `answers` and `words`."""
    return Intent(asked, data.texts("answers"), data.texts("words"))


INTENTS = [intent(each, each.own_phrasings()) for each in read(__name__).tables("intent")]
