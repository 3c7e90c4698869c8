"""Notes in a system message about a shop or house, with questions that they do or do not answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .data import read
from .grammar import Check, Example, Message, Split, assistant, mentions, mentions_one_of, say, system, user
from .name_lists import made_up, person, place
from .note_phrasings import ASKED, TOLD

_DATA = read(__name__)

NOT_IN_NOTES = "I don't know that. It is not in my notes."

_INTRO = _DATA.phrasings("intro")
_OUTRO = _DATA.texts("outro")
_ITEMS = _DATA.texts("items")
_DISHES = _DATA.texts("dishes")
_DISH_KINDS = _DATA.texts("dish_kinds")
_WORDS = _DATA.texts("words")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_STREETS = ("Street", "Street", "Road", "Lane", "Avenue", "Square", "Hill")
_STREET_NAMES = "Mill King Queen Oak Elm High Station Market Church Park Bridge River School Rose Garden Castle".split()

_Values = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Note:
    """One fact that notes may state: its answers and fillers."""

    answer: str
    values: Callable[[random.Random], _Values]


def _opening(rng: random.Random) -> _Values:
    """When the doors open."""
    return {"value": _hour(rng, 5, 12, "am")}


def _closing(rng: random.Random) -> _Values:
    """When the doors close."""
    return {"value": _hour(rng, 1, 11, "pm")}


def _hour(rng: random.Random, low: int, high: int, half: str) -> str:
    """A time of the day."""
    hour = rng.randint(low, high)
    minutes = f"{hour}:{rng.choice(('00', '15', '30', '45'))}" if rng.random() < 0.3 else str(hour)
    return f"{minutes} {half}" if rng.random() < 0.25 else minutes


def _code(rng: random.Random) -> _Values:
    """A password."""
    chance = rng.random()
    if chance < 0.4:
        return {"value": rng.choice(_WORDS)}
    if chance < 0.7:
        return {"value": made_up(rng).lower()}
    return {"value": f"{rng.choice(_WORDS)}{rng.randint(1, 999)}" if chance < 0.85 else str(rng.randint(1000, 99999))}


def _phone(rng: random.Random) -> _Values:
    """A phone number."""
    return {"value": f"{rng.randint(100, 999)}-{rng.randint(1000, 9999)}" if rng.random() < 0.6 else _digits(rng)}


def _digits(rng: random.Random) -> str:
    """A phone number in one piece or two."""
    return rng.choice((f"{rng.randint(10**5, 10**7)}", f"0{rng.randint(10, 99)} {rng.randint(10**4, 10**5)}"))


def _person(rng: random.Random) -> _Values:
    """A person, sometimes with a last name."""
    name = person(rng)
    return {"value": f"{name} {made_up(rng)}" if rng.random() < 0.3 else name}


def _address(rng: random.Random) -> _Values:
    """A house in a street."""
    street = rng.choice(_STREET_NAMES) if rng.random() < 0.5 else made_up(rng)
    return {"value": f"{rng.randint(1, 199)} {street} {rng.choice(_STREETS)}"}


def _price(rng: random.Random) -> _Values:
    """A thing and its price."""
    unit = rng.choice(("dollars", "euros", "coins", "pounds"))
    amount = (
        f"{rng.randint(2, 99)}.{rng.choice(('50', '20', '90'))}" if rng.random() < 0.15 else str(rng.randint(2, 99))
    )
    return {"value": f"${amount}" if rng.random() < 0.15 else f"{amount} {unit}"}


def _special(rng: random.Random) -> _Values:
    """A dish."""
    first = rng.choice(_DISH_KINDS) if rng.random() < 0.8 else made_up(rng).lower()
    return {"value": f"{first} {rng.choice(_DISHES)}"}


def _day(rng: random.Random) -> _Values:
    """A day of the week."""
    return {"value": rng.choice(_DAYS)}


def _year(rng: random.Random) -> _Values:
    """A year."""
    return {"value": str(rng.randint(1820, 2024))}


def _number(rng: random.Random) -> _Values:
    """A small number."""
    return {"value": str(rng.randint(2, 90))}


_NOTES: dict[str, _Note] = {
    "opening": _Note("We open at {value}.", _opening),
    "closing": _Note("We close at {value}.", _closing),
    "password": _Note("The password is {value}.", _code),
    "phone": _Note("Our phone number is {value}.", _phone),
    "manager": _Note("The manager is {value}.", _person),
    "owner": _Note("The owner is {value}.", _person),
    "address": _Note("Our address is {value}.", _address),
    "price": _Note("The price of {item} is {value}.", _price),
    "special": _Note("The special of the day is {value}.", _special),
    "closed": _Note("We are closed on {value}.", _day),
    "year": _Note("We opened in the year {value}.", _year),
    "seats": _Note("We have {value} seats.", _number),
}


def _facts(rng: random.Random) -> list[tuple[str, _Values]]:
    """One to five facts for notes; several may be prices, of different things."""
    kinds = rng.sample(list(_NOTES), rng.choice((1, 2, 2, 3, 3, 4, 5)))
    facts: list[tuple[str, _Values]] = []
    items = rng.sample(_ITEMS, 3)
    for kind in kinds:
        for item in items[: rng.choice((1, 1, 2, 3)) if kind == "price" else 1]:
            values = _NOTES[kind].values(rng)
            facts.append((kind, {**values, "item": item}))
    return facts


def _system_message(rng: random.Random, split: Split, where: str, facts: Sequence[tuple[str, _Values]]) -> Message:
    """The system message with these facts."""
    lines = [TOLD[kind].say(rng, split, place=where, **values) for kind, values in facts]
    intro = _INTRO.say(rng, split, place=where).strip()
    if rng.random() < 0.25:
        lines = [f"- {line}" for line in lines]
        text = "\n".join([intro, *lines])
    else:
        text = ("\n" if rng.random() < 0.2 else " ").join([intro, *lines])
    if rng.random() < 0.35:
        text += ("\n" if "\n" in text else " ") + rng.choice(_OUTRO)
    return system(text)


def _known(rng: random.Random, split: Split, where: str, kind: str, values: _Values) -> tuple[str, str, Check]:
    """A question that the notes answer."""
    question = ASKED[kind].say(rng, split, place=where, **values)
    return question, say(rng, _NOTES[kind].answer, **values), mentions(values["value"])


def _unknown(
    rng: random.Random, split: Split, where: str, facts: Sequence[tuple[str, _Values]]
) -> tuple[str, str, Check]:
    """A question that the notes do not answer."""
    told = [kind for kind, _ in facts]
    priced = [values["item"] for kind, values in facts if kind == "price"]
    kind = rng.choice([kind for kind in _NOTES if kind not in told or kind == "price"])
    item = rng.choice([item for item in _ITEMS if item not in priced])
    question = ASKED[kind].say(rng, split, place=where, item=item)
    return question, NOT_IN_NOTES, mentions_one_of("don't know", "do not know", "not in my notes")


def notes(rng: random.Random, split: Split) -> Example:
    """Notes, and one or two questions about them."""
    where, facts = place(rng), _facts(rng)
    rng.shuffle(facts)
    messages = [_system_message(rng, split, where, facts)]
    check: Check = bool
    for kind, values in rng.sample(facts, min(len(facts), rng.choice((1, 1, 1, 2, 3)))):
        if rng.random() < 0.2:
            question, answer, check = _unknown(rng, split, where, facts)
        else:
            question, answer, check = _known(rng, split, where, kind, values)
        messages += [user(question), assistant(answer)]
    return Example("system_role", messages, check)
