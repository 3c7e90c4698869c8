"""Conversations in which the user states something, perhaps corrects it, and asks about it some turns later."""

from __future__ import annotations

import random
from collections.abc import Callable

from .data import read
from .grammar import Check, Example, Generator, Message, Split, assistant, mentions, say, user
from .reference_echoes import echoes
from .reference_phrasings import ASKED, TOLD
from .reference_relatives import ACKNOWLEDGED, NOT_TOLD, relatives
from .reference_values import Values, other_kind, values
from .small_turns import turns

_DATA = read(__name__)

_ANSWERS = _DATA.mapping("answers")
_SAID = _DATA.mapping("said")
_LIKES = ("hobby", "color", "food")

_CORRECTED_AT_ONCE = _DATA.phrasings("corrected_at_once")
_CORRECTED = _DATA.phrasings("corrected")


def _keys(rng: random.Random) -> list[str]:
    """The things to state: one to four, with at most one favourite."""
    like = rng.choice(_LIKES)
    known = [key for key in _ANSWERS if key not in _LIKES or key == like]
    return rng.sample(known, rng.choice((1, 1, 2, 2, 3, 4)))


def _acknowledged(rng: random.Random, told: dict[str, Values]) -> str:
    """The assistant's replies to statements."""
    if "name" in told:
        return f"Nice to meet you, {told['name']['value']}!"
    return rng.choice(ACKNOWLEDGED)


def _tell(rng: random.Random, split: Split, facts: dict[str, Values]) -> list[Message]:
    """The user states these things, one or two per turn, with small talk in between."""
    messages: list[Message] = []
    keys = list(facts)
    while keys:
        together = [keys.pop(0) for _ in range(min(len(keys), rng.choice((1, 1, 1, 2))))]
        text = " ".join(TOLD[key].say(rng, split, **facts[key]) for key in together)
        messages += [user(text), assistant(_acknowledged(rng, {key: facts[key] for key in together}))]
        if keys and len(facts) < 4 and rng.random() < 0.4:
            messages += turns(rng, (1,))
    return messages


def _until_eight(rng: random.Random, messages: list[Message], counts: tuple[int, ...]) -> list[Message]:
    """Small talk, of a length that leaves the user one more turn within eight."""
    room = 7 - len(messages) // 2
    return turns(rng, [count for count in counts if count <= room] or [0])


def _recall(rng: random.Random, split: Split) -> Example:
    """The user states things and asks about one."""
    facts = {key: values(rng, key) for key in _keys(rng)}
    messages = [*turns(rng, (0, 0, 0, 1)), *_tell(rng, split, facts)]
    messages += _until_eight(rng, messages, (0, 0, 1, 1, 2, 3, 4, 5, 6))
    if rng.random() < 0.15:
        question = _question_about_unstated(rng, split, facts)
        return Example("reference", [*messages, user(question), assistant(NOT_TOLD)], mentions("not told"))
    asks = rng.choice((1, 1, 1, 2)) if len(messages) < 14 else 1
    for key in rng.sample(list(facts), min(len(facts), asks)):
        messages += [user(ASKED[key].say(rng, split, **facts[key])), assistant(say(rng, _ANSWERS[key], **facts[key]))]
    return Example("reference", messages, _right(key, facts[key]))


def _right(key: str, told: Values) -> Check:
    """The answer contains what was stated; for a list, every item."""
    return mentions(*(told["value"].replace(" and ", ", ").split(", ") if key == "list" else [told["value"]]))


def _question_about_unstated(rng: random.Random, split: Split, facts: dict[str, Values]) -> str:
    """A question about something that was not stated."""
    if "pet" in facts and rng.random() < 0.5:
        return ASKED["pet"].say(rng, split, kind=other_kind(rng, facts["pet"]["kind"]))
    likes = any(key in facts for key in _LIKES)
    key = rng.choice([key for key in _ANSWERS if key not in facts and not (key == "hobby" and likes)])
    return ASKED[key].say(rng, split, **values(rng, key))


def reference(rng: random.Random, split: Split) -> Example:
    """A question about something said in the conversation."""
    return rng.choices((_recall, relatives, echoes), (55, 22, 23))[0](rng, split)


def rehearsed(rng: random.Random, filler: Callable[[], list[Message]], num_words: int) -> Example:
    """The user states several things and asks about each once, ever later, with so many words of other talk."""
    like = rng.choice(_LIKES)
    known = [key for key in _ANSWERS if key not in _LIKES or key == like]
    facts = {key: values(rng, key) for key in rng.sample(known, rng.randint(3, 6))}
    messages = _tell(rng, "train", facts)
    for key in rng.sample(list(facts), len(facts)):
        between: list[Message] = []
        while sum(len(str(message["content"]).split()) for message in between) < num_words / len(facts):
            between += filler()
        messages += between
        messages += [user(ASKED[key].say(rng, "train", **facts[key])), assistant(say(rng, _ANSWERS[key], **facts[key]))]
    return Example("reference", messages, _right(key, facts[key]))


def correction(rng: random.Random, split: Split) -> Example:
    """The user corrects a statement and often asks about it later."""
    key = rng.choice(list(_SAID))
    told = values(rng, key)
    old, fixed = told["value"], _other(rng, key, told)
    facts = {other: values(rng, other) for other in _keys(rng)[:2] if other != key and other not in _LIKES}
    messages = _tell(rng, split, facts) if rng.random() < 0.4 else []
    messages += _tell(rng, split, {key: told})
    messages += _until_eight(rng, messages, (0, 0, 0, 1, 2))
    at_once = messages[-2]["content"].find(old) >= 0 and rng.random() < 0.6
    if at_once:
        text = _CORRECTED_AT_ONCE.say(rng, split, new=fixed["value"], old=old)
    else:
        said = say(rng, rng.choice(_SAID[key]), **fixed)
        text = _CORRECTED.say(rng, split, said=said, old=old, old_capital=told["capital"])
    answer = say(rng, _ANSWERS[key], **fixed)
    messages += [user(text), assistant(f"Okay, {answer[0].lower()}{answer[1:]}")]
    if rng.random() < 0.7:
        messages += _until_eight(rng, messages, (0, 0, 1, 1, 2, 3))
        messages += [user(ASKED[key].say(rng, split, **fixed)), assistant(answer)]
    new_one, old_one = mentions(fixed["value"]), mentions(old)
    return Example("correction", messages, lambda text: new_one(text) and not old_one(text))


def _other(rng: random.Random, key: str, told: Values) -> Values:
    """Another value of the same thing; neither contains the other."""
    while True:
        fixed = {**told, **values(rng, key), **({"kind": told["kind"]} if "kind" in told else {})}
        if fixed["value"] not in told["value"] and told["value"] not in fixed["value"]:
            return fixed


KINDS: dict[str, Generator] = {"reference": reference, "correction": correction}
