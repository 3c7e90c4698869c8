"""Counting: up, down and in steps, neighbours, comparing, even and odd, letters in a word, things in a list."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from .asking import Asked, Intent, ask, numbers_are, numbers_in, one_of, result_is, says
from .grammar import Check, Example, Generator, Phrasings, Split

_UP = Phrasings(
    train=(
        "count from {a} to {b}.", "count up from {a} to {b}.", "count {a} to {b}.", "count [up|] to {b} from {a}.",
        "count [up|] to {b}, [starting|beginning] [at|from|with] {a}.", "start [at|with] {a} and count [up|] to {b}.",
        "[list|write|say|name|print] [all|] the numbers from {a} to {b}.",
        "[give|show|tell] me the numbers {a} to {b}.",
        "[list|write|say] [every number|all numbers] from {a} up to {b}.", "begin at {a} and stop at {b}.",
        "what are the numbers from {a} to {b}?", "which numbers [are there|do I need] from {a} to {b}?",
        "how do [you|I] count from {a} to {b}?", "how does one get from {a} to {b} by counting?", "count {a} to {b}",
        "count {a}-{b}", "count {a} - {b}", "numbers {a} to {b}", "numbers from {a} to {b}", "from {a} to {b}",
        "{a} to {b}", "{a} to {b}, count", "counting from {a} to {b}", "I need the numbers {a} to {b}",
        "go from {a} to {b}, one by one.", "let's count from {a} to {b}", "count one by one from {a} to {b}.",
        "what comes if you count from {a} to {b}?", "do you know how to count from {a} to {b}?",
        "I want to hear the numbers from {a} to {b}", "can you count? From {a} to {b}?",
        "count with me from {a} to {b}.",
    ),
    held_out=(
        "write all the numbers, beginning with {a} and up to {b}.", "start from {a} and go up to {b}.",
        "show me how you count from {a} up to {b}.", "what numbers do you say from {a} to {b}?",
    ),
)  # fmt: skip
_TO = Phrasings(
    train=(
        "count to {b}.", "count up to {b}.", "count [from one|from the start] to {b}.",
        "[say|list|write] the numbers up to {b}.", "[show|give|tell] me the numbers [up to|to] {b}.",
        "what are the numbers up to {b}?", "how do you count to {b}?", "how far can you count? To {b}?",
        "numbers to {b}", "numbers up to {b}", "count to {b}", "counting to {b}", "let's count to {b}",
        "count with me to {b}.", "I want you to count to {b}", "[list|write] the first {b} numbers.",
        "what are the first {b} numbers?", "do you know how to count to {b}?", "count all the way to {b}.",
    ),
    held_out=(
        "can you count for me up to {b}?", "say all numbers to {b}.", "the first {b} numbers",
        "start counting and stop at {b}.",
    ),
)  # fmt: skip
_DOWN = Phrasings(
    train=(
        "count [down|back|backwards|backward] from {a} to {b}.", "count [down|backwards] to {b} from {a}.",
        "count [down|backwards], [starting|beginning] [at|with|from] {a}, to {b}.",
        "count from {a} [down|back] to {b}.", "start [at|with] {a} and count [down|back|backwards] to {b}.",
        "list the numbers from {a} down to {b}.",
        "[say|write|give me|show me] [all|] the numbers from {a} [down|back] to {b}.", "go down from {a} to {b}.",
        "what are the numbers from {a} down to {b}?", "how do [you|I] count [down|backwards] from {a} to {b}?",
        "countdown from {a} to {b}", "countdown {a} to {b}", "count down {a} to {b}", "backwards from {a} to {b}",
        "from {a} [down|back] to {b}", "numbers {a} down to {b}", "{a} down to {b}", "count from {a} to {b} backwards.",
        "do a countdown from {a} to {b}.", "let's count [down|backwards] from {a} to {b}", "count from {a} to {b}.",
        "count one by one from {a} down to {b}.", "do you know how to count backwards from {a} to {b}?",
    ),
    held_out=(
        "give me a countdown from {a} to {b}.", "go backwards from {a} to {b}, one by one.",
        "write the numbers backwards, from {a} to {b}.", "what comes if you count down from {a} to {b}?",
    ),
)  # fmt: skip
_STEPS = Phrasings(
    train=(
        "count [by|in] {steps} from {a} to {b}.", "count from {a} to {b} [by|in] {steps}.",
        "count to {b} from {a} by {steps}.",
        "count [by|in] {steps}, [starting|beginning] [at|from|with] {a}, up to {b}.",
        "go from {a} to {b} [by|in] {steps}.", "start [at|with] {a} and count [by|in] {steps} to {b}.",
        "count up by {steps} from {a} to {b}.",
        "[list|write|say|give me|show me] the numbers from {a} to {b} [by|in] {steps}.",
        "[by|in] {steps} from {a} to {b}", "what are the numbers from {a} to {b} [by|in] {steps}?",
        "how do you count [by|in] {steps} from {a} to {b}?", "count [by|in] {steps} {a} to {b}",
        "{steps} from {a} to {b}", "numbers {a} to {b} by {steps}", "let's count [by|in] {steps} from {a} to {b}",
        "count in steps of {step} from {a} to {b}.", "count from {a} to {b} in steps of {step}.",
        "count by {step} from {a} to {b}.", "count from {a} to {b} by {step}.",
    ),
    held_out=(
        "say the numbers by {steps}, starting at {a} and up to {b}.", "with steps of {step}, count from {a} to {b}",
        "can you go up by {steps} from {a} to {b}?",
    ),
)  # fmt: skip
_STEPS_TO = Phrasings(
    train=(
        "count [by|in] {steps} [up|] to {b}.", "count to {b} [by|in] {steps}.", "count up to {b} [by|in] {steps}.",
        "[list|say|write|give me|show me] the numbers to {b} [by|in] {steps}.", "by {steps} to {b}",
        "{steps} up to {b}", "how do you count to {b} [by|in] {steps}?", "let's count [by|in] {steps} to {b}",
        "count in steps of {step} to {b}.", "what are the {steps} up to {b}?", "{steps} to {b}",
        "count by {step} up to {b}.", "I need the {steps} up to {b}", "which numbers come by {steps} up to {b}?",
        "count to {b} in steps of {step}.", "count with me by {steps} to {b}.", "counting by {steps} to {b}",
        "go up to {b} [by|in] {steps}.",
    ),
    held_out=(
        "say the {steps} up to {b}.", "I want to count by {steps} to {b}",
        "do you know how to count by {steps} to {b}?",
    ),
)  # fmt: skip
_NEXT = Phrasings(
    train=(
        "what [number|] comes [right|just|] {side} {n}?", "which number comes [right|just|] {side} {n}?", "{side} {n}",
        "what is [right|just|] {side} {n}?", "which [number|one] is [right|just|] {side} {n}?", "number {side} {n}",
        "what's the number {side} {n}?", "what is the number {side} {n}?", "what's {side} {n}?",
        "what comes {side} {n}", "tell me the number {side} {n}.", "tell me [what|which number] comes {side} {n}.",
        "the number {side} {n}", "{side} {n} comes", "{side} {n} comes what?", "name the number {side} {n}.",
        "say the number {side} {n}.", "give me the number [that comes|] {side} {n}.",
        "when I count, what comes {side} {n}?", "{side} {n}, what comes?",
        "I count and want to know what comes {side} {n}", "which number do you say [right|just|] {side} {n}?",
        "what number do I say {side} {n}?", "what number is {side} {n}?", "do you know the number {side} {n}?",
    ),
    held_out=(
        "which number do I need {side} {n}?", "if you count, which number comes {side} {n}?",
        "name the number that is just {side} {n}.", "{side} {n}, which number is it?",
    ),
)  # fmt: skip
_COMPARE = Phrasings(
    train=(
        "which [number|one|] is {more}, {a} or {b}?", "what is {more}, {a} or {b}?", "what's {more}, {a} or {b}?",
        "is {a} or {b} {more}?", "{a} or {b}, which [number|one|] is {more}?", "which of {a} and {b} is {more}?",
        "which is {more}: {a} or {b}?", "which is the {more} number, {a} or {b}?", "{more}: {a} or {b}?",
        "{a} or {b}, what is {more}?", "tell me which [number|] is {more}, {a} or {b}.",
        "name the {more} [one|number], {a} or {b}.", "{a} and {b}, which is {more}?", "which one is {more}, {a} or {b}",
        "{more}, {a} or {b}", "which is {more} {a} or {b}", "what is the {more} number, {a} or {b}?",
        "of {a} and {b}, which is {more}?", "compare {a} and {b}. Which is {more}?",
        "do you know which number is {more}, {a} or {b}?", "I have {a} and {b}, which one is {more}?",
        "{a} or {b} {more}", "pick the {more} number: {a} or {b}.",
        "here are two numbers, {a} and {b}. Which is {more}?",
    ),
    held_out=(
        "say which of the numbers {a} and {b} is {more}.", "here are {a} and {b}. What is the {more} number?",
        "of the two numbers {a} and {b}, which one is {more}?", "what do you say is {more}, {a} or {b}?",
    ),
)  # fmt: skip
_EVEN_OR_ODD = Phrasings(
    train=(
        "is {n} [even or odd|odd or even]?", "is the number {n} [even or odd|odd or even]?", "{n}, even or odd?",
        "{n} even or odd", "[even or odd|odd or even]: {n}", "is {n} an even or an odd number?",
        "is {n} an odd or an even number?", "tell me if {n} is [even or odd|odd or even].", "what is {n}, even or odd?",
        "what is the number {n}, odd or even?", "say if {n} is [even or odd|odd or even].",
        "do you know if {n} is [even or odd|odd or even]?", "what kind of number is {n}, even or odd?",
        "which is it, is {n} even or odd?", "I have {n}. Is it even or odd?", "even or odd, what is {n}?",
        "find out if {n} is even or odd.", "is {n} odd, or is it even?", "is {n} even, or is it odd?",
    ),
    held_out=(
        "I need to know if {n} is odd or even", "the number {n}, is it even or odd?", "{n} is what, even or odd?",
    ),
)  # fmt: skip
_IS_IT = Phrasings(
    train=(
        "is {n} {claim}?", "is {n} [an|really an] {claim} number?", "is the number {n} {claim}?",
        "{n} is {claim}, right?", "is {n} {claim}", "tell me if {n} is {claim}.", "is it true that {n} is {claim}?",
        "do you think {n} is {claim}?", "would you say {n} is {claim}?", "{n}, is it {claim}?", "{n} {claim}?",
        "am I right that {n} is {claim}?", "I think {n} is {claim}, is that right?", "can {n} be {claim}?",
        "say if {n} is {claim}.", "does {n} count as {claim}?", "I want to know if {n} is {claim}",
        "do you know if {n} is {claim}?", "is {n} one of the {claim} numbers?",
    ),
    held_out=(
        "is it right that {n} is {claim}?", "the number {n}, is it {claim}?",
        "do you say that {n} is an {claim} number?",
    ),
)  # fmt: skip
_SPELLED = Phrasings(
    train=(
        "how many letters [are|are there] in [the word|] {word}?", "how many letters does [the word|] {word} have?",
        "how many letters has [the word|] {word}?", "how long is the word {word}?", "letters in {word}",
        "count letters {word}", "count the letters in [the word|] {word}.", "count the letters of {word}.",
        "look here: {word}. How many letters is that?", "number of letters in {word}",
        "tell me how many letters {word} has.", "tell me how many letters are in [the word|] {word}.",
        "{word}: how many letters?", "what is the number of letters in [the word|] {word}?",
        "{word}, how many letters?", "how many letters in {word}", "the word {word} has how many letters?",
        "how many letters do I need for [the word|] {word}?", "how many letters {word}",
        "how many letters do I write for {word}?", "in the word {word}, how many letters are there?",
        "find the number of letters in {word}.", "how many letters can you count in {word}?",
        "do you know how many letters {word} has?", "say how many letters {word} has.",
    ),
    held_out=(
        "look at the word {word}. How many letters does it have?", "what number of letters does {word} have?",
        "for the word {word}, count the letters", "how many letters do you see in [the word|] {word}?",
    ),
)  # fmt: skip
_LISTED = Phrasings(
    train=(
        "how many [things|items|words|] are in this list: {list}?", "how many [things|items|words] are here: {list}?",
        "count the [things|items|words] in this list: {list}.", "count these [things|items|words|]: {list}.",
        "count: {list}", "how many [things|items|words] are there: {list}?", "how many is that: {list}?",
        "how many: {list}", "{list}: how many?", "{list}. How many [things|items|words] is that?",
        "{list}. How many are there?", "{list}. Count them.", "{list} - how many?", "how long is this list: {list}?",
        "how many [things|items] do I have: {list}?", "I have {list}. How many things is that?",
        "my list is {list}. How many things are on it?", "here is a list: {list}. How many items does it have?",
        "count how many [things|items|words] I name: {list}.", "tell me how many [things|items|words] this is: {list}.",
        "how many [things|items|words] does this list have: {list}?", "I see {list}. How many things do I see?",
        "this is my list: {list}. Count the items.", "how many things did I name? {list}", "number of items: {list}",
        "I need {list}. How many things do I need?", "I name {list}. How many is that?",
        "look at these [things|words]: {list}. How many is it?",
    ),
    held_out=(
        "look at my list: {list}. How many things are there?", "here are {list}. How many items do you see?",
        "tell me the number of things in this list: {list}.", "how many words do you see here: {list}?",
    ),
)  # fmt: skip
_LETTERS = Phrasings(
    train=(
        "[list|say|write|name|give me|show me|tell me] the first {n} letters [of the alphabet|].", "first {n} letters",
        "what are the first {n} letters [of the alphabet|]?", "the first {n} letters of the alphabet",
        "the first {n} letters", "which are the first {n} letters [of the alphabet|]?", "alphabet, first {n} letters",
        "first {n} letters of the alphabet",
        "[say|write|list|give me|show me] {n} letters from the start of the alphabet.",
        "do you know the first {n} letters?", "which {n} letters come first [in the alphabet|]?",
        "what {n} letters come first in the alphabet?", "start the alphabet and stop after {n} letters.",
        "how do the first {n} letters of the alphabet go?", "[say|write] the alphabet up to letter {n}.",
        "I want the first {n} letters of the alphabet", "I need the first {n} letters",
        "begin the alphabet with {n} letters.", "in the alphabet, what are the first {n} letters?",
    ),
    held_out=(
        "with which {n} letters does the alphabet start?", "I want to see the first {n} letters of the alphabet",
        "write the alphabet and stop after {n} letters.", "of the alphabet, name the first {n} letters",
    ),
)  # fmt: skip
_LETTER_NEXT = Phrasings(
    train=(
        "what letter comes [right|just|] {side} {x}?", "which letter comes [right|just|] {side} {x}?",
        "letter {side} {x}", "what is the letter {side} {x}?", "what's the letter {side} {x}?",
        "which letter is [right|just|] {side} {x}?", "tell me the letter {side} {x}.",
        "tell me [what|which] letter comes {side} {x}.", "the letter {side} {x}",
        "in the alphabet, what comes {side} {x}?", "what comes {side} {x} in the alphabet?",
        "name the letter {side} {x}.", "what comes {side} the letter {x}?", "{side} {x} comes which letter?",
        "do you know the letter {side} {x}?", "give me the letter {side} {x}.", "alphabet, letter {side} {x}",
        "which letter do I say {side} {x}?",
    ),
    held_out=(
        "in the alphabet, which letter is {side} {x}?", "{side} the letter {x}, what comes?",
        "say the letter that comes {side} {x}.",
    ),
)  # fmt: skip
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_STEP_NAMES = {2: "twos", 3: "threes", 5: "fives", 10: "tens"}
_WORDS = (
    "apple ant bed bee bird blue boat book boy box bread brown bus cake car cat chair cow cup day desk dog door duck "
    "egg eye fish fly foot fox game girl goat gold good grass green hand happy hat hen home horse hot house ice jam "
    "juice key king lamp leaf leg lion lemon milk money month moon mouse music name nest night no nose orange pear pen "
    "pig pink plum pond queen rain red ring river road room rose salt school sea sheep ship shoe shop sky small snow "
    "sock song soup spoon star stone story street summer sun table tea ten tent tiger time train tree up water week "
    "wind window winter word year yes zoo"
).split()
_ITEMS = (
    "apple pear plum lemon cherry banana orange bread milk cheese butter egg rice soup tea cake salt sugar cup plate "
    "spoon fork knife lamp chair table bed door window book pen paper bag box ball hat coat shoe sock shirt key ring "
    "clock bell dog cat bird fish cow horse sheep duck mouse fox bear lion red blue green yellow sun moon star rain "
    "snow tree leaf rose stone"
).split()


def _span(rng: random.Random) -> tuple[int, int]:
    """The ends of a short run of numbers below a hundred."""
    start = rng.choice((0, 1, 1, 1, rng.randint(2, 20), rng.randint(2, 20), rng.randint(20, 95)))
    return start, min(start + rng.randint(2, 14), 99)


def _list(numbers: Sequence[int], question: str) -> Asked:
    """The answer that is only these numbers."""
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
    """The answer says what `n` is, of no other number, and neither the other thing nor the wrong one of yes and no."""
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
