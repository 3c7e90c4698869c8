"""Short turns of small talk and simple facts, as filler in conversations about something else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .data import read
from .grammar import Message, Split, assistant, say, user

_DATA = read(__name__)


@dataclass(frozen=True, slots=True)
class Fact:
    """A simple question, its answer, and the key word of the answer."""

    question: str
    answer: str
    word: str


_COLORS = _DATA.mapping("colors")
_SOUNDS = _DATA.mapping("sounds")
_OPPOSITES = _DATA.mapping("opposites")
_LEGS = _DATA.mapping("legs")

_COLOR_ASKED = _DATA.phrasings("color_asked")
_SOUND_ASKED = _DATA.phrasings("sound_asked")
_OPPOSITE_ASKED = _DATA.phrasings("opposite_asked")
_LEGS_ASKED = _DATA.phrasings("legs_asked")

_TURNS = _DATA.rows("turns")


def fact(rng: random.Random, split: Split) -> Fact:
    """A simple fact with a one-word answer."""
    topic = rng.choice(("color", "sound", "opposite", "opposite", "legs"))
    if topic == "color":
        it, word = _pick(rng, _COLORS)
        return Fact(_COLOR_ASKED.say(rng, split, it=it), f"{it.capitalize()} is {word}.", word)
    if topic == "sound":
        it, word = _pick(rng, _SOUNDS)
        return Fact(_SOUND_ASKED.say(rng, split, it=it), f"A {it} says {word}.", word)
    if topic == "opposite":
        it, word = _pick(rng, _OPPOSITES)
        return Fact(_OPPOSITE_ASKED.say(rng, split, it=it), f"The opposite of {it} is {word}.", word)
    it, word = _pick(rng, _LEGS)
    animal = f"an {it}" if it[0] in "ao" else f"a {it}"
    return Fact(
        _LEGS_ASKED.say(rng, split, it=animal),
        f"{animal.capitalize()} has {word} legs.",
        "none" if word == "no" else word,
    )


def turn(rng: random.Random) -> list[Message]:
    """One short user turn and its answer."""
    if rng.random() < 0.3:
        known = fact(rng, "train")
        return [user(known.question), assistant(known.answer)]
    question, answer = rng.choice(_TURNS)
    return [user(say(rng, question)), assistant(answer)]


def turns(rng: random.Random, counts: Sequence[int]) -> list[Message]:
    """Short turns; their number is drawn from the counts."""
    return [message for _ in range(rng.choice(counts)) for message in turn(rng)]


def _pick(rng: random.Random, table: dict[str, str]) -> tuple[str, str]:
    """An entry."""
    return rng.choice(list(table.items()))
