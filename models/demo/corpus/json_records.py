"""Made-up facts for the JSON examples, how requests name their keys, and when two JSON answers are equivalent."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .grammar import Split, say
from .json_tables import (
    BOOK_FIRST,
    BOOK_LAST,
    COLORS,
    DAYS,
    EVENTS,
    HOBBIES,
    ITEMS,
    JOBS,
    KEYS_OF,
    MESSAGES,
    OTHERS_HELD_OUT,
    OTHERS_TRAIN,
    PEOPLE_HELD_OUT,
    PEOPLE_TRAIN,
    PETS,
    THINGS,
)
from .name_lists import city, made_up, person, with_article

Record = dict[str, Any]


def record(rng: random.Random) -> Record:
    """A value for every slot of a sentence, and its form in the sentence where that differs."""
    people = distinct_people(rng, rng.randint(2, 4))
    name = full_name(rng) if rng.random() < 0.15 else people[0]
    pets, hobbies = rng.sample(PETS, rng.randint(2, 3)), rng.sample(HOBBIES, rng.randint(2, 3))
    job, pet, event, color = rng.choice(JOBS), rng.choice(PETS), rng.choice(EVENTS), rng.choice(COLORS)
    yes = rng.random() < 0.5
    return {
        "name": name,
        "age": rng.randint(2, 99),
        "city": city(rng),
        "street": f"{made_up(rng)} Street",
        "email": email(rng, name),
        "job": job,
        "a_job": with_article(job),
        "hobby": rng.choice(HOBBIES),
        "hobbies": hobbies,
        "hobbies_said": joined(hobbies),
        "pet": pet,
        "a_pet": with_article(pet),
        "pets": pets,
        "pets_said": joined([with_article(one) for one in pets]),
        "people": people,
        "people_said": joined(people),
        "item": rng.choice(ITEMS),
        "count": number(rng),
        "price": price(rng),
        "event": event,
        "a_event": with_article(event),
        "day": rng.choice(DAYS),
        "time": clock(rng),
        "book": book_title(rng),
        "author": full_name(rng),
        "year": rng.randint(1800, 2030),
        "pages": rng.randint(20, 999),
        "product": product_name(rng),
        "color": color,
        "a_color": with_article(color),
        "stock": number(rng),
        "sender": people[0],
        "receiver": people[1],
        "text": message(rng),
        "yes": yes,
        "not_": "" if yes else "not ",
    }


def number(rng: random.Random) -> int:
    """2 to 9999, small ones more often."""
    return rng.randint(2, rng.choice((12, 99, 999, 9999)))


def price(rng: random.Random) -> int | float:
    """A whole price, or one with decimals that JSON writes as shops do."""
    if rng.random() < 0.4:
        return rng.randint(2, rng.choice((30, 999)))
    cents = rng.choice((0.99, 0.95, 0.5, 0.25, 0.75)) if rng.random() < 0.5 else rng.randint(1, 99) / 100
    return round(rng.randint(0, rng.choice((9, 99, 999))) + cents, 2)


def clock(rng: random.Random) -> str:
    """A time of a day."""
    hour = rng.randint(1, 12)
    return rng.choice(
        (f"{hour} {rng.choice(('am', 'pm'))}", f"{rng.randint(7, 23)}:{rng.choice(('00', '15', '30', '45'))}", "noon")
    )


def full_name(rng: random.Random) -> str:
    """A first and a last name."""
    return f"{person(rng)} {made_up(rng)}"


def distinct_people(rng: random.Random, count: int) -> list[str]:
    """First names, all different."""
    people: list[str] = []
    while len(people) < count:
        if (name := person(rng)) not in people:
            people.append(name)
    return people


def email(rng: random.Random, name: str) -> str:
    """An address that belongs to the name."""
    return f"{name.split()[0].lower()}@{rng.choice(('mail', 'post', 'example', made_up(rng).lower()))}.com"


def book_title(rng: random.Random) -> str:
    """Such as "The Silent River"."""
    return f"{rng.choice(BOOK_FIRST)} {rng.choice(BOOK_LAST) if rng.random() < 0.7 else made_up(rng)}"


def product_name(rng: random.Random) -> str:
    """A thing, often of a made-up brand."""
    thing = rng.choice(THINGS)
    return f"{made_up(rng)} {thing}" if rng.random() < 0.6 else thing


def message(rng: random.Random) -> str:
    """A message from one person to another."""
    places = (f"meet me in {city(rng)}", f"{person(rng)} is here", f"call {person(rng)} at {clock(rng)}")
    return rng.choice(MESSAGES) if rng.random() < 0.7 else rng.choice(places)


def joined(words: Sequence[str], last: str = " and ") -> str:
    """One word, two joined by "and", or more with commas."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + last + words[-1]


def slots(template: str) -> list[str]:
    """The keys of the record in a sentence, in order."""
    found = [re.sub(r"^a_", "", slot) for slot in re.findall(r"\{(\w+)\}", template)]
    return list(dict.fromkeys(found))


def fact(rng: random.Random, split: Split, *, usual_keys: bool = False) -> tuple[str, Record]:
    """A sentence and its facts, by possible keys."""
    people = rng.random() < 0.5
    templates = PEOPLE_TRAIN if people else OTHERS_TRAIN
    if split == "held_out" and rng.random() < 0.5:
        templates = PEOPLE_HELD_OUT if people else OTHERS_HELD_OUT
    template, values = rng.choice(templates), record(rng)
    while "[" in template:
        template = say(rng, template, **{slot: "{" + slot + "}" for slot in values})
    told: Record = {}
    for slot in slots(template):
        free = [key for key in KEYS_OF[slot] if key not in told]
        told[free[0] if usual_keys or rng.random() < 0.3 else rng.choice(free)] = values[slot]
    return say(rng, template, **values), told


def some(rng: random.Random, told: Record) -> Record:
    """One to five of the facts, in any order."""
    count = min(len(told), 5) if rng.random() < 0.6 else rng.randint(1, min(len(told), 5))
    keys = rng.sample(list(told), count)
    if rng.random() < 0.5:
        keys.sort(key=list(told).index)
    return {key: told[key] for key in keys}


def keys_said(rng: random.Random, keys: Sequence[str]) -> str:
    """The keys as a request lists them."""
    style = rng.randrange(10)
    if style == 0:
        return joined([f'"{key}"' for key in keys])
    if style == 1:
        return ", ".join(f'"{key}"' for key in keys)
    return ", ".join(keys) if style < 4 else joined(keys)


def the_keys(rng: random.Random, keys: Sequence[str]) -> str:
    """The keys, introduced as keys."""
    plural = "" if len(keys) == 1 else "s"
    called = rng.choice(
        (f"the key{plural}", f"key{plural}", f"the field{plural}", f"field{plural}", f"the key{plural}:")
    )
    return f"{called} {keys_said(rng, keys)}"


def shape(rng: random.Random, answer: Any) -> str:
    """A template of an answer: its braces and keys, with placeholders for the values."""
    style = rng.choice(("...", "...", "...", '"..."', '""', "?", "kind", "kind"))
    return _shape(answer, style)


def _shape(answer: Any, style: str) -> str:
    if isinstance(answer, dict):
        return "{" + ", ".join(f'"{key}": {_shape(value, style)}' for key, value in answer.items()) + "}"
    if isinstance(answer, list):
        return f"[{_shape(answer[0], style)}, ...]" if isinstance(answer[0], dict) else "[...]"
    if style != "kind":
        return style
    if isinstance(answer, bool):
        return "true or false"
    return "string" if isinstance(answer, str) else "number"


def asked(rng: random.Random, answer: Mapping[str, Any]) -> dict[str, str]:
    """Every way in which a phrasing may name the answer's keys."""
    keys = list(answer)
    return {"keys": keys_said(rng, keys), "the_keys": the_keys(rng, keys), "shape": shape(rng, answer)}


def written(answer: Any) -> str:
    """The answer as the model writes it."""
    return json.dumps(answer)


def same(found: Any, wanted: Any) -> bool:
    """Equal except for the case and final punctuation of texts; numbers must be numbers, which true is not."""
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict)
            and found.keys() == wanted.keys()
            and all(same(found[key], wanted[key]) for key in wanted)
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(same(one, other) for one, other in zip(found, wanted, strict=True))
        )
    if isinstance(wanted, str):
        return isinstance(found, str) and plain(found) == plain(wanted)
    return type(found) in (int, float, bool) and isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def plain(text: str) -> str:
    """The value in normal form."""
    return text.strip(" .!?\"'").casefold()
