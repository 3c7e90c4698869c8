"""Fillers of questions to tools: names, numbers, times and short texts, many of them made up."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from .data import read
from .grammar import say
from .name_lists import city as town
from .name_lists import made_up, person

_DATA = read(__name__)

Fill = Callable[[random.Random], Any]
"""Generates a value that a question states and a call copies, or that a tool returns."""

_LONG_CITIES = ("New York", "Los Angeles", "Cape Town", "San Diego", "Hong Kong", "Mexico City", "Salt Lake City")
_ADJECTIVES = """Blue Red Green Golden Silver Dark Bright Lost Old New Happy Quiet Wild Lonely Sweet Broken Little Cold
Warm Long Secret Empty Big Slow""".split()
_NOUNS = """River Moon Sun Night Road Heart Rain Sky Star Dream Garden Train Fire Dance City Window Summer Winter Sea
Bird Fox Tree Stone Song Door Island House Cloud""".split()
SUBJECTS = _DATA.text("subjects")
MESSAGES = _DATA.text("messages")
TASKS = _DATA.text("tasks")
QUERIES = _DATA.text("queries")
HEADLINES = _DATA.text("headlines")
PHRASES = _DATA.text("phrases")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = "January February March April May June July August September October November December".split()


def one_of(*values: Any) -> Fill:
    """One of these."""
    return lambda rng: rng.choice(values)


def or_made_up(known: Fill, chance: float, *, lower: bool = True) -> Fill:
    """A known value, or a made-up word that must be copied."""

    def fill(rng: random.Random) -> Any:
        if rng.random() >= chance:
            return known(rng)
        return made_up(rng).lower() if lower else made_up(rng)

    return fill


def number(low: int, high: int) -> Fill:
    """A whole number, round ones more often."""

    def fill(rng: random.Random) -> int:
        value = rng.randint(low, high)
        return max(low, value // 5 * 5) if rng.random() < 0.3 else value

    return fill


def amount(low: int, high: int) -> Fill:
    """A number, sometimes with decimals."""
    whole = number(low, high)
    return lambda rng: whole(rng) if rng.random() < 0.75 else rng.randint(low * 10 + 1, high * 10) / 10


def price(rng: random.Random) -> float:
    """A number as in rates and prices."""
    return round(rng.uniform(1, 10 ** rng.randint(1, 4)), rng.randint(1, 2))


def text(templates: str) -> Fill:
    """A short text of this grammar, whose slots are `name`, `city`, `day`, `time` and `number`."""
    return lambda rng: say(
        rng,
        f"[{templates}]",
        name=person(rng),
        city=city(rng),
        day=rng.choice(DAYS),
        time=clock(rng),
        number=rng.randint(2, 90),
    )


def city(rng: random.Random) -> str:
    """A city, sometimes of two words."""
    if rng.random() < 0.08:
        return rng.choice(_LONG_CITIES)
    return f"{rng.choice(('Port', 'San', 'New', 'Old', 'Lake'))} {made_up(rng)}" if rng.random() < 0.06 else town(rng)


def song(rng: random.Random) -> str:
    """A song or an artist."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice("jazz rock blues opera folk techno soul piano".split()) + rng.choice((" music", ""))
    if kind == 1:
        return f"{person(rng)} {made_up(rng)}"
    if kind == 2:
        return f"The {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}s"
    if kind == 3:
        return rng.choice(_NOUNS) + rng.choice((" of ", " and ", " in the ")) + rng.choice(_NOUNS)
    return f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"


def restaurant(rng: random.Random) -> str:
    """A place to eat."""
    return rng.choice(
        (
            f"{rng.choice(('La', 'Casa', 'Chez', 'Cafe'))} {person(rng)}",
            f"The {rng.choice(_ADJECTIVES)} {rng.choice(('Fork', 'Spoon', 'Fish', 'Table', 'Kitchen', 'Garden'))}",
            made_up(rng),
        )
    )


def clock(rng: random.Random) -> str:
    """A time of day, mostly as `07:30`."""
    if rng.random() < 0.2:
        return f"{rng.randint(1, 12)} {rng.choice(('am', 'pm'))}"
    hour, minute = rng.randrange(24), rng.choice((0, 15, 30, 45, rng.randrange(60)))
    return f"{hour:02}:{minute:02}"


def date(rng: random.Random) -> str:
    """A day that can follow `on`."""
    return rng.choice(DAYS) if rng.random() < 0.6 else f"{rng.choice(_MONTHS)} {rng.randint(1, 28)}"


def address(rng: random.Random) -> str:
    """An email address."""
    host = rng.choice(("example", "mail", "post", "home", made_up(rng).lower()))
    return f"{person(rng).lower()}@{host}.{rng.choice(('com', 'org', 'net'))}"


def symbol(rng: random.Random) -> str:
    """A ticker symbol."""
    if rng.random() < 0.4:
        return rng.choice("AAPL MSFT GOOG AMZN TSLA NVDA META IBM INTC AMD ORCL NFLX DIS NKE KO PEP SAP BMW".split())
    return "".join(rng.choice("BCDFGHKLMNPRSTVWXZ") for _ in range(rng.choice((3, 4, 4))))


def file_name(rng: random.Random) -> str:
    """A file."""
    stem = rng.choice(("report", "notes", "photo", "letter", "plan", "budget", "song", "list", made_up(rng).lower()))
    tail = rng.choice(("", "", f"_{rng.randint(1, 99)}", f"{rng.randint(2019, 2026)}"))
    return f"{stem}{tail}.{rng.choice(('txt', 'pdf', 'doc', 'jpg', 'mp3', 'csv'))}"


def folder(rng: random.Random) -> str:
    """A file path."""
    inside = rng.choice(("documents", "music", "photos", "work", "old", made_up(rng).lower()))
    return f"/home/{person(rng).lower()}/{inside}"


def app(rng: random.Random) -> str:
    """A program."""
    known = "Calendar Notes Chess Photos Camera Maps Music Mail Firefox Settings Paint".split()
    return made_up(rng) if rng.random() < 0.5 else rng.choice(known)


def expression(rng: random.Random) -> str:
    """An expression such as `12 * 7`."""
    a, b, c = (rng.randint(1, 10 ** rng.randint(1, 4)) for _ in range(3))
    first, second = rng.choice("+-*/"), rng.choice("+-*")
    whole = rng.choice((f"{a} {first} {b}",) * 4 + (f"{a} {first} {b} {second} {c}", f"({a} {first} {b}) {second} {c}"))
    return whole.replace(" ", "") if rng.random() < 0.25 else whole


def foreign(rng: random.Random) -> str:
    """Words of a made-up language."""
    return " ".join(made_up(rng).lower() for _ in range(rng.randint(2, 3)))


UNITS = {
    "km": ("length", 1000.0),
    "miles": ("length", 1609.344),
    "meters": ("length", 1.0),
    "feet": ("length", 0.3048),
    "inches": ("length", 0.0254),
    "cm": ("length", 0.01),
    "yards": ("length", 0.9144),
    "kg": ("weight", 1.0),
    "pounds": ("weight", 0.45359237),
    "grams": ("weight", 0.001),
    "ounces": ("weight", 0.0283495),
    "tons": ("weight", 1000.0),
    "liters": ("volume", 1.0),
    "gallons": ("volume", 3.785412),
    "cups": ("volume", 0.24),
    "pints": ("volume", 0.473176),
    "hours": ("time", 60.0),
    "minutes": ("time", 1.0),
    "seconds": ("time", 1 / 60),
    "days": ("time", 1440.0),
}
"""What each unit measures, and its size in the base unit."""


def units(rng: random.Random) -> dict[str, Any]:
    """Two units that measure the same thing."""
    kind = rng.choice(("length", "weight", "volume", "time"))
    source, target = rng.sample([name for name, (measures, _) in UNITS.items() if measures == kind], 2)
    return {"from": source, "to": target}


def converted(given: Mapping[str, Any]) -> float:
    """A value converted to another unit."""
    value = float(given["value"]) * UNITS[given["from"]][1] / UNITS[given["to"]][1]
    return round(value, 2 if value > 1 else 5)
