"""Ranks the sections of all pages by a few words. Words are compared by their stems; those in headings count most."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from typing import NamedTuple

from localllm.docs.pages import Section, pages

_WORD = re.compile(r"[a-z0-9][a-z0-9_]*")
_COMMON = frozenset(
    "a an and are as at be by can do does for from get how i if in is it its me my of on or set so than that the this "
    "to use want what when where which why will with you your".split()
)
_ENDINGS = re.compile(r"(?:ings?|ed|es|s)$")
HEADING_WEIGHT, TITLE_WEIGHT = 4.0, 1.0
"""Weight of a word in the section's heading, and in the title of its page, relative to one in its text."""
COVERED_WEIGHT = 0.5
"""Multiplies a score by up to 1.5, for a heading that consists of the words asked for."""
PHRASE_WEIGHT = 3.0
"""Added for the whole phrase in the text, doubled for one in the heading."""
GENERATED = frozenset({"fields", "llama-cpp", "settings"})
"""Pages made from the code."""
REFERENCE_WEIGHT = 0.3
"""Weight of a page in `GENERATED`: a list that names everything."""


class _Indexed(NamedTuple):
    section: Section
    heading: frozenset[str]
    title: frozenset[str]
    words: Counter[str]


def search(query: str, most: int) -> list[Section]:
    """The best sections, best first; empty if no section contains any of the words."""
    phrase = " ".join(_WORD.findall(query.lower()))
    asked = _stems(query)
    wanted = [stem for stem in asked if stem not in _COMMON] or asked
    scored = [(_score(each, wanted, phrase), -position) for position, each in enumerate(_index())]
    best = sorted((one for one in scored if one[0] > 0), reverse=True)[:most]
    return [_index()[-position].section for _, position in best]


def _score(one: _Indexed, wanted: list[str], phrase: str) -> float:
    length = sum(one.words.values())
    total = 0.0
    for stem in wanted:
        count = one.words[stem]
        found = count * 2.2 / (count + 0.5 + 0.7 * length / 100)  # BM25's saturation, with a typical length of 100
        found += HEADING_WEIGHT * (stem in one.heading) + TITLE_WEIGHT * (stem in one.title)
        total += found * _rarity(stem)
    if one.heading:
        total *= 1 + COVERED_WEIGHT * len(one.heading.intersection(wanted)) / len(one.heading)
    if total and " " in phrase:
        total += PHRASE_WEIGHT * (phrase in one.section.text.lower())
        total += 2 * PHRASE_WEIGHT * (phrase in one.section.heading.lower())
    return total * (REFERENCE_WEIGHT if one.section.topic in GENERATED else 1.0)


def _rarity(stem: str) -> float:
    index = _index()
    having = sum(stem in one.words or stem in one.heading for one in index)
    return math.log(1 + len(index) / (1 + having))


@functools.cache
def _index() -> list[_Indexed]:
    return [
        _Indexed(
            section, frozenset(_stems(section.heading)), frozenset(_stems(page.title)), Counter(_stems(section.text))
        )
        for page in pages().values()
        for section in page.sections()
    ]


def _stems(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    return _ENDINGS.sub("", word) if len(word) > 4 else word.removesuffix("s") if len(word) > 3 else word
