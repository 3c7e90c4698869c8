"""Positions in rendered conversations: which of the prompts answered earlier a text begins with.

Texts are known by length and digest, so a prompt takes no memory. Linear in the text. Knows nothing of answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from localllm.types import ChatFormat


class PrefixPosition(NamedTuple):
    """A prefix of a text, by its number of characters and digest."""

    length: int
    digest: bytes


class Ending(NamedTuple):
    """Where the answer to a prompt begins: at its end, or before an empty reasoning block that the prompt opened and
    closed, which many templates leave out of a conversation that continues."""

    whole: PrefixPosition
    bare: PrefixPosition
    """Without that block; the same if there is none."""
    in_thought: bool

    def place_in(self, begun: set[PrefixPosition]) -> PrefixPosition | None:
        """Where the answer begins in a text that begins with these places."""
        return self.whole if self.whole in begun else self.bare if self.bare in begun else None


def begun_with(text: str, places: Iterable[PrefixPosition]) -> set[PrefixPosition]:
    """Which of the places the text begins with."""
    found: set[PrefixPosition] = set()
    wanted = sorted(set(places))
    for digest, place in zip(_digests(text, [place.length for place in wanted]), wanted, strict=False):
        if digest == place.digest:
            found.add(place)
    return found


def ending_of(text: str, format: ChatFormat) -> Ending:
    """The ending of a rendered prompt."""
    end = text.rstrip()
    length, in_thought = len(text), False
    if format.thought is not None and (opening := format.thought.opening.strip()):
        in_thought = end.endswith(opening)
        before = end.removesuffix(format.thought.closing.strip()).rstrip()
        if before != end and before.endswith(opening):
            length = len(before) - len(opening)
    bare, whole = _digests(text, [length, len(text)])
    return Ending(PrefixPosition(len(text), whole), PrefixPosition(length, bare), in_thought)


def _digests(text: str, lengths: Sequence[int]) -> list[bytes]:
    """Digests of the prefixes of these lengths, in ascending order, as far as the text goes."""
    hashed, at = hashlib.blake2b(digest_size=16), 0
    found = []
    for length in lengths:
        if length > len(text):
            break
        hashed.update(text[at:length].encode("utf-8", "surrogatepass"))
        at = length
        found.append(hashed.copy().digest())
    return found
