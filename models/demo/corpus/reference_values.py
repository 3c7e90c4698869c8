"""Facts that users state about themselves: many names, towns, jobs, hobbies, plans and shopping lists."""

from __future__ import annotations

import random

from .data import read
from .name_lists import ASSISTANTS, city, made_up, person, with_article

_DATA = read(__name__)

Values = dict[str, str]

_PET_KINDS = "cat;dog;hamster;rabbit;parrot;horse;turtle;fish;bird;mouse;pony;snake;hen;goat;duck;pig".split(";")
_JOBS = _DATA.texts("jobs")
_DOING = _DATA.texts("doing")
_COLLECTED = _DATA.texts("collected")
_PLAYED = "the piano;the guitar;the violin;the drums;the flute;cards;board games;video games;the trumpet".split(";")
_BUILT = "model ships;model planes;robots;kites;bird houses;small boats;toy cars;clocks;lamps;chairs".split(";")
_COLORS = _DATA.texts("colors")
_SHADES = ("dark", "light", "bright", "pale", "deep")
_FOODS = _DATA.texts("foods")
_PLANS = _DATA.mapping("plans")
_BUYS = _DATA.texts("buys")


def values(rng: random.Random, key: str) -> Values:
    """Fillers of a statement: `value`, `capital` (the value at the start of a sentence), and `kind` for pets."""
    value = _value(rng, key)
    filled = {"value": value, "capital": value[0].upper() + value[1:]}
    return {**filled, "kind": rng.choice(_PET_KINDS)} if key == "pet" else filled


def other_kind(rng: random.Random, kind: str) -> str:
    """A different kind of pet."""
    return rng.choice([other for other in _PET_KINDS if other != kind])


def job(rng: random.Random) -> str:
    """A job with its article."""
    return with_article(rng.choice(_JOBS))


def hobby(rng: random.Random) -> str:
    """Something people like to do."""
    chance = rng.random()
    if chance < 0.5:
        return rng.choice(_DOING)
    if chance < 0.65:
        return f"collecting {rng.choice(_COLLECTED)}"
    if chance < 0.8:
        return f"playing {rng.choice(_PLAYED)}"
    return f"building {rng.choice(_BUILT)}" if chance < 0.9 else f"reading about {rng.choice(_COLLECTED)}"


def _value(rng: random.Random, key: str) -> str:
    """The stated value."""
    match key:
        case "name" | "friend":
            return person(rng)
        case "age":
            return str(rng.randint(5, 99))
        case "city":
            return city(rng)
        case "pet":
            chance = rng.random()
            return rng.choice(ASSISTANTS) if chance < 0.5 else person(rng) if chance < 0.6 else made_up(rng)
        case "job":
            return job(rng)
        case "hobby":
            return hobby(rng)
        case "color":
            color = rng.choice(_COLORS)
            return f"{rng.choice(_SHADES)} {color}" if rng.random() < 0.3 else color
        case "food":
            return rng.choice(_FOODS)
        case "plan":
            verb, things = rng.choice(list(_PLANS.items()))
            return f"{verb} {rng.choice(things.split(';'))}"
        case "number":
            return str(rng.randint(1, rng.choice((20, 100, 1000, 10000))))
    *first, last = rng.sample(_BUYS, rng.choice((2, 3, 3, 4, 5)))
    return f"{', '.join(first)} and {last}"
