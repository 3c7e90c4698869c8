"""The user asks to repeat parts of the conversation: the last message, the first question, the last answer."""

from __future__ import annotations

import random
import re

from .data import read
from .grammar import Check, Example, Message, Split, assistant, user
from .reference_phrasings import TOLD
from .reference_relatives import ACKNOWLEDGED
from .reference_values import values
from .small_turns import fact, turn, turns

_DATA = read(__name__)

_JUST_SAID = _DATA.phrasings("just_said")
_FIRST_ASKED = _DATA.phrasings("first_asked")
_REPEAT = _DATA.phrasings("repeat")
_IN_CAPITALS = _DATA.phrasings("in_capitals")


def _statement(rng: random.Random) -> str:
    """A statement by the user."""
    key = rng.choice(list(TOLD))
    return TOLD[key].say(rng, "train", **values(rng, key))


def _some_turn(rng: random.Random) -> list[Message]:
    """A short turn: a statement or small talk."""
    if rng.random() < 0.5:
        return [user(_statement(rng)), assistant(rng.choice(ACKNOWLEDGED))]
    return turn(rng)


def _same_words(text: str) -> Check:
    """The answer has these words in this order, in any case and punctuation."""
    wanted = f" {_words(text)} "
    return lambda answer: wanted in f" {_words(answer)} "


def _words(text: str) -> str:
    """The words without punctuation."""
    return " ".join(re.findall(r"[\w']+", text.lower()))


def echoes(rng: random.Random, split: Split) -> Example:
    """The user asks to repeat part of the conversation."""
    ask = rng.choice((_just_said, _first_asked, _repeat, _in_capitals))
    messages, question, answer, check = ask(rng, split)
    return Example("reference", [*messages, user(question), assistant(answer)], check)


_Echo = tuple[list[Message], str, str, Check]


def _just_said(rng: random.Random, split: Split) -> _Echo:
    """What the user said last."""
    messages = [*turns(rng, (0, 0, 1, 2)), *_some_turn(rng)]
    said: str = messages[-2]["content"]
    return messages, _JUST_SAID.say(rng, split), f"You said: {said}", _same_words(said)


def _first_asked(rng: random.Random, split: Split) -> _Echo:
    """The question that the conversation began with."""
    known = fact(rng, split)
    messages = [user(known.question), assistant(known.answer)]
    for _ in range(rng.choice((0, 1, 2, 3, 4))):
        messages += _some_turn(rng)
    answer = f"Your first question was: {known.question}"
    return messages, _FIRST_ASKED.say(rng, split), answer, _same_words(known.question)


def _repeat(rng: random.Random, split: Split) -> _Echo:
    """What the assistant said last."""
    messages = [*turns(rng, (0, 0, 1, 2)), *_some_turn(rng)]
    said: str = messages[-1]["content"]
    return messages, _REPEAT.say(rng, split), said, _same_words(said)


def _in_capitals(rng: random.Random, split: Split) -> _Echo:
    """What the assistant said last, in capital letters."""
    messages = [*turns(rng, (0, 0, 1)), *_some_turn(rng)]
    said: str = messages[-1]["content"]
    same = _same_words(said)
    return messages, _IN_CAPITALS.say(rng, split), said.upper(), lambda answer: answer.isupper() and same(answer)
