"""Counting: up, down and in steps, neighbours, comparing, even and odd, letters in a word, things in a list."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from .asking import Asked, Intent, ask, numbers_are, numbers_in, one_of, result_is, says
from .data import read
from .grammar import Check, Example, Generator, Split

_DATA = read(__name__)

_UP = _DATA.phrasings("up")
_TO = _DATA.phrasings("to")
_DOWN = _DATA.phrasings("down")
_STEPS = _DATA.phrasings("steps")
_STEPS_TO = _DATA.phrasings("steps_to")
_NEXT = _DATA.phrasings("next")
_COMPARE = _DATA.phrasings("compare")
_EVEN_OR_ODD = _DATA.phrasings("even_or_odd")
_IS_IT = _DATA.phrasings("is_it")
_SPELLED = _DATA.phrasings("spelled")
_LISTED = _DATA.phrasings("listed")
_LETTERS = _DATA.phrasings("letters")
_LETTER_NEXT = _DATA.phrasings("letter_next")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_STEP_NAMES = {2: "twos", 3: "threes", 5: "fives", 10: "tens"}
_WORDS = _DATA.texts("words")
_ITEMS = _DATA.texts("items")


def _span(rng: random.Random) -> tuple[int, int]:
    """The ends of a short run of numbers below a hundred."""
    start = rng.choice((0, 1, 1, 1, rng.randint(2, 20), rng.randint(2, 20), rng.randint(20, 95)))
    return start, min(start + rng.randint(2, 14), 99)


def _list(numbers: Sequence[int], question: str) -> Asked:
    """An answer of only these numbers."""
    return Asked(question, ", ".join(map(str, numbers)) + ".", numbers_are(numbers))


def _up(rng: random.Random, split: Split) -> Asked:
    a, b = _span(rng)
    if rng.random() < 0.3:
        b = rng.randint(3, 15)
        return _list(range(1, b + 1), ask(rng, split, _TO, b=b))
    return _list(range(a, b + 1), ask(rng, split, _UP, a=a, b=b))


def _down(rng: random.Random, split: Split) -> Asked:
    a, b = _span(rng)
    return _list(range(b, a - 1, -1), ask(rng, split, _DOWN, a=b, b=a))


def _steps(rng: random.Random, split: Split) -> Asked:
    step = rng.choice((2, 2, 3, 5, 5, 10, 10))
    first, count = rng.randint(0, 5) * step, rng.randint(3, 10)
    whole = rng.random() < 0.5
    numbers = list(range(step if whole else first, 101, step))[:count]
    fillers = {"steps": _STEP_NAMES[step], "step": step, "a": numbers[0], "b": numbers[-1]}
    return _list(numbers, ask(rng, split, _STEPS_TO if whole else _STEPS, **fillers))


def _next(rng: random.Random, split: Split) -> Asked:
    side, by = rng.choice((("after", 1), ("before", -1)))
    n = rng.randint(1, rng.choice((20, 99)))
    answer = f"{side.capitalize()} {n} comes {n + by}."
    return Asked(ask(rng, split, _NEXT, side=side, n=n), answer, result_is(n + by, n))


def _compare(rng: random.Random, split: Split) -> Asked:
    more, want = rng.choice((("bigger", max), ("larger", max), ("greater", max), ("smaller", min), ("smaller", min)))
    a, b = rng.sample(range(rng.choice((21, 100))), 2)
    best = want(a, b)
    question = ask(rng, split, _COMPARE, more=more, a=a, b=b)
    rest = a + b - best
    right = result_is(best, rest)
    answer = f"{best} is {'bigger' if want is max else 'smaller'} than {rest}."
    return Asked(question, answer, lambda text: right(text) and numbers_in(text)[:1] == [best])


def _parity(n: int, yes: bool | None) -> Check:
    """The answer states the property of `n` and no other number, without the opposite or the wrong yes or no."""
    right, wrong = ("odd", "even") if n % 2 else ("even", "odd")
    said = says([right], [wrong, *([] if yes is None else ["no" if yes else "yes"])])
    return lambda answer: said(answer) and set(numbers_in(answer)) <= {n}


def _even(rng: random.Random, split: Split) -> Asked:
    n = rng.randint(0, rng.choice((20, 100)))
    name = "odd" if n % 2 else "even"
    if rng.random() < 0.5:
        return Asked(ask(rng, split, _EVEN_OR_ODD, n=n), f"{n} is {name}.", _parity(n, None))
    claim = rng.choice(("even", "odd"))
    answer = f"{'Yes' if claim == name else 'No'}, {n} is {name}."
    return Asked(ask(rng, split, _IS_IT, n=n, claim=claim), answer, _parity(n, claim == name))


def _spelled(rng: random.Random, split: Split) -> Asked:
    word = rng.choice(_WORDS)
    shown = rng.choice((word, word, f'"{word}"', f"'{word}'"))
    answer = f'The word "{word}" has {len(word)} letters.'
    return Asked(ask(rng, split, _SPELLED, word=shown), answer, result_is(len(word)))


def _listed(rng: random.Random, split: Split) -> Asked:
    items = rng.sample(_ITEMS, rng.randint(2, 8))
    joined = ", ".join(items) if rng.random() < 0.7 else ", ".join(items[:-1]) + " and " + items[-1]
    return Asked(ask(rng, split, _LISTED, list=joined), f"There are {len(items)} things.", result_is(len(items)))


def _letters(rng: random.Random, split: Split) -> Asked:
    n = rng.choice((3, 4, 5, 6, 7, 8, 10, 12, rng.randint(2, 26)))
    letters = list(_ALPHABET[:n])
    question = ask(rng, split, _LETTERS, n=n)
    return Asked(question, ", ".join(letters) + ".", lambda text: re.findall(r"\b[A-Z]\b", text.upper()) == letters)


def _letter_next(rng: random.Random, split: Split) -> Asked:
    side, by = rng.choice((("after", 1), ("before", -1)))
    at = rng.randint(1, 24)
    x, y = _ALPHABET[at], _ALPHABET[at + by]
    answer = f"{side.capitalize()} {x} comes {y}."
    return Asked(
        ask(rng, split, _LETTER_NEXT, side=side, x=x), answer,
        lambda text: {y} <= set(re.findall(r"\b[A-Z]\b", text)) <= {x, y},
    )  # fmt: skip


_INTENTS: tuple[tuple[Intent, int], ...] = (
    (_up, 5), (_down, 3), (_steps, 3), (_next, 3), (_compare, 3), (_even, 3), (_spelled, 3), (_listed, 3),
    (_letters, 2), (_letter_next, 1),
)  # fmt: skip


def _counting(rng: random.Random, split: Split) -> Example:
    """A question about counting."""
    return one_of(rng, _INTENTS, split).example("counting")


KINDS: dict[str, Generator] = {"counting": _counting}
