"""Facts about things and words: parts, colours, opposites, plurals, and what animals are like."""

from __future__ import annotations

import random
import re

from .asking import Asked, Intent, a, ask, capital, result_is, says
from .data import read
from .grammar import Split

_DATA = read(__name__)

_PARTS = _DATA.phrasings("parts")
_COUNTS = _DATA.mapping("counts")
_HAS = tuple(
    (one, int(number), parts)
    for parts, rows in _COUNTS.items()
    for one, number in (row.split("/") for row in rows.split(","))
)
_COLOUR = _DATA.phrasings("colour")
_COLOURS = _DATA.rows("colours")
_MIX = _DATA.phrasings("mix")
_MIXES = _DATA.rows("mixes")
_OPPOSITE = _DATA.phrasings("opposite")
_OPPOSITES = _DATA.rows("opposites")
_PLURAL = _DATA.phrasings("plural")
_PLURALS = _DATA.rows("plurals")
_BABY = _DATA.phrasings("baby")
_BABIES = _DATA.rows("babies")
_SOUND = _DATA.phrasings("sound")
_SOUNDS = _DATA.rows("sounds")
_BIGGER = _DATA.phrasings("bigger")
_SIZES = _DATA.texts("sizes")
_SIZE_GAP = 2
_CAN = _DATA.phrasings("can")
_WHICH_CAN = _DATA.phrasings("which_can")
_ABLE = _DATA.mapping("able")
_WHO_CAN = {"fly": "Ducks, owls and bees can fly.", "swim": "Fish, ducks and frogs can swim."}
_MANY: dict[str, str] = _DATA.mapping("many")


def _plural(animal: str) -> str:
    return _MANY.get(animal, animal + "s")


def _parts(rng: random.Random, split: Split) -> Asked:
    one, number, parts = rng.choice(_HAS)
    counted = f"{'no' if number == 0 else number} {parts.removesuffix('s') if number == 1 else parts}"
    check = says(["no", "0", "zero"]) if number == 0 else result_is(number)
    answer = f"{capital(one)} has {counted}."
    return Asked(
        ask(rng, split, _PARTS, parts=parts, one=one), answer, check, f"I know how many {parts} {one} has: {number}."
    )


def _colour(rng: random.Random, split: Split) -> Asked:
    one, colour = rng.choice(_COLOURS)
    thoughts = f"The user asks about a colour. I think of {one}: it is {colour}."
    others = [other for _, other in _COLOURS if other not in (colour, one.split()[-1])]
    return Asked(ask(rng, split, _COLOUR, one=one), f"{capital(one)} is {colour}.", says([colour], others), thoughts)


def _mix(rng: random.Random, split: Split) -> Asked:
    x, y, made = rng.choice(_MIXES)
    others = [mixed for *_, mixed in _MIXES if mixed != made]
    thoughts = f"The user mixes two colours. {capital(x)} with {y} makes {made}."
    first, second = rng.choice(((x, y), (y, x)))
    question = ask(rng, split, _MIX, x=first, y=second)
    return Asked(question, f"{capital(first)} and {second} make {made}.", says([made], others), thoughts)


def _opposite(rng: random.Random, split: Split) -> Asked:
    pair = rng.choice(_OPPOSITES)
    x, y = rng.choice((pair, pair[::-1]))
    thoughts = f"The user wants an opposite. {capital(x)} and {y} are opposites."
    return Asked(ask(rng, split, _OPPOSITE, x=x), f"The opposite of {x} is {y}.", says([y]), thoughts)


def _plural_of(rng: random.Random, split: Split) -> Asked:
    one, many = rng.choice(_PLURALS)
    thoughts = f"The user wants a plural. One {one}, two {many}."
    return Asked(ask(rng, split, _PLURAL, x=one), f"The plural of {one} is {many}.", says([many]), thoughts)


def _baby(rng: random.Random, split: Split) -> Asked:
    x, baby = rng.choice(_BABIES)
    thoughts = f"The user asks about a baby {x}. The word is {baby}."
    others = [other for _, other in _BABIES if other != baby]
    return Asked(
        ask(rng, split, _BABY, x=x, a_x=a(x)), f"A baby {x} is called {a(baby)}.", says([baby], others), thoughts
    )


def _sound(rng: random.Random, split: Split) -> Asked:
    x, sound = rng.choice(_SOUNDS)
    question = ask(rng, split, _SOUND, x=x, a_x=a(x), xs=_plural(x))
    thoughts = f"The user asks for the sound of {a(x)}. It is {sound}."
    others = [other for _, other in _SOUNDS if other != sound]
    return Asked(question, f"{capital(a(x))} says {sound}.", says([sound], others), thoughts)


def bigger(rng: random.Random, split: Split) -> Asked:
    """Which of two animals is bigger, or smaller."""
    small = rng.randrange(len(_SIZES) - _SIZE_GAP)
    x, y = a(_SIZES[small]), a(rng.choice(_SIZES[small + _SIZE_GAP :]))
    more, best, rest = rng.choice((("bigger", y, x), ("bigger", y, x), ("larger", y, x), ("smaller", x, y)))
    first, second = rng.choice(((x, y), (y, x)))
    question = ask(rng, split, _BIGGER, more=more, x=first, y=second)
    more = "smaller" if more == "smaller" else "bigger"
    answer = f"{capital(best)} is {more} than {rest}."
    thoughts = f"I compare {first} and {second}. {capital(y)} is big next to {x}, so {best} is {more}."
    best, rest = best.split()[1], rest.split()[1]
    others = [name for name in _SIZES if name not in (best, rest)]
    only = says([best], [*others, *(["bigger", "larger"] if more == "smaller" else ["smaller"])])
    first_named = re.compile(rf"(?<!\w)({best}|{rest})(?!\w)", re.IGNORECASE)

    def check(text: str) -> bool:
        named = first_named.search(text)
        return only(text) and named is not None and named[1].lower() == best

    return Asked(question, answer, check, thoughts)


def _can(rng: random.Random, split: Split) -> Asked:
    do = rng.choice(("fly", "swim"))
    able = rng.random() < (0.5 if do == "fly" else 0.8)
    x = rng.choice(_ABLE[do][0 if able else 1].split())
    question = ask(rng, split, _CAN, x=x, a_x=a(x), xs=_plural(x), do=do)
    answer = f"Yes, {a(x)} can {do}." if able else f"No, {a(x)} cannot {do}."
    denials = ["no", "cannot", "can not", "can't"]
    thoughts = f"I think of {a(x)}. It {'can' if able else 'cannot'} {do}."
    return Asked(question, answer, says(["yes", "can"], denials) if able else says(denials, ["yes"]), thoughts)


def _which_can(rng: random.Random, split: Split) -> Asked:
    do = rng.choice(("fly", "swim"))
    able, unable = (words.split() for words in _ABLE[do])
    check = says([*able, *map(_plural, able), "birds"], [*unable, *map(_plural, unable)])
    thoughts = f"The user wants animals that {do}. I name three."
    return Asked(ask(rng, split, _WHICH_CAN, do=do), _WHO_CAN[do], check, thoughts)


INTENTS: tuple[tuple[Intent, int], ...] = (
    (_parts, 8), (_colour, 6), (_mix, 3), (_opposite, 8), (_plural_of, 6), (_baby, 4),
    (_sound, 4), (bigger, 4), (_can, 4), (_which_can, 1),
)  # fmt: skip
