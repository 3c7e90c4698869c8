"""Prompts with a given number of words: each different, and the same again for the same seed. Knows no tokens.

The words are common English ones: one token each in most vocabularies, more in small ones.
"""

from __future__ import annotations

import random
from typing import NamedTuple

WORDS = """
    time year people way day man thing woman life child world school state family student group country problem hand
    part place case week company system program question work government number night point home water room mother
    area money story fact month lot right study book eye job word business issue side kind head house service friend
    father power hour game line end member law car city community name president team minute idea body information
    back parent face level office door health person art war history party result change morning reason research girl
    moment air teacher force education foot boy age policy music market sense nation plan college interest death
    experience effect use class control care field development role effort rate heart drug show leader light voice
    wife police mind price report decision son view town road form building action season society tax director
    position player record paper space ground event official matter center couple site project activity star table
    need court oil situation cost industry figure street image phone data picture practice piece land product doctor
    wall patient worker news test movie north love support technology step baby computer type attention film tree
    source organization hair look window evidence earth
""".split()


class Prompt(NamedTuple):
    """A prompt in two parts: one that all prompts share, which may be empty, and its own."""

    shared: str
    own: str


class PromptMaker:
    """Makes prompts that differ from the first words after the shared part, so that no cache helps by accident."""

    def __init__(self, seed: int, num_own: int, num_shared: int = 0) -> None:
        self._seed = seed
        self._num_own = num_own
        self._shared = words(f"{seed} shared", num_shared)

    def prompt(self, concurrency: int, number: int) -> Prompt:
        """The `number`-th prompt of a level; warm-up requests have numbers below 0."""
        return Prompt(self._shared, words(f"{self._seed} {concurrency} {number}", self._num_own))


def words(seed: str, count: int) -> str:
    """`count` of `WORDS`, drawn with this seed."""
    chooser = random.Random(seed)
    return " ".join(chooser.choice(WORDS) for _ in range(count))
