"""Questions beyond a tiny model's knowledge, answered by saying so."""

from __future__ import annotations

import random

from .data import read
from .grammar import Example, Generator, Split, assistant, mentions, user
from .small_talk import made_word, tidy
from .unknown_questions import (
    CODES,
    COUNTRIES,
    DEEDS,
    DISEASES,
    DISHES,
    FIRST_NAMES,
    KNOWN_PEOPLE,
    LANGUAGES,
    ONES,
    PLANETS,
    QUESTIONS,
    THINGS,
    TITLE_ENDS,
    TITLE_STARTS,
    WORDS,
)

_DATA = read(__name__)

ANSWERS = _DATA.texts("answers")
OPENINGS = ("Hey! ", "Hello! ", "Can you help me? ", "Please tell me: ", "I want to know: ", "Question: ")
"""Lead-ins to a question; the first three also to requests."""


def made_name(rng: random.Random) -> str:
    """A made-up name of a person or place."""
    return made_word(rng, rng.choice([2, 2, 3])).capitalize()


def a_place(rng: random.Random) -> str:
    """A country or city, real or made up."""
    return rng.choice(COUNTRIES) if rng.random() < 0.6 else made_name(rng)


def a_person(rng: random.Random) -> str:
    """Someone famous or unknown."""
    if rng.random() < 0.4:
        return rng.choice(KNOWN_PEOPLE)
    return f"{rng.choice(FIRST_NAMES)} {made_name(rng)}"


def a_thing(rng: random.Random) -> str:
    """A topic, sometimes a made-up word."""
    return rng.choice(THINGS) if rng.random() < 0.85 else f"{rng.choice(['a', 'the'])} {made_name(rng).lower()}"


def a_big_number(rng: random.Random) -> int:
    """A number too large for the model."""
    return rng.randrange(1001, 10 ** rng.randint(4, 7))


def fillers(rng: random.Random) -> dict[str, object]:
    """A filler for each slot."""
    thing, other_thing = rng.sample(THINGS, 2)
    return {
        "place": a_place(rng),
        "other_place": made_name(rng) if rng.random() < 0.5 else rng.choice(COUNTRIES),
        "person": a_person(rng),
        "thing": thing if rng.random() < 0.8 else a_thing(rng),
        "other_thing": other_thing,
        "one": rng.choice(ONES),
        "planet": rng.choice(PLANETS),
        "disease": rng.choice(DISEASES),
        "deed": rng.choice(DEEDS),
        "dish": rng.choice(DISHES),
        "word": rng.choice(WORDS),
        "language": rng.choice(LANGUAGES),
        "code": rng.choice(CODES),
        "title": f"{rng.choice(TITLE_STARTS)} {rng.choice(TITLE_ENDS)}",
        "team": made_name(rng) if rng.random() < 0.5 else rng.choice(COUNTRIES),
        "stock": rng.choice(["gold", "oil", "silver", "bitcoin"]) if rng.random() < 0.4 else made_name(rng),
        "year": rng.randrange(800, 2040),
        "big": a_big_number(rng),
        "other_big": a_big_number(rng),
    }


def unknown(rng: random.Random, split: Split) -> Example:
    """A question or request beyond the model."""
    question = tidy(QUESTIONS.say(rng, split, **fillers(rng)))
    question = question[:1].upper() + question[1:]
    if split == "train" and rng.random() < 0.12:
        opening = rng.choice(OPENINGS if question.endswith("?") else OPENINGS[:3])
        question = opening + question
    return Example("unknown", [user(question), assistant(rng.choice(ANSWERS))], mentions("tiny demo model"))


KINDS: dict[str, Generator] = {"unknown": unknown}
