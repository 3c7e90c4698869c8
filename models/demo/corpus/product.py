"""Questions about localllm and about the demo model itself, each with its one right answer."""

from __future__ import annotations

import random
import re

from .grammar import Example, Generator, Split, assistant, say, user
from .product_intent import read_intents

_SELF = read_intents("product_self")
_OTHERS = [read_intents(f"product_{about}") for about in ("facts", "setup", "usage", "options")]
INTENTS = (*_SELF, *_SELF[:2], *(intent for intents in _OTHERS for intent in intents))
"""People first ask a model what it can do and who it is, so these intents are twice as frequent."""

_NAMES = "[localllm|localllm|localllm|this tool|this program|it]"
_GREETINGS = ("", "", "", "", "", "", "Hi! ", "Hello! ", "Hello. ", "Hey. ", "Hi, ", "Hello, ")
_ANNOUNCEMENTS = ("Tell me: ", "Please tell me: ", "One question: ", "A question: ", "I want to know: ")
_SHORT_FORMS = (
    ("hat is ", "hat's "),
    ("ho is ", "ho's "),
    ("here is ", "here's "),
    ("do not ", "don't "),
    ("I am ", "I'm "),
)


def product(rng: random.Random, split: Split) -> Example:
    """A question about localllm or the model, and its answer."""
    intent = rng.choice(INTENTS)
    question = _tidy(intent.phrasings.say(rng, split, it=say(rng, _NAMES)))
    if rng.random() < 0.15:
        for long, short in _SHORT_FORMS:
            question = question.replace(long, short)
    opening = rng.choice((*_GREETINGS, *_ANNOUNCEMENTS) if question.endswith("?") else _GREETINGS)
    if opening.endswith((". ", "! ")):
        question = _begin_sentence(question)
    return Example(
        kind="product",
        messages=[user(_begin_sentence(opening + question)), assistant(rng.choice(intent.answers))],
        check=intent.check,
    )


def _tidy(text: str) -> str:
    """Without the spaces left by an empty alternative."""
    return re.sub(r" +(?=[?.,](?: |$))", "", " ".join(text.split()))


def _begin_sentence(text: str) -> str:
    """Capitalized, except for names in lower case."""
    return text if text.startswith(("localllm", "llama.cpp", "config.toml")) else text[0].upper() + text[1:]


KINDS: dict[str, Generator] = {"product": product}
