"""What people say to pass the time, by intent, and what the model answers: the part of small talk that is a table."""

from __future__ import annotations

from dataclasses import dataclass

from .data import Data, read
from .grammar import Phrasings


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing people say, the few answers to it, and words of which a right answer has at least one."""

    asked: Phrasings
    answers: tuple[str, ...]
    words: tuple[str, ...]


def intent(data: Data, asked: Phrasings) -> Intent:
    """The intent of a table with `answers` and `words`."""
    return Intent(asked, data.texts("answers"), data.texts("words"))


INTENTS = [intent(each, each.own_phrasings()) for each in read(__name__).tables("intent")]
