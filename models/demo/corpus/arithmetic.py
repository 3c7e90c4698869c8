"""Small sums: addition, subtraction, multiplication, doubling and halving, as bare sums and in tiny stories."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from .asking import Asked, Intent, ask, capital, in_words, one_of, result_is
from .counting import KINDS as COUNTING
from .data import read
from .grammar import Example, Generator, Phrasings, Split, say

_DATA = read(__name__)

_PLUS = _DATA.phrasings("plus")
_MINUS = _DATA.phrasings("minus")
_TIMES = _DATA.phrasings("times")
_HALF = _DATA.phrasings("half")
_DOUBLE = _DATA.phrasings("double")
_STORY_MORE = _DATA.phrasings("story_more")
_STORY_LESS = _DATA.phrasings("story_less")
_STORY_GROUPS = _DATA.phrasings("story_groups")
_THINGS = _DATA.texts("things")
_NAMES = _DATA.texts("names")
_STARTS = _DATA.texts("starts")
_ENDS = "lan lena lina lo mar mina na nik nor ra ren rik rin sa sel tor va vin von zan".split()
_SIGN = re.compile(r"[-+=*/]|} ?x ?{")


@dataclass(frozen=True, slots=True)
class _Sum:
    """Two numbers and an operation."""

    a: int
    sign: str
    b: int

    @property
    def result(self) -> int:
        """The result."""
        return {"+": self.a + self.b, "-": self.a - self.b, "x": self.a * self.b}[self.sign]

    def __str__(self) -> str:
        return f"{self.a} {self.sign} {self.b}"


def _numbers(rng: random.Random, sign: str) -> _Sum:
    """A sum the model can learn; small numbers are overrepresented."""
    if sign == "x":
        return _Sum(rng.randint(rng.choice((0, 2, 2, 2)), 10), sign, rng.randint(rng.choice((1, 2, 2)), 10))
    most = rng.choice((10, 20, 50, 50))
    a, b = rng.randint(0, most), rng.randint(0, rng.choice((10, most)))
    return _Sum(max(a, b), sign, min(a, b)) if sign == "-" else _Sum(a, sign, b)


def _working(task: _Sum) -> str:
    """One or two sentences that work out a sum in easier steps."""
    a, b = task.a, task.b
    if task.sign == "x":
        return _working_times(a, b)
    if task.sign == "+" and a < 10 <= b:
        return f"{task} is the same as {b} + {a}. {_working_step(_Sum(b, '+', a))}"
    return _working_step(task)


def _working_step(task: _Sum) -> str:
    """Tens first, then ones; carries go through the next ten."""
    a, sign, b = task.a, task.sign, task.b
    step = 1 if sign == "+" else -1
    tens, ones = b - b % 10, b % 10
    if tens and ones:
        middle = a + step * tens
        return f"{a} {sign} {tens} = {middle}, and {middle} {sign} {ones} = {task.result}."
    to_ten = (10 - a % 10) % 10 if sign == "+" else a % 10
    if not tens and 0 < to_ten < ones:
        ten = a + step * to_ten
        return f"{a} {sign} {to_ten} = {ten}, and {ten} {sign} {ones - to_ten} = {task.result}."
    if a > 10 and ones and not (sign == "+" and a % 10 == 0):
        last = a % 10 or 10
        return f"{last} {sign} {ones} = {last + step * ones}, so {task} = {task.result}."
    return f"{task} = {task.result}."


def _working_times(a: int, b: int) -> str:
    """Counting in steps of the second number, starting from five times it if that helps."""
    if a < 2 or b < 2:
        return f"{a} x {b} = {a * b}."
    if a == 10 or b == 10:
        return f"Ten times {a + b - 10} is {a + b - 10} with a 0 after it, so it is {a * b}."
    if a <= 5:
        return f"I count in steps of {b}: {', '.join(str(b * n) for n in range(1, a + 1))}."
    return f"5 x {b} = {5 * b} and {a - 5} x {b} = {(a - 5) * b}. {5 * b} + {(a - 5) * b} = {a * b}."


def _bare(sign: str, phrasings: Phrasings) -> Intent:
    """Questions that consist only of a sum."""

    def asked(rng: random.Random, split: Split) -> Asked:
        task = _numbers(rng, sign)
        question = _fill(rng, ask(rng, split, phrasings, a="{a}", b="{b}"), task.a, task.b)
        thoughts = f"I need {task}. {_working(task)}"
        return Asked(question, f"{task} = {task.result}.", result_is(task.result, task.a, task.b), thoughts)

    return asked


def _fill(rng: random.Random, text: str, a: int, b: int = 0) -> str:
    """Fill in the numbers, sometimes as words if there is no sign between them."""
    write = in_words if rng.random() < 0.3 and not _SIGN.search(text) else str
    return capital(say(rng, text, a=write(a), b=write(b)))


def _half(rng: random.Random, split: Split) -> Asked:
    half = rng.randint(1, rng.choice((10, 25, 50)))
    whole = 2 * half
    question = _fill(rng, ask(rng, split, _HALF, a="{a}"), whole)
    tens, ones = whole - whole % 10, whole % 10
    working = f"{half} + {half} = {whole}."
    if whole > 20 and ones:
        working = (
            f"Half of {tens} is {tens // 2} and half of {ones} is {ones // 2}. {tens // 2} + {ones // 2} = {half}."
        )
    return Asked(
        question, f"Half of {whole} is {half}.", result_is(half, whole, 2), f"I need half of {whole}. {working}"
    )


def _double(rng: random.Random, split: Split) -> Asked:
    n = rng.randint(1, rng.choice((10, 25, 50)))
    question = _fill(rng, ask(rng, split, _DOUBLE, a="{a}"), n)
    thoughts = f"Double {n} means {n} + {n}. {_working_step(_Sum(n, '+', n))}"
    return Asked(question, f"Double {n} is {2 * n}.", result_is(2 * n, n, 2), thoughts)


def _story(rng: random.Random, split: Split) -> Asked:
    """A tiny story that asks how many there are in the end."""
    sign, phrasings, why = rng.choice((
        ("+", _STORY_MORE, "More are added, so"), ("-", _STORY_LESS, "Some are gone, so"),
        ("x", _STORY_GROUPS, "The parts are equal, so"),
    ))  # fmt: skip
    low, high = (2, 10) if sign == "x" else (2, 20)
    b, a = sorted((rng.randint(low, high), rng.randint(low, high)))
    if sign == "-" and a == b:
        a += 1
    elif sign == "+" and rng.random() < 0.5:
        a, b = b, a
    task = _Sum(a, sign, b)
    one, many = rng.choice(_THINGS).split("/")
    name, other = _name(rng), _name(rng)
    while other == name:
        other = _name(rng)
    question = phrasings.say(
        rng, split, name=name, other=other, things=many, a=a, b=b,
        some_a=f"{a} {many}", some_b=f"{b} {many}",
    )  # fmt: skip
    answer = f"{task} = {task.result}, so the answer is {task.result} {one if task.result == 1 else many}."
    thoughts = f"{why} I need {task}. {_working(task)}"
    return Asked(question, answer, result_is(task.result, a, b), thoughts)


def _name(rng: random.Random) -> str:
    """A first name, made up half of the time."""
    return rng.choice(_NAMES) if rng.random() < 0.5 else rng.choice(_STARTS) + rng.choice(_ENDS)


_INTENTS: tuple[tuple[Intent, int], ...] = (
    (_bare("+", _PLUS), 6), (_bare("-", _MINUS), 5), (_bare("x", _TIMES), 4), (_half, 2), (_double, 2), (_story, 4),
)  # fmt: skip


def _sums(rng: random.Random, split: Split) -> Example:
    """A sum, answered at once."""
    return one_of(rng, _INTENTS, split).example("sums")


def _sums_thinking(rng: random.Random, split: Split) -> Example:
    """A sum, first worked out in thoughts."""
    return one_of(rng, _INTENTS, split).example("sums_thinking", thinking=True)


KINDS: dict[str, Generator] = {**COUNTING, "sums": _sums, "sums_thinking": _sums_thinking}
