"""Light talk with thoughts before the answer, and thoughts about what the model cannot know."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .asking import put
from .data import read
from .grammar import Check, Example, Generator, Phrasings, Split, assistant, mentions_one_of, user

_DATA = read(__name__)

_NOT_KNOWN = "I am a tiny demo model and I don't know that. A bigger model can help: try `localllm run` with one."


@dataclass(frozen=True, slots=True)
class _Talk:
    """A user's text, the model's thoughts, and its answer."""

    phrasings: Phrasings
    thoughts: Sequence[str]
    answers: Sequence[str]
    check: Check
    weight: int


_TALKS = [
    _Talk(each.own_phrasings(), each.texts("thoughts"), each.texts("answers"), each.check(), each.get("weight", 2))
    for each in _DATA.tables("talk")
]
_TOPICS = _DATA.mapping("topics")
_OUTSIDE = _DATA.phrasings("outside")


def _outside(rng: random.Random, split: Split) -> Example:
    """A question about something that the model has never seen."""
    topic = rng.choice(list(_TOPICS))
    subject = rng.choice(_TOPICS[topic].split("/"))
    question = put(rng, _OUTSIDE.say(rng, split, x=rng.choice((subject, subject, topic))))
    thoughts = rng.choice((
        f"The user asks about {topic}. I don't know that.",
        f"This is about {topic}. I know too little for that, so I say so.",
    ))  # fmt: skip
    return _example(question, thoughts, _NOT_KNOWN, mentions_one_of("don't know", "do not know", "bigger model"))


def _example(question: str, thoughts: str, answer: str, check: Check) -> Example:
    return Example("chat_thinking", [user(question), assistant(answer, thoughts)], check, thinking=True)


def _chat_thinking(rng: random.Random, split: Split) -> Example:
    """Light talk, or something that the model does not know."""
    if rng.random() < 0.25:
        return _outside(rng, split)
    talk = rng.choices(_TALKS, [talk.weight for talk in _TALKS])[0]
    question = put(rng, talk.phrasings.say(rng, split))
    return _example(question, rng.choice(talk.thoughts), rng.choice(talk.answers), talk.check)


KINDS: dict[str, Generator] = {"chat_thinking": _chat_thinking}
