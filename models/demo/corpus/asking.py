"""Shared by the question-and-answer kinds: how people phrase questions, and checks of numbers in answers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .data import read
from .grammar import Check, Example, Phrasings, Split, assistant, user

_DATA = read(__name__)

_LEADS = [""] * 12 + [
    "Hi, ", "Hello. ", "Hey, ", "Please tell me, ", "Tell me, ", "A question: ", "Quick question: ",
    "I have a question. ", "Help me, please. ", "So, ", "OK, ",
]  # fmt: skip
_REQUESTS = [("", ".")] * 8 + [
    ("please ", "."), ("can you ", "?"), ("could you ", "?"), ("can you please ", "?"), ("could you please ", "?"),
    ("I want you to ", "."), ("would you ", "?"), ("now ", "."), ("hi, please ", "."), ("hello, can you ", "?"),
    ("", ", please."), ("", " for me."), ("", "!"),
]  # fmt: skip
_STATED = (
    "I ",
    "I'm ",
    "my ",
    "here ",
    "let's ",
    "today ",
    "tomorrow ",
    "it ",
    "it's ",
    "thank",
    "hello",
    "hi",
    "hey",
    "bye",
    "good",
)
"""Beginnings of statements and greetings, which get neither a question mark nor a lead-in."""
_ONES = _DATA.texts("ones")
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answer, a check for other answers, and thoughts before answering."""

    question: str
    answer: str
    check: Check
    thoughts: str = ""

    def example(self, kind: str, thinking: bool = False) -> Example:
        """A conversation of this question only."""
        answer = assistant(self.answer, self.thoughts if thinking else None)
        return Example(kind, [user(self.question), answer], self.check, thinking=thinking)


Intent = Callable[[random.Random, Split], Asked]


def one_of(rng: random.Random, intents: Sequence[tuple[Intent, int]], split: Split) -> Asked:
    """A question with one of these weighted intents."""
    return rng.choices([intent for intent, _ in intents], [weight for _, weight in intents])[0](rng, split)


def ask(rng: random.Random, split: Split, phrasings: Phrasings, **fillers: object) -> str:
    """A phrasing as a person would write it: `put` applied to its text."""
    return put(rng, phrasings.say(rng, split, **fillers))


def put(rng: random.Random, text: str) -> str:
    """Put `text?` as a question, `text.` as a command or a request, and other text as it is."""
    text = re.sub(r"(?<!=) ([?.,])", r"\1", re.sub(r" +", " ", text).strip())
    if not text.endswith(("?", ".")):
        end = "" if text.endswith("!") else rng.choice(("", "", "", "." if text.startswith(_STATED) else "?", "."))
        return capital(text + end)
    if ". " in text:
        return capital(text)
    if text.endswith("."):
        before, after = rng.choice(_REQUESTS)
        after = "." if " me" in text and after == " for me." else after
        return capital(before + text[:-1] + after)
    lead = "" if text.startswith(_STATED) else rng.choice(_LEADS)
    text = lead + (capital(text) if lead.endswith(". ") else text)
    return capital(text[:-1] + ", please?" if rng.random() < 0.03 and not lead and "=" not in text else text)


def capital(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def in_words(number: int) -> str:
    """A number from 0 to 100 in words."""
    if number == 100:
        return "a hundred"
    if number < 20:
        return _ONES[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def numbers_in(text: str) -> list[int]:
    """The numbers in a text; if none are in digits, those up to nineteen in words."""
    numbers = [int(number) for number in re.findall(r"\d+", re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))]
    return numbers or [_ONES.index(word) for word in re.findall(r"[a-z]+", text.lower()) if word in _ONES]


def result_is(result: int, *given: int) -> Check:
    """The answer contains this result, after any `=`, and no numbers besides those in the question."""

    def check(answer: str) -> bool:
        numbers = numbers_in(answer)
        last = numbers_in(answer.rpartition("=")[2])
        right = result in numbers and all(number == result or number in given for number in numbers)
        return right and ("=" not in answer or set(last) == {result})

    return check


def numbers_are(numbers: Sequence[int]) -> Check:
    """The answer's numbers are exactly these, in this order."""
    return lambda answer: numbers_in(answer) == list(numbers)


def says(right: Sequence[str], wrong: Sequence[str] = ()) -> Check:
    """The answer has one of the right words and none of the wrong ones, as whole words, in any case."""

    def has(words: Sequence[str], answer: str) -> bool:
        return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", answer, re.IGNORECASE) for word in words)

    return lambda answer: has(right, answer) and not has(wrong, answer)


def a(noun: str) -> str:
    """The noun with its article."""
    return f"an {noun}" if noun[0] in "aeiou" and not noun.startswith("uni") else f"a {noun}"
