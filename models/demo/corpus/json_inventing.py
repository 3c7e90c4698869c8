"""Requests to invent something as JSON."""

from __future__ import annotations

import random

from .data import read
from .grammar import Example, Split, say
from .json_copying import example
from .json_prompts import INVENT, INVENT_FREE
from .json_records import Record, asked, record
from .json_tables import BOOK_FIRST, BOOK_LAST, COLORS, LISTS, THINGS
from .name_lists import CITIES, PEOPLE

_DATA = read(__name__)

THINGS_TO_INVENT: dict[str, tuple[str, tuple[str, ...]]] = {
    "a person": ("[a|a random|an imaginary|a new] person", ("name", "age", "city", "job", "hobby", "email", "pet")),
    "a user": ("a [|random |new |test ]user", ("name", "email", "age", "city", "active")),
    "a character": (
        "a [|story |game |new |random ][character|hero]",
        ("name", "job", "level", "weapon", "power", "age", "home"),
    ),
    "a pet": ("a [|random |new ]pet", ("name", "kind", "age", "color", "food")),
    "a product": ("a [|random |new |test ]product", ("name", "price", "color", "stock", "category")),
    "a recipe": ("a [|simple |short |new ]recipe", ("name", "ingredients", "minutes", "servings")),
    "a book": ("a [|random |new ]book", ("title", "author", "pages", "year")),
    "an event": ("[an|a new|a fun] event", ("title", "day", "time", "city", "guests")),
    "a place": ("[a place|a town|a city]", ("name", "country", "people", "river")),
}
"""A kind of thing to invent, how requests call it, and its possible keys; the first three are the default."""

NUMBER_KEYS = ("age", "level", "price", "stock", "minutes", "servings", "pages", "year", "people")

LAST_NAMES = "Hill Brook Stone Wood Field King Baker Reed".split()
BRANDS = "Sunny Nova Smart Happy Super Mini".split()
PLACES = "River Green Stone Oak Bright North West".split()
PRICES = (5, 9.99, 12.5, 15, 19.99, 25, 49.99, 80, 99.5)
HEROES = "knight wizard thief hunter king queen sailor pilot healer guard".split()
WEAPONS = "sword bow axe spear hammer staff shield knife".split()
POWERS = "fire,ice,speed,light,magic,wind,strength,flying".split(",")
HOMES = "castle forest village cave island tower mountain".split()
PETS_FED = _DATA.rows("pets_fed")
PET_NAMES = "Max Luna Rex Coco Bella Milo Daisy Lucky Bobo Nala".split()
PET_COLORS = "brown black white gray".split()
RECIPES = _DATA.rows("recipes")


def invention(rng: random.Random, split: Split) -> Example:
    """An invented object, with the keys that the request names, if any."""
    sort = rng.choice(list(THINGS_TO_INVENT))
    said, keys = THINGS_TO_INVENT[sort]
    thing, known = say(rng, said), made_up_facts(rng, sort)
    if rng.random() < 0.25:
        answer = {key: known[key] for key in keys[:3]}
        return example(INVENT_FREE.say(rng, split, thing=thing), answer, lambda found: len(found) > 0 and fits(found))
    count = rng.choices((1, 2, 3, 4, 5), (1, 4, 6, 3, 1))[0]
    chosen = rng.sample(keys, min(count, len(keys)))
    if rng.random() < 0.5:
        chosen.sort(key=keys.index)
    answer = {key: known[key] for key in chosen}
    request = INVENT.say(rng, split, thing=thing, **asked(rng, answer))
    return example(request, answer, lambda found: found.keys() == answer.keys() and fits(found))


def fits(found: Record) -> bool:
    """Numbers and lists where they belong, and non-empty texts elsewhere."""
    return all(fits_key(key, value) for key, value in found.items())


def fits_key(key: str, value: object) -> bool:
    """A value of the type that the key requires."""
    if key in NUMBER_KEYS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if key == "active":
        return isinstance(value, bool)
    if key in ("ingredients", "guests"):
        return isinstance(value, list) and len(value) > 0
    return isinstance(value, str) and bool(value.strip())


def made_up_facts(rng: random.Random, sort: str) -> Record:
    """A value for every possible key of this sort of thing."""
    values, name = record(rng), rng.choice(PEOPLE)
    (recipe, ingredients), (pet, food) = rng.choice(RECIPES), rng.choice(PETS_FED)
    facts: Record = {
        **values,
        "name": name,
        "age": rng.randint(18, 80),
        "email": f"{name.lower()}@example.com",
        "city": rng.choice(CITIES),
        "author": f"{rng.choice(PEOPLE)} {rng.choice(LAST_NAMES)}",
        "active": values["yes"],
        "title": values["event"] if sort == "an event" else f"{rng.choice(BOOK_FIRST)} {rng.choice(BOOK_LAST)}",
        "level": rng.randint(1, 20),
        "weapon": rng.choice(WEAPONS),
        "power": rng.choice(POWERS),
        "home": rng.choice(HOMES),
        "kind": pet,
        "food": food,
        "ingredients": list(ingredients),
        "minutes": rng.choice((10, 15, 20, 30, 45)),
        "servings": rng.randint(2, 6),
        "country": rng.choice(LISTS["countries"]),
        "category": rng.choice(("home", "kitchen", "garden", "office", "sport")),
        "price": rng.choice(PRICES),
        "stock": rng.randint(1, 50),
        "guests": rng.sample(PEOPLE, rng.randint(2, 3)),
        "people": rng.randint(2, 900) * 100,
        "river": f"{rng.choice(COLORS).capitalize()} River",
    }
    own: dict[str, Record] = {
        "a pet": {"name": rng.choice(PET_NAMES), "color": rng.choice(PET_COLORS), "age": rng.randint(1, 15)},
        "a character": {"job": rng.choice(HEROES)},
        "a product": {"name": f"{rng.choice(BRANDS)} {rng.choice(THINGS)}"},
        "a recipe": {"name": recipe},
        "a place": {"name": f"{rng.choice(PLACES)}{rng.choice(('ton', 'field', 'bridge', 'wood'))}"},
    }
    return {**facts, **own.get(sort, {})}
