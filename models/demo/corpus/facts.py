"""Facts about measures, days, months and seasons, and the kinds that ask for these and for those of `facts_world`."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .asking import Asked, Intent, ask, capital, one_of, result_is, says
from .data import read
from .facts_world import INTENTS as WORLD
from .facts_world import bigger
from .grammar import Check, Example, Generator, Phrasings, Split

_DATA = read(__name__)

_UNIT = _DATA.phrasings("unit")
_UNITS = (
    ("seconds", "minute", 60), ("minutes", "hour", 60), ("hours", "day", 24), ("days", "week", 7),
    ("months", "year", 12), ("weeks", "year", 52), ("days", "year", 365), ("inches", "foot", 12),
    ("centimeters", "meter", 100), ("cm", "meter", 100), ("meters", "kilometer", 1000), ("grams", "kilogram", 1000),
    ("millimeters", "centimeter", 10), ("eggs", "dozen", 12), ("years", "century", 100), ("years", "decade", 10),
    ("cents", "dollar", 100), ("cents", "euro", 100), ("feet", "yard", 3), ("items", "dozen", 12),
    ("things", "dozen", 12), ("milliliters", "liter", 1000), ("ml", "liter", 1000), ("g", "kilogram", 1000),
)  # fmt: skip
_PLURALS = {"century": "centuries", "foot": "feet", "dozen": "dozen"}
_MONTH_DAYS = _DATA.phrasings("month_days")
_BESIDE = _DATA.phrasings("beside")
_NTH = _DATA.phrasings("nth")
_WEEKEND = _DATA.phrasings("weekend")
_SEASON = _DATA.phrasings("season")
_LATER = _DATA.phrasings("later")
_TOMORROW = _DATA.phrasings("tomorrow")
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = "January February March April May June July August September October November December".split()
_SEASONS = ("winter", "spring", "summer", "autumn")
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NTHS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
_FEW = ("zero", "one", "two", "three", "four", "five", "six")


def _only(name: str, names: list[str], *given: str) -> Check:
    """The answer names this one, and no others but those given."""
    return says([name], [other for other in names if other != name and other not in given])


def _unit(rng: random.Random, split: Split) -> Asked:
    small, big, number = rng.choice(_UNITS)
    article = "an" if big == "hour" else "a"
    question = ask(rng, split, _UNIT, small=small, big=f"{rng.choice((article, article, 'one'))} {big}", per=big)
    answer = f"There are {number} {small} in {article} {big}."
    return Asked(
        question, answer, result_is(number, 1), f"I know this measure. {capital(article)} {big} has {number} {small}."
    )


def _many_units(rng: random.Random, split: Split) -> Asked:
    small, big, number = rng.choice(_UNITS)
    while number in (52, 365):
        small, big, number = rng.choice(_UNITS)
    count = rng.randint(2, 5 if number == 24 else 10)
    several = f"{count} {_PLURALS.get(big, big + 's')}"
    question = ask(rng, split, _MANY_UNITS, small=small, big=several)
    thoughts = f"One {big} has {number} {small}. {count} x {number} = {count * number}."
    answer = f"There are {count * number} {small} in {several}."
    return Asked(question, answer, result_is(count * number, count, number), thoughts)


def _plain(templates: Sequence[str]) -> tuple[str, ...]:
    """The templates that work with several of a measure as well as with one."""
    return tuple(
        text for text in templates if not any(odd in text for odd in ("{per}", "does {big}", "{big} has", "has {big}"))
    )


_MANY_UNITS = Phrasings(_plain(_UNIT.train), _plain(_UNIT.held_out))


def _month_days(rng: random.Random, split: Split) -> Asked:
    at = rng.randrange(12)
    month, days = _MONTHS[at], _LENGTHS[at]
    answer = f"{month} has {days} days" + (", or 29 in a leap year." if days == 28 else ".")
    check = result_is(days, *([29] if days == 28 else []))
    return Asked(
        ask(rng, split, _MONTH_DAYS, m=month), answer, check, f"I think of the month. {month} has {days} days."
    )


def _beside(rng: random.Random, split: Split) -> Asked:
    names, unit = rng.choice(((_DAYS, "day"), (_DAYS, "weekday"), (_MONTHS, "month"), (_MONTHS, "month")))
    side, by = rng.choice((("after", 1), ("before", -1)))
    at = rng.randrange(len(names))
    x, y = names[at], names[(at + by) % len(names)]
    run = f"{x}, {y}" if by == 1 else f"{y}, {x}"
    question = ask(rng, split, _BESIDE, unit=unit, side=side, x=x)
    return Asked(
        question, f"{capital(side)} {x} comes {y}.", _only(y, names, x), f"The order is {run}. So {y} comes {side} {x}."
    )


def _nth(rng: random.Random, split: Split) -> Asked:
    names, unit, whole = rng.choice(
        ((_DAYS, "day", "week"), (_DAYS, "weekday", "week"), (_MONTHS, "month", "year"), (_MONTHS, "month", "year"))
    )
    at = rng.randrange(len(names))
    nth, name = ("last" if at == len(names) - 1 and rng.random() < 0.5 else _NTHS[at]), names[at]
    unit_whole = "day" if whole == "week" else "month"
    text = ask(rng, split, _NTH, nth=nth, unit=unit, whole=whole)
    if unit == "day" and "week" not in text:
        text = text.replace(f"{nth} day", f"{nth} day of the week").replace("which day", "which day of the week")
    answer = f"{name} is the {nth} {unit_whole} of the {whole}."
    thoughts = f"I count from {names[0]}. The {nth} {unit_whole} is {name}."
    return Asked(text, answer, _only(name, names), thoughts)


def _weekend(rng: random.Random, split: Split) -> Asked:
    day = rng.choice((*_DAYS, "Saturday", "Sunday"))
    free = day in ("Saturday", "Sunday")
    answer = f"Yes, {day} is on the weekend." if free else f"No, {day} is not on the weekend."
    check = says(["yes", "is on", "is part"], ["no", "not"]) if free else says(["no", "not", "weekday"], ["yes"])
    thoughts = f"The weekend is Saturday and Sunday. {day} is {'one' if free else 'not one'} of them."
    return Asked(ask(rng, split, _WEEKEND, x=day), answer, check, thoughts)


def _season(rng: random.Random, split: Split) -> Asked:
    at = rng.randrange(12)
    month, season = _MONTHS[at], _SEASONS[(at + 1) % 12 // 3]
    answer = f"{month} is in {season}."
    thoughts = f"I think of the months of {season}. {month} is one of them."
    right = [season, "fall"] if season == "autumn" else [season]
    check = says(right, [other for other in (*_SEASONS, "fall") if other not in right])
    return Asked(ask(rng, split, _SEASON, m=month), answer, check, thoughts)


def _later(rng: random.Random, split: Split) -> Asked:
    at, count = rng.randrange(7), rng.randint(2, 6)
    day = _DAYS[at]
    shown = f"{rng.choice((count, _FEW[count]))} days"
    steps = [_DAYS[(at + step) % 7] for step in range(1, count + 1)]
    thoughts = f"I count {count} days on from {day}: {', '.join(steps)}."
    answer = f"{capital(_FEW[count])} days after {day} comes {steps[-1]}."
    return Asked(ask(rng, split, _LATER, x=day, k=shown), answer, _only(steps[-1], _DAYS, day), thoughts)


def _tomorrow(rng: random.Random, split: Split) -> Asked:
    when, by = rng.choice((("tomorrow", 1), ("yesterday", -1)))
    at = rng.randrange(7)
    x, y = _DAYS[at], _DAYS[(at + by) % 7]
    verb = "is" if by == 1 else "was"
    thoughts = f"Today is {x}. The day {'after' if by == 1 else 'before'} {x} is {y}."
    answer = f"If today is {x}, {when} {verb} {y}."
    return Asked(ask(rng, split, _TOMORROW, x=x, when=when), answer, _only(y, _DAYS, x), thoughts)


_TIME: tuple[tuple[Intent, int], ...] = (
    (_unit, 9), (_month_days, 4), (_beside, 7), (_nth, 4), (_weekend, 3), (_season, 4), (_later, 3), (_tomorrow, 3),
)  # fmt: skip
_INTENTS = (*_TIME, (_many_units, 1), *WORLD)
_WORKED: tuple[tuple[Intent, int], ...] = (
    (_later, 4),
    (_tomorrow, 2),
    (_beside, 3),
    (_many_units, 5),
    (bigger, 3),
    (_weekend, 1),
)


def _facts(rng: random.Random, split: Split) -> Example:
    """A fact, answered at once."""
    return one_of(rng, _INTENTS, split).example("facts")


def _facts_thinking(rng: random.Random, split: Split) -> Example:
    """A fact, answered after thoughts: mostly one that needs some working out."""
    return one_of(rng, _WORKED if rng.random() < 0.65 else _INTENTS, split).example("facts_thinking", thinking=True)


KINDS: dict[str, Generator] = {"facts": _facts, "facts_thinking": _facts_thinking}
