"""Small sums: adding, taking away, multiplying, doubling and halving, as bare sums and as tiny stories."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from .asking import Asked, Intent, ask, capital, in_words, one_of, result_is
from .counting import KINDS as COUNTING
from .grammar import Example, Generator, Phrasings, Split, say

_PLUS = Phrasings(
    train=(
        "what is {a} plus {b}?", "what's {a} plus {b}?", "what is {a} + {b}?", "what's {a} + {b}?", "whats {a} + {b}",
        "how much is {a} [plus|+|and] {b}?", "{a}+{b}", "{a} + {b}", "{a} + {b} =", "{a}+{b}=", "{a} + {b} = ?",
        "{a}+{b}?", "{a} plus {b}", "{a} plus {b} is [what|how much]?", "{a} plus {b} equals",
        "{a} and {b} is how much?", "{a} and {b} together", "add {a} and {b}.", "add {b} to {a}.", "add {a} + {b}.",
        "calculate {a} [+|plus] {b}.", "work out {a} [+|plus] {b}.", "what do you get if you add {a} and {b}?",
        "what do I get when I add {b} to {a}?", "what do {a} and {b} make?", "what is the sum of {a} and {b}?",
        "sum of {a} and {b}", "the sum of {a} and {b}", "how much do {a} and {b} make together?",
        "solve {a} [+|plus] {b}.", "tell me what {a} [+|plus] {b} is.", "tell me the answer to {a} [+|plus] {b}.",
        "give me the sum of {a} and {b}.", "put {a} and {b} together.", "take {a} and add {b}.",
        "I have {a} and add {b}, what is it?", "if I add {a} and {b}, what do I get?",
        "what is the answer to {a} [+|plus] {b}?", "how many is {a} [+|plus] {b}?", "the answer to {a} + {b}",
        "find {a} + {b}.", "which number is {a} plus {b}?", "do this sum: {a} + {b}.",
        "my sum is {a} + {b}, what is it?", "what is {b} more than {a}?",
    ),
    held_out=(
        "{a} plus {b}, how much do I get?", "what do I get for {a} and {b} together?",
        "I add {b} to {a}, how much is it?", "tell me how much {a} + {b} is.", "find the sum of {a} and {b}.",
    ),
)  # fmt: skip
_MINUS = Phrasings(
    train=(
        "what is {a} minus {b}?", "what's {a} minus {b}?", "what is {a} - {b}?", "what's {a} - {b}?", "whats {a} - {b}",
        "how much is {a} [minus|-|less] {b}?", "{a}-{b}", "{a} - {b}", "{a} - {b} =", "{a}-{b}=", "{a} - {b} = ?",
        "{a}-{b}?", "{a} minus {b}", "{a} minus {b} is [what|how much]?", "{a} minus {b} equals", "{a} take away {b}",
        "what is {a} take away {b}?", "subtract {b} from {a}.", "take {b} [away|] from {a}.",
        "calculate {a} [-|minus] {b}.", "work out {a} [-|minus] {b}.",
        "what do you get if you take {b} [away|] from {a}?", "what do I get when I subtract {b} from {a}?",
        "{a} less {b}", "what is left if you take {b} from {a}?", "how much is left if I take {b} away from {a}?",
        "solve {a} [-|minus] {b}.", "tell me what {a} [-|minus] {b} is.", "tell me the answer to {a} [-|minus] {b}.",
        "start with {a} and take away {b}.", "what is the difference between {a} and {b}?", "difference of {a} and {b}",
        "if I take {b} from {a}, what do I get?", "what is the answer to {a} [-|minus] {b}?",
        "how many is {a} [-|minus] {b}?", "the answer to {a} - {b}", "find {a} - {b}.", "do this sum: {a} - {b}.",
        "my sum is {a} - {b}, what is it?", "what is {b} less than {a}?", "I have {a} and take away {b}, what is it?",
    ),
    held_out=(
        "{a} minus {b}, how much do I get?", "take {a} and subtract {b}.", "I take {b} away from {a}, how much is it?",
        "tell me how much {a} - {b} is.", "what is left of {a} if I take away {b}?",
    ),
)  # fmt: skip
_TIMES = Phrasings(
    train=(
        "what is {a} times {b}?", "what's {a} times {b}?", "what is {a} [x|*] {b}?", "what's {a} [x|*] {b}?",
        "whats {a} [x|*] {b}", "how much is {a} [times|x|*] {b}?", "{a}*{b}", "{a} * {b}", "{a}x{b}", "{a} x {b}",
        "{a} [x|*] {b} =", "{a}*{b}=", "{a} [x|*] {b} = ?", "{a}*{b}?", "{a} times {b}",
        "{a} times {b} is [what|how much]?", "{a} times {b} equals", "multiply {a} [by|and|with] {b}.",
        "calculate {a} [times|x|*] {b}.", "work out {a} [times|x|*] {b}.",
        "what do you get if you multiply {a} [by|and] {b}?", "what do I get when I multiply {a} by {b}?",
        "{a} multiplied by {b}", "what is {a} multiplied by {b}?", "what is the product of {a} and {b}?",
        "product of {a} and {b}", "solve {a} [times|x|*] {b}.", "tell me what {a} [times|x|*] {b} is.",
        "tell me the answer to {a} [times|x] {b}.", "if I multiply {a} by {b}, what do I get?",
        "what is the answer to {a} [times|x] {b}?", "how many is {a} [times|x] {b}?", "the answer to {a} [x|*] {b}",
        "find {a} [x|*] {b}.", "do this sum: {a} [x|*] {b}.", "my sum is {a} x {b}, what is it?",
    ),
    held_out=(
        "{a} times {b}, how much do I get?", "take {a} and multiply it by {b}.",
        "I multiply {a} by {b}, how much is it?", "tell me how much {a} x {b} is.", "find the product of {a} and {b}.",
    ),
)  # fmt: skip
_HALF = Phrasings(
    train=(
        "what is half of {a}?", "what's half of {a}?", "half of {a}", "half {a}", "how much is half of {a}?",
        "what is a half of {a}?", "what is the half of {a}?", "{a} divided by [2|two]",
        "what is {a} divided by [2|two]?", "{a} / 2", "{a}/2", "what is {a} / 2?", "divide {a} by [2|two].",
        "tell me half of {a}.", "tell me what half of {a} is.", "calculate half of {a}.", "how many is half of {a}?",
        "give me half of {a}.", "find half of {a}.", "take half of {a}.", "half of {a} is [what|how much]?",
        "work out half of {a}.", "{a} in two equal parts", "what do you get if you take half of {a}?",
        "cut {a} in half.", "what do I get when I divide {a} by [2|two]?", "the half of {a}",
        "what number is half of {a}?", "which number do I get for half of {a}?", "{a} in half",
    ),
    held_out=(
        "find the half of {a}.", "if I cut {a} in half, what do I get?", "which number is half of {a}?",
        "tell me how much half of {a} is.",
    ),
)  # fmt: skip
_DOUBLE = Phrasings(
    train=(
        "what is double {a}?", "what's double {a}?", "double {a}", "double {a}.", "how much is double {a}?",
        "twice {a}", "what is twice {a}?", "what's twice {a}?", "how much is twice {a}?", "what is the double of {a}?",
        "double of {a}", "what is two times {a}?", "tell me double {a}.", "tell me what [double|twice] {a} is.",
        "calculate [double|twice] {a}.", "give me double {a}.", "find double {a}.", "find twice {a}.",
        "[double|twice] {a} is [what|how much]?", "the double of {a}", "work out [double|twice] {a}.",
        "what do you get if you double {a}?", "what do I get when I double {a}?", "what number is [double|twice] {a}?",
        "which number do I get if I double {a}?", "take {a} twice.", "if you double {a}, what is it?",
        "make {a} twice as big.",
    ),
    held_out=(
        "if I double {a}, what do I get?", "find the double of {a}.", "which number is [double|twice] {a}?",
        "tell me how much double {a} is.",
    ),
)  # fmt: skip
_STORY_MORE = Phrasings(
    train=(
        "{name} has {some_a} and [gets|finds|buys|takes] {b} more. How many {things} does {name} have [now|]?",
        "{name} had {some_a} and [got|found|bought] {b} more. How many {things} does {name} have now?",
        "{name} has {some_a}. {name} [gets|finds|buys] {b} more. How many {things} are there now?",
        "{name} has {some_a}. A friend gives {name} {b} more. How many {things} does {name} have?",
        "{name} has {some_a}, then [gets|finds|buys] {b} more. How many is that?",
        "{name} gets {some_a} and then {b} more. How many in all?",
        "{name} [buys|finds] {some_a} and later {b} more. How many {things} does {name} have in all?",
        "If {name} has {some_a} and [gets|buys] {b} more, how many {things} does {name} have?",
        "How many {things} does {name} have if {name} has {some_a} and [gets|finds] {b} more?",
        "There are {some_a} in a box. {name} puts in {b} more. How many {things} does {name} have now?",
        "{name} has {some_a} and {other} gives {name} {b}. How many {things} does {name} have?",
        "{name} has {some_a}. {other} brings {b} more for {name}. How many {things} does {name} have?",
        "{name} had {some_a} yesterday and got {b} today. How many {things} does {name} have in all?",
        "{name} starts with {some_a} and adds {b}. How many {things} now?",
        "{name}: {some_a}, and {b} more. How many {things}?", "{name} has {some_a} and {b} more come. How many?",
        "First {name} finds {some_a}, then {b} more. How many {things} is that?",
    ),
    held_out=(
        "{name} finds {some_a}, and {other} gives {name} {b} more. How many {things} are there now?",
        "Yesterday {name} had {some_a}. Today {name} gets {b} more. How many {things} in all?",
        "If {name} finds {some_a} and then buys {b} more, how many is that?",
    ),
)  # fmt: skip
_STORY_LESS = Phrasings(
    train=(
        "{name} has {some_a} and [gives away|loses|sells|uses] {b}. How many {things} does {name} have [now|left]?",
        "{name} had {some_a} and [gave away|lost|sold|used] {b}. How many {things} does {name} have [now|left]?",
        "{name} has {some_a}. {name} [gives away|loses|sells|uses] {b}. How many are left?",
        "{name} has {some_a}, {b} go away. How many are left?",
        "{name} has {some_a}. {name} gives {b} to {other}. How many {things} does {name} have now?",
        "{name} has {some_a} and gives {other} {b}. How many {things} does {name} have left?",
        "If {name} has {some_a} and [loses|gives away|sells] {b}, how many {things} does {name} have?",
        "How many {things} does {name} have left if {name} has {some_a} and [loses|uses] {b}?",
        "There are {some_a} in a box. {name} takes {b} away. How many {things} does {name} leave?",
        "{name} has {some_a}. {other} takes {b} of them. How many {things} does {name} have?",
        "{name} had {some_a} yesterday and lost {b} today. How many are left?",
        "{name} starts with {some_a} and [sells|loses] {b}. How many now?",
        "{name} has {some_a}, then [loses|sells] {b}. How many {things} are left?",
        "{name} buys {some_a} and sells {b}. How many are left?",
        "{name}: {some_a}, and {b} are gone. How many {things} are left?",
        "First {name} has {some_a}, then {b} less. How many {things} is that?",
    ),
    held_out=(
        "{name} finds {some_a}, and then {other} takes {b} away. How many {things} are left now?",
        "Yesterday {name} had {some_a}. Today {name} gives away {b}. How many {things} are left?",
        "If {name} buys {some_a} and then loses {b}, how many are left?",
    ),
)  # fmt: skip
_STORY_GROUPS = Phrasings(
    train=(
        "{name} has {a} [bags|boxes] with {some_b} each. How many {things} does {name} have?",
        "{name} has {a} [bags|boxes] with {some_b} in each. How many {things} are there?",
        "{name} buys {a} [bags|boxes] of {some_b}. How many {things} does {name} have in all?",
        "There are {a} [bags|boxes] for {name}. Each one has {some_b}. How many {things} does {name} have?",
        "Each [bag|box] has {some_b}. {name} has {a} of them. How many {things} is that?",
        "{name} gives {a} friends {some_b} each. How many {things} does {name} give away?",
        "If {name} has {a} [bags|boxes] and each has {some_b}, how many {things} are there?",
        "How many {things} does {name} have in {a} [bags|boxes] with {some_b} each?",
        "{name} finds {some_b} every day for {a} days. How many {things} does {name} find?",
        "{name} has {a} [bags|boxes], each with {some_b}. How many {things} in all?",
        "{name}: {a} [bags|boxes], {some_b} in each. How many {things}?",
        "{name} gets {some_b} on each of {a} days. How many {things} does {name} get?",
        "{name} puts {some_b} in each of {a} boxes. How many {things} is that?",
        "{name} buys {some_b} on each of {a} days. How many {things} in all?",
        "{name} fills {a} [bags|boxes] with {some_b} each. How many {things}?",
        "One [bag|box] has {some_b}. How many {things} does {name} have in {a} of them?",
        "{a} friends give {name} {some_b} each. How many {things} is that?",
        "{name} and {a} [bags|boxes]: each has {some_b}. How many in all?",
    ),
    held_out=(
        "{name} puts {some_b} in each bag. There are {a} bags. How many {things} in all?",
        "If each box has {some_b} and {name} has {a} boxes, how many {things} is that?",
        "{name} has {a} boxes. How many {things} are there if each has {some_b}?",
    ),
)  # fmt: skip
_THINGS = (
    "apple/apples pear/pears plum/plums egg/eggs book/books pen/pens coin/coins ball/balls stone/stones shell/shells "
    "cake/cakes hat/hats fish/fish card/cards cup/cups star/stars flower/flowers toy/toys lemon/lemons nut/nuts "
    "orange/oranges banana/bananas cherry/cherries leaf/leaves stamp/stamps duck/ducks shoe/shoes key/keys"
).split()
_NAMES = (
    "Tim Anna Ben Lily Tom Mia Sam Nora Max Emma Leo Ella Jack Lucy Paul Sara Finn Kate Noah Eva Oscar Rosa Adam Ruth "
    "Hugo Clara Felix Maya Omar Lina Ravi Aisha Ken Yuki Ivan Olga Pedro Ines Lars Greta Amir Zara Dan Sophie Peter "
    "Jane Carl Mary"
).split()
_STARTS = (
    "Ba Be Bo Da De Do Fa Ga Ka Ke Ko La Le Lo Ma Me Mi Na Ne No Pa Pe Ra Re Ro Sa Se Ta Te To Va Ve Vi Za Ze".split()
)
_ENDS = "lan lena lina lo mar mina na nik nor ra ren rik rin sa sel tor va vin von zan".split()
_SIGN = re.compile(r"[-+=*/]|} ?x ?{")


@dataclass(frozen=True, slots=True)
class _Sum:
    """Two numbers and what is done with them."""

    a: int
    sign: str
    b: int

    @property
    def result(self) -> int:
        """What it makes."""
        return {"+": self.a + self.b, "-": self.a - self.b, "x": self.a * self.b}[self.sign]

    def __str__(self) -> str:
        return f"{self.a} {self.sign} {self.b}"


def _numbers(rng: random.Random, sign: str) -> _Sum:
    """A sum within reach; small numbers come more often than their share."""
    if sign == "x":
        return _Sum(rng.randint(rng.choice((0, 2, 2, 2)), 10), sign, rng.randint(rng.choice((1, 2, 2)), 10))
    most = rng.choice((10, 20, 50, 50))
    a, b = rng.randint(0, most), rng.randint(0, rng.choice((10, most)))
    return _Sum(max(a, b), sign, min(a, b)) if sign == "-" else _Sum(a, sign, b)


def _working(task: _Sum) -> str:
    """One or two sentences that work a sum out in steps that are easier than the sum."""
    a, b = task.a, task.b
    if task.sign == "x":
        return _working_times(a, b)
    if task.sign == "+" and a < 10 <= b:
        return f"{task} is the same as {b} + {a}. {_working_step(_Sum(b, '+', a))}"
    return _working_step(task)


def _working_step(task: _Sum) -> str:
    """Tens first, then ones; over a ten by way of that ten."""
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
    """Counting in steps of the second number, from five times it on where that helps."""
    if a < 2 or b < 2:
        return f"{a} x {b} = {a * b}."
    if a == 10 or b == 10:
        return f"Ten times {a + b - 10} is {a + b - 10} with a 0 after it, so it is {a * b}."
    if a <= 5:
        return f"I count in steps of {b}: {', '.join(str(b * n) for n in range(1, a + 1))}."
    return f"5 x {b} = {5 * b} and {a - 5} x {b} = {(a - 5) * b}. {5 * b} + {(a - 5) * b} = {a * b}."


def _bare(sign: str, phrasings: Phrasings) -> Intent:
    """Questions that are only a sum."""

    def asked(rng: random.Random, split: Split) -> Asked:
        task = _numbers(rng, sign)
        question = _fill(rng, ask(rng, split, phrasings, a="{a}", b="{b}"), task.a, task.b)
        thoughts = f"I need {task}. {_working(task)}"
        return Asked(question, f"{task} = {task.result}.", result_is(task.result, task.a, task.b), thoughts)

    return asked


def _fill(rng: random.Random, text: str, a: int, b: int = 0) -> str:
    """Fill in the numbers, at times in words where no sign stands between them."""
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
    """A tiny story about how many there are in the end."""
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
    """A first name, as often made up as known."""
    return rng.choice(_NAMES) if rng.random() < 0.5 else rng.choice(_STARTS) + rng.choice(_ENDS)


_INTENTS: tuple[tuple[Intent, int], ...] = (
    (_bare("+", _PLUS), 6), (_bare("-", _MINUS), 5), (_bare("x", _TIMES), 4), (_half, 2), (_double, 2), (_story, 4),
)  # fmt: skip


def _sums(rng: random.Random, split: Split) -> Example:
    """A sum, answered at once."""
    return one_of(rng, _INTENTS, split).example("sums")


def _sums_thinking(rng: random.Random, split: Split) -> Example:
    """A sum, worked out in thoughts first."""
    return one_of(rng, _INTENTS, split).example("sums_thinking", thinking=True)


KINDS: dict[str, Generator] = {**COUNTING, "sums": _sums, "sums_thinking": _sums_thinking}
