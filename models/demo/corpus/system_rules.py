"""Rules in a system message that the answers follow: words, case, a name for the user, and notes to use."""

from __future__ import annotations

import random
from collections.abc import Callable

from .data import read
from .grammar import Check, Example, Message, Split, assistant, mentions, say, system, user
from .name_lists import made_up, person
from .small_turns import fact, turn
from .system_notes import notes

_DATA = read(__name__)

_END_WITH = _DATA.phrasings("end_with")
_START_WITH = _DATA.phrasings("start_with")
_ONE_WORD = _DATA.phrasings("one_word")
_CAPITALS = _DATA.phrasings("capitals")
_CALL_USER = _DATA.phrasings("call_user")
_END_WORDS = _DATA.texts("end_words")
_START_WORDS = _DATA.texts("start_words")
_TITLES = _DATA.texts("titles")
_GREETED = _DATA.phrasings("greeted")
_THANKED = _DATA.phrasings("thanked")
_LEFT = _DATA.phrasings("left")

_Answer = Callable[[str, str], str]


def _exchange(rng: random.Random, split: Split) -> tuple[str, str, str]:
    """The user's text, the plain answer, and its key word."""
    chance = rng.random()
    if chance < 0.55:
        known = fact(rng, split)
        return known.question, known.answer, known.word if known.word != "none" else "no"
    if chance < 0.8:
        return _GREETED.say(rng, split), "Hello! How can I help you?", "hello"
    if chance < 0.9:
        return _THANKED.say(rng, split), "You are welcome.", "welcome"
    return _LEFT.say(rng, split), "Goodbye!", "goodbye"


def _followed(rng: random.Random, split: Split, rule: str, follow: Callable[[str], str], fits: Check) -> Example:
    """A conversation of one to three exchanges whose answers follow the rule."""
    messages: list[Message] = [system(rule)]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        if rng.random() < 0.5:
            question, answer, _word = _exchange(rng, "train")
        else:
            asked, answered = turn(rng)
            question, answer = asked["content"], answered["content"]
        messages += [user(question), assistant(follow(answer))]
    question, answer, word = _exchange(rng, split)
    messages += [user(question), assistant(follow(answer))]
    about = mentions(word)
    return Example("system_role", messages, lambda text: fits(text) and about(text))


def _with_manner(rng: random.Random, rule: str) -> str:
    """The rule, sometimes among filler."""
    chance = rng.random()
    if chance < 0.6:
        return rule
    before = say(
        rng, "[You are a helpful assistant.|You are a friendly assistant.|Help the user.|Be kind.|Be friendly.]"
    )
    return f"{before} {rule}" if chance < 0.9 else f"{rule} {before}"


def _end_with(rng: random.Random, split: Split) -> Example:
    """Every answer ends with a word."""
    word = rng.choice(_END_WORDS) if rng.random() < 0.6 else made_up(rng).lower()
    rule = _with_manner(rng, _END_WITH.say(rng, split, word=f'"{word}"' if rng.random() < 0.3 else word))
    ending = word.capitalize()
    return _followed(
        rng, split, rule, lambda answer: f"{answer} {ending}.", lambda text: text.lower().rstrip(' .!"').endswith(word)
    )


def _start_with(rng: random.Random, split: Split) -> Example:
    """Every answer starts with a word."""
    word = rng.choice(_START_WORDS) if rng.random() < 0.6 else made_up(rng)
    rule = _with_manner(rng, _START_WITH.say(rng, split, word=word))
    return _followed(
        rng, split, rule, lambda answer: f"{word}! {answer}", lambda text: text.strip().lower().startswith(word.lower())
    )


def _capitals(rng: random.Random, split: Split) -> Example:
    """Every answer is in capital letters."""
    return _followed(rng, split, _with_manner(rng, _CAPITALS.say(rng, split)), str.upper, str.isupper)


def _one_word(rng: random.Random, split: Split) -> Example:
    """Every answer is one word."""
    messages = [system(_with_manner(rng, _ONE_WORD.say(rng, split)))]
    for _ in range(rng.choice((0, 0, 1, 2))):
        known = fact(rng, "train")
        messages += [user(known.question), assistant(f"{known.word.capitalize()}.")]
    known = fact(rng, split)
    messages += [user(known.question), assistant(f"{known.word.capitalize()}.")]
    return Example("system_role", messages, lambda text: text.strip(" .!").lower() == known.word)


def _call_user(rng: random.Random, split: Split) -> Example:
    """Every answer calls the user by a name."""
    name = rng.choice(_TITLES) if rng.random() < 0.4 else person(rng)
    written = name.capitalize() if rng.random() < 0.4 and " " not in name else name
    rule = _with_manner(rng, _CALL_USER.say(rng, split, word=written).strip())
    return _followed(rng, split, rule, lambda answer: _addressed(answer, written), mentions(name))


def _addressed(answer: str, name: str) -> str:
    """The answer, with the first sentence addressing somebody by name."""
    end = min(at for mark in ".!?" if (at := answer.find(mark)) >= 0)
    return f"{answer[:end]}, {name}{answer[end:]}"


def system_role(rng: random.Random, split: Split) -> Example:
    """The answers follow a system message."""
    if rng.random() < 0.45:
        return notes(rng, split)
    rules = (_end_with, _start_with, _capitals, _one_word, _call_user, _call_user)
    return rng.choice(rules)(rng, split)
