"""The cast of a story: who plays which part, and the words for each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .data import read
from .story_parts import (
    ADJECTIVES,
    ANIMALS,
    BUILDS,
    COLORS,
    DREAMS,
    FEARS,
    FOODS,
    FRIEND_ADJECTIVES,
    HE_FRIENDS,
    HE_ONLY,
    LOOKS,
    NOISES,
    PEOPLE,
    PLACES,
    PLANTS,
    SHE_FRIENDS,
    SHE_ONLY,
    SKILLS,
    SPOTS,
    Thing,
    a,
    name,
)

_DATA = read(__name__)

Cast = dict[str, str]
"""Fillers of a story's slots."""

_PLURALS = _DATA.mapping("plurals")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requirements on the cast."""

    kind: str = ""


def _title_case(words: str) -> str:
    """As in a story's title."""
    small = ("a", "an", "the", "of", "to", "in")
    return " ".join(word if word in small else word.capitalize() for word in words.split())


def _a_kind(rng: random.Random) -> str:
    """An animal, or sometimes a person."""
    if rng.random() < 0.78:
        return rng.choice(ANIMALS)
    return rng.choice(("boy", "girl")) if rng.random() < 0.4 else rng.choice(PEOPLE)


def _is_she(kind: str, she: bool) -> bool:
    """Whether one of this kind is female; `she` if it may be either."""
    return kind in SHE_ONLY or (kind not in HE_ONLY and she)


def _pronouns(she: bool, prefix: str = "") -> Cast:
    """The pronouns, by slot name."""
    words = ("she", "her", "her", "herself") if she else ("he", "him", "his", "himself")
    slots = dict(zip(("he", "him", "his", "himself"), words, strict=True))
    slots |= {key.capitalize(): word.capitalize() for key, word in slots.items()}
    if not prefix:
        return slots
    return {(prefix.capitalize() if key[0].isupper() else prefix) + key.lower(): word for key, word in slots.items()}


def cast_for(rng: random.Random, wanted: Wanted, things: Sequence[Thing]) -> Cast:
    """Choose everyone and everything, in all forms of the words."""
    kind = wanted.kind or _a_kind(rng)
    she = _is_she(kind, rng.random() < 0.5)
    f_she = she if rng.random() < 0.05 else not she
    fkind = _a_kind(rng)
    while fkind == kind or _is_she(fkind, f_she) != f_she:
        fkind = _a_kind(rng)
    hero, friend = name(rng, she), rng.choice(SHE_FRIENDS if f_she else HE_FRIENDS)
    while friend == hero:
        hero = name(rng, she)
    adjective = rng.choice(ADJECTIVES)
    f_adjective = rng.choice([other for other in FRIEND_ADJECTIVES if other != adjective])
    a_hero = a(f"{adjective} {kind}")
    a_friend = a(f"{f_adjective} {fkind}" if rng.random() < 0.75 else fkind)
    slots = {
        "hero": hero,
        "Hero": hero,
        "kind": kind,
        "kinds": _PLURALS.get(kind, f"{kind}s"),
        "a_kind": a(kind),
        "a_hero": a_hero,
        "A_hero": _upper(a_hero),
        "friend": friend,
        "Friend": friend,
        "fkind": fkind,
        "a_fkind": a(fkind),
        "a_friend": a_friend,
        "A_friend": _upper(a_friend),
        **_pronouns(she),
        **_pronouns(f_she, "f_"),
    }
    return {**slots, **_place(rng), **_thing(rng, rng.choice(things)), **_props(rng)}


def _upper(words: str) -> str:
    """The words, capitalized for the beginning of a sentence."""
    return words[0].upper() + words[1:]


def _place(rng: random.Random) -> Cast:
    """Where the hero lives."""
    where, place, looks = rng.choice(PLACES)
    look = rng.choice(("", f"{rng.choice(looks)} "))
    at = f"{where} the {look}{place}"
    house = rng.choice(("", "", "in a small house ", "in a little house ", "in a cozy home "))
    home = f"{house}{at}"
    return {
        "at": at,
        "in_place": f"{where} the {place}",
        "place": place,
        "a_place": a(place),
        "home": home,
        "Home": _upper(home),
    }


def _thing(rng: random.Random, thing: Thing) -> Cast:
    """The thing, and how it looks."""
    look = rng.choice(COLORS if rng.random() < 0.75 else LOOKS)
    whole = f"{look} {thing.noun}"
    return {
        "noun": thing.noun,
        "a_noun": a(thing.noun),
        "Noun": _title_case(thing.noun),
        "thing": whole,
        "a_thing": a(whole),
        "A_Thing": _title_case(a(whole)),
        "use": thing.use,
        "used": thing.used,
        "harm": thing.harm,
        "break": {"tore": "tear"}.get(thing.harm, "break"),
    }


def _props(rng: random.Random) -> Cast:
    """Fillers for single plots."""
    a_food, food, got = rng.choice(FOODS)
    fear, f_where, f_way, face = rng.choice(FEARS)
    skill, skilled = rng.choice(SKILLS)
    noise, n_where, n_what, n_end = rng.choice(NOISES)
    plant, fruit = rng.choice(PLANTS)
    dream, dream_word, idea, dreamed = rng.choice(DREAMS)
    build, purpose = rng.choice(BUILDS)
    return {
        "a_food": a_food,
        "food": food,
        "Food": _title_case(food),
        "got": got,
        "fear": fear,
        "fear_word": fear.split()[-1],
        "f_where": f_where,
        "f_way": f_way,
        "face": face,
        "skill": skill,
        "skill_word": skill,
        "Skill": _title_case(skill),
        "skilled": skilled,
        "Noise": noise,
        "n_where": n_where,
        "n_what": n_what,
        "n_end": n_end,
        "plant": plant,
        "a_plant": a(plant),
        "fruit": fruit,
        "dream": dream,
        "dream_word": dream_word,
        "Idea": idea,
        "dreamed": dreamed,
        "build": build,
        "a_build": a(build),
        "A_Build": _title_case(a(build)),
        "purpose": purpose,
        "spot": rng.choice(SPOTS),
        "color": rng.choice([color for color in COLORS if color[0] not in "aeiou"]),
    }
