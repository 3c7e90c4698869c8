"""Names of people, assistants, towns and places, from long lists or made up, so that a model learns to copy them."""

from __future__ import annotations

import random

from .data import read

_DATA = read(__name__)

PEOPLE = _DATA.texts("people")

ASSISTANTS = _DATA.texts("assistants")

CITIES = _DATA.texts("cities")

TITLES = ("Captain", "Doctor", "Professor", "Miss", "Mister", "Lady", "Sir", "Uncle", "Aunt", "Agent", "Little", "Old")

PLACE_NAMES = _DATA.texts("place_names")
PLACE_KINDS = _DATA.texts("place_kinds")

_STARTS = "b c d f g h j k l m n p r s t v w z br dr gr kr tr pl st th sh fl gl".split()
_VOWELS = "a e i o u a e o i ai ee ia".split()
_ENDS = ("", "", "", "", "n", "r", "l", "s", "k", "x", "m", "nd", "rn", "th")
_AVOIDED = ("shit", "fuk", "fag", "nig", "nazi", "rape", "kunt", "dik", "tit", "cum", "pis", "poo", "sex", "jew", "gay")


def made_up(rng: random.Random) -> str:
    """A made-up word of two to four syllables, capitalized."""
    while True:
        syllables = rng.choice((2, 2, 2, 3, 3, 4))
        word = "".join(rng.choice(_STARTS) + rng.choice(_VOWELS) for _ in range(syllables)) + rng.choice(_ENDS)
        if not any(part in word for part in _AVOIDED):
            return word.capitalize()


def person(rng: random.Random) -> str:
    """A person's first name."""
    return rng.choice(PEOPLE) if rng.random() < 0.65 else made_up(rng)


def assistant_name(rng: random.Random) -> str:
    """An assistant's name; sometimes two words."""
    chance = rng.random()
    if chance < 0.35:
        return rng.choice(ASSISTANTS)
    if chance < 0.5:
        return rng.choice(PEOPLE)
    if chance < 0.85:
        return made_up(rng)
    if chance < 0.95:
        return f"{rng.choice(TITLES)} {made_up(rng) if rng.random() < 0.6 else rng.choice(PEOPLE)}"
    return f"{made_up(rng)} {made_up(rng)}"


def city(rng: random.Random) -> str:
    """A town."""
    return rng.choice(CITIES) if rng.random() < 0.6 else made_up(rng)


def place(rng: random.Random) -> str:
    """A shop or house with a name, without an article."""
    first = rng.choice(PLACE_NAMES) if rng.random() < 0.6 else made_up(rng)
    return f"{first} {rng.choice(PLACE_KINDS)}"


def other_than(rng: random.Random, taken: str) -> str:
    """A name of an assistant or a person other than the one given."""
    while (name := assistant_name(rng) if rng.random() < 0.6 else person(rng)) == taken:
        pass
    return name


def with_article(noun: str) -> str:
    """The noun with "a" or "an"."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
