"""Building blocks of stories: names, kinds of heroes, places, things, and what single plots need."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .data import read

_DATA = read(__name__)

GIRLS = _DATA.texts("girls")
BOYS = _DATA.texts("boys")
ADJECTIVES = ("little", "small", "young", "brave", "kind", "clever", "shy", "happy", "quiet", "cheerful", "curious")
FRIEND_ADJECTIVES = ("friendly", "kind", "young", "clever", "cheerful", "gentle", "wise", "funny", "quiet", "small")
COLORS = ("red", "blue", "green", "yellow", "white", "golden", "silver", "purple", "orange", "pink", "brown", "black")
LOOKS = ("old", "new", "shiny", "pretty", "little")
ANIMALS = _DATA.texts("animals")
PEOPLE = "boy girl prince princess king queen farmer baker knight robot dragon giant pirate wizard".split()
HE_ONLY = ("boy", "prince", "king")
SHE_ONLY = ("girl", "princess", "queen", "hen", "cow")

PLACES = _DATA.rows("places")


@dataclass(frozen=True, slots=True)
class Thing:
    """Something to own, lose, share or give: verbs for using it (present and past) and for spoiling it."""

    noun: str
    use: str
    used: str
    harm: str = ""
    light: bool = False
    """Whether the wind can carry it away."""


def _things(rows: str) -> tuple[Thing, ...]:
    """Read `noun: use / used / harm` lines; a `~` before the noun marks it as light."""
    things = []
    for row in rows.strip().splitlines():
        noun, _, doing = row.partition(": ")
        use, used, harm = (part.strip() for part in doing.split("/"))
        things.append(Thing(noun.lstrip("~"), use, used, harm, noun.startswith("~")))
    return tuple(things)


THINGS = _things(
    """
~ball: play with it / played with it /
~kite: fly it / flew it / tore
drum: play it / played it / broke
boat: sail it / sailed it / broke
doll: play with it / played with it / broke
~hat: wear it / wore it / tore
~scarf: wear it / wore it / tore
book: read it / read it / tore
lamp: light it / lit it / broke
bell: ring it / rang it / broke
key: look at it / looked at it /
cup: drink from it / drank from it / broke
basket: carry it / carried it / broke
~blanket: sit under it / sat under it / tore
~umbrella: play with it / played with it / broke
coat: wear it / wore it / tore
ring: wear it / wore it /
shell: listen to it / listened to it / broke
stone: look at it / looked at it /
coin: look at it / looked at it /
~map: look at it / looked at it / tore
flute: play it / played it / broke
box: play with it / played with it / broke
mirror: look into it / looked into it / broke
pillow: sit on it / sat on it / tore
bag: carry it / carried it / tore
button: look at it / looked at it / broke
whistle: blow it / blew it / broke
~feather: play with it / played with it /
~balloon: play with it / played with it /
crown: wear it / wore it / broke
clock: listen to it / listened to it / broke
puppet: play with it / played with it / broke
wagon: pull it / pulled it / broke
sled: ride on it / rode on it / broke
lantern: light it / lit it / broke
spoon: eat with it / ate with it / broke
pen: write with it / wrote with it / broke
~ribbon: wear it / wore it / tore
necklace: wear it / wore it / broke
~cap: wear it / wore it / tore
bowl: eat from it / ate from it / broke
guitar: play it / played it / broke
bucket: carry it / carried it / broke
~flag: wave it / waved it / tore
~picture: look at it / looked at it / tore
"""
)

FOODS = _DATA.rows("foods")
FEARS = _DATA.rows("fears")
SKILLS = _DATA.rows("skills")
NOISES = _DATA.rows("noises")
PLANTS = _DATA.rows("plants")
DREAMS = _DATA.rows("dreams")
BUILDS = _DATA.rows("builds")
SPOTS = _DATA.texts("spots")


def a(words: str) -> str:
    """The words with `a` or `an`."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


SHE_FRIENDS = "Lotte Mimi Rosa Tilda Wilma".split()
HE_FRIENDS = "Bruno Gus Hugo Otto Paco".split()
"""Second heroes have few names: with many, each would be less likely than a repetition of the first hero's name."""


def name(rng: random.Random, she: bool) -> str:
    """A girl's or a boy's name; two of five are made up, so that a model learns to copy names."""
    if rng.random() < 0.6:
        return rng.choice(GIRLS if she else BOYS)
    syllables = [rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.choice((1, 2, 2)))]
    last = rng.choice("bdklmnrstvz") + ("a" if she else rng.choice(("o", "ik", "un", "ar", "ob", "en", "is", "o")))
    return ("".join(syllables) + last).capitalize()
