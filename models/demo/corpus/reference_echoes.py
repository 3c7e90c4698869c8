"""The user asks for words of this conversation again: the last message, the first question, the last answer."""

from __future__ import annotations

import random
import re

from .grammar import Check, Example, Message, Phrasings, Split, assistant, user
from .reference_phrasings import TOLD
from .reference_relatives import ACKNOWLEDGED
from .reference_values import values
from .small_turns import fact, turn, turns

_JUST_SAID = Phrasings(
    (
        "What did I just say?", "What did I say[ just now|]?", "What have I just said?", "Repeat what I [just |]said.",
        "[Can|Could] you repeat what I [just |]said?", "Say again what I said.", "What was my last message?",
        "Tell me what I just said.", "What was the last thing I said?", "Do you remember what I just said?",
        "Repeat my last message[, please|].", "Repeat my words.", "My last message?", "What did I tell you just now?",
        "What did I just tell you?", "What did I write[ just now|]?", "What did I just write?", "Say what I just said.",
        "Do you know what I just said?", "Write my last message again.", "And what did I say?",
    ),
    (
        "Please repeat what I just said.", "Can you tell me what I just said?", "Do you remember my last message?",
        "What did I say in my last message?",
    ),
)  # fmt: skip
_FIRST_ASKED = Phrasings(
    (
        "What was my first question?", "[What's|What is] the first question I asked?", "My first question?",
        "Repeat my first question[, please|].", "What did I ask first?", "What did I ask you first?",
        "What did I first ask?", "Do you remember my first question?", "Tell me my first question.",
        "Which question did I ask first?", "[Can|Could] you repeat my first question?",
        "What was the first thing I asked[ you|]?", "Say my first question.", "What question did I ask first?",
        "What did I ask at the start?", "What was my question at the start?", "Do you still know my first question?",
        "What was the very first question?", "And what was my first question?", "With which question did I start?",
        "Write my first question again.",
    ),
    (
        "Please tell me my first question.", "Do you remember what I asked first?",
        "What was the first question I asked you?", "Which question was my first?",
    ),
)  # fmt: skip
_REPEAT = Phrasings(
    (
        "Repeat your last answer[, please|].", "[Please repeat|Repeat] that[, please|].", "Say that again[, please|].",
        "[Can|Could] you [say|repeat] that again?", "[Can|Could] you repeat that?", "What did you say?",
        "What did you just say?", "What was your last answer?", "Once more[, please|].", "Again[, please|].",
        "Say it again.", "Repeat what you [just |]said.", "Say your last answer again.",
        "I did not hear that. Say it again.", "Sorry, what did you say?", "Sorry, what?", "Tell me again.",
        "Your last answer again, please.", "Pardon?", "Say the same again.", "Give me your last answer again.",
        "I did not get that. Repeat it.", "One more time.",
    ),
    (
        "Please say your last answer again.", "Could you say it again?", "Can you repeat your last answer?",
        "Sorry, I did not hear you. Repeat that, please.",
    ),
)  # fmt: skip
_IN_CAPITALS = Phrasings(
    (
        "Say that again in [capital letters|capitals].", "Repeat that in [capital letters|capitals].",
        "Now in [capital letters|capitals].", "Write that in [capital letters|capitals].",
        "In capital letters, please.", "[Can|Could] you say that in capital letters?", "The same in capital letters.",
        "Again, in capital letters.", "Say it again in big letters.", "Write it in [upper case|big letters].",
        "Please repeat it in capital letters.", "Repeat your last answer in [capital letters|capitals].",
        "Once more in capital letters.", "Now say it in capitals.", "Write your last answer in capital letters.",
        "Say your last answer in capital letters.", "All in capitals, please.",
        "[Can|Could] you write it in capital letters?", "Put that in capital letters.",
        "I want that in capital letters.",
    ),
    (
        "Please say it again in capital letters.", "Could you repeat that in capital letters?",
        "Now the same in capitals.", "Can you write your last answer in capitals?",
    ),
)  # fmt: skip


def _told(rng: random.Random) -> str:
    """Something the user tells."""
    key = rng.choice(list(TOLD))
    return TOLD[key].say(rng, "train", **values(rng, key))


def _some_turn(rng: random.Random) -> list[Message]:
    """A short turn: something told, or small talk."""
    if rng.random() < 0.5:
        return [user(_told(rng)), assistant(rng.choice(ACKNOWLEDGED))]
    return turn(rng)


def _same_words(text: str) -> Check:
    """The answer has these words in this order, whatever their case and marks."""
    wanted = f" {_words(text)} "
    return lambda answer: wanted in f" {_words(answer)} "


def _words(text: str) -> str:
    """Only the words."""
    return " ".join(re.findall(r"[\w']+", text.lower()))


def echoes(rng: random.Random, split: Split) -> Example:
    """Words of this conversation are asked for again."""
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
