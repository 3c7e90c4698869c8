"""Questions about the last story, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .data import Data, read
from .grammar import Phrasings

_HERO = {"HERO": "[{hero}|the {kind}|{he}]", "HIM": "[{hero}|the {kind}|{him}]"}
"""Any way to refer to the hero."""


@dataclass(frozen=True, slots=True)
class Question:
    """Phrasings, the answer, and a word that a right answer has; templates with the slots of a cast."""

    ask: Phrasings
    answer: str
    key: str


_DATA = read(__name__)
_PATTERNS = _DATA.all_phrasings("pattern")


def _question(data: Data) -> Question:
    """With its own phrasings, or those of a `pattern` and the words to fill it with."""
    words = {word: data.text(word) for word in ("VERB", "PAST", "DID") if word in data}
    ask = _PATTERNS[data.text("pattern")] if "pattern" in data else data.own_phrasings()
    told = Phrasings(_put(ask.train, words), _put(ask.held_out, words))
    return Question(told, data.text("answer"), data.text("key"))


def _put(templates: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The templates with words for their slots; the hero's last, since other words may mention the hero."""
    filled = []
    for template in templates:
        for word, meant in {**words, **_HERO}.items():
            template = template.replace(word, meant)
        filled.append(template)
    return filled


COMMON = {name: _question(each) for name, each in _DATA.named("common").items()}
BY_PLOT = {name: _question(each) for name, each in _DATA.named("by_plot").items()}
