"""Places in rendered conversations: which remembered prompt a text begins with, and where the answer behind it ends.

    rendered text   [prompt that was answered)[what the template writes of the answer)[what comes behind it ...)
                                              0                                 end of turn

Texts are known by length and digest, so that a remembered prompt takes no memory. Linear in the text.
Knows nothing of what is remembered of a place.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from localllm.chat.meaning import is_same_answer
from localllm.chat.whole_answers import read_answer
from localllm.types import ChatFormat, Function, Message

MOST_ENDS = 8
"""Spellings of a token that ends a turn, up to which an answer is searched for its own end."""
LOOK_AHEAD = 256
"""Characters, within which such a token is."""
TIMES_AS_LONG, MORE = 4, 4096
"""As a template may write an answer, in characters."""


class Place(NamedTuple):
    """The beginning of a text, of so many characters."""

    length: int
    digest: bytes


class Ending(NamedTuple):
    """Where the answer to a prompt begins: at its end, and also before a thought that it opened and closed at once,
    which many templates leave out of a conversation that goes on.
    """

    whole: Place
    bare: Place
    """Without that thought; the same if it has none."""
    in_thought: bool

    def place_in(self, begun: set[Place]) -> Place | None:
        """Where the answer begins in a text that begins with these places."""
        return self.whole if self.whole in begun else self.bare if self.bare in begun else None


def begun_with(text: str, places: Iterable[Place]) -> set[Place]:
    """Those of the places that the text begins with."""
    found: set[Place] = set()
    wanted = sorted(set(places))
    for digest, place in zip(_digests(text, [place.length for place in wanted]), wanted, strict=False):
        if digest == place.digest:
            found.add(place)
    return found


def ending_of(text: str, format: ChatFormat) -> Ending:
    """Of a rendered prompt."""
    end = text.rstrip()
    length, in_thought = len(text), False
    if format.thought is not None and (opening := format.thought.opening.strip()):
        in_thought = end.endswith(opening)
        before = end.removesuffix(format.thought.closing.strip()).rstrip()
        if before != end and before.endswith(opening):
            length = len(before) - len(opening)
    bare, whole = _digests(text, [length, len(text)])
    return Ending(Place(len(text), whole), Place(length, bare), in_thought)


def _digests(text: str, lengths: Sequence[int]) -> list[bytes]:
    """Of the beginnings of these lengths, in ascending order, as far as the text goes."""
    hashed, at = hashlib.blake2b(digest_size=16), 0
    found = []
    for length in lengths:
        if length > len(text):
            break
        hashed.update(text[at:length].encode("utf-8", "surrogatepass"))
        at = length
        found.append(hashed.copy().digest())
    return found


def end_of_turn(
    text: str,
    start: int,
    answer: Message,
    format: ChatFormat,
    functions: Sequence[Function],
    *,
    in_thought: bool,
    ends: re.Pattern[str],
    is_end: Callable[[str], bool],
) -> int | None:
    """Where the turn ends that begins at `start`, if it means what the answer means: before a token that ends turns.

    None: the template leaves something out, such as a thought, or no such token stands behind it.
    `ends` finds spellings of such tokens, `is_end` says whether a text begins with one of them in truth.
    """
    longest = start + TIMES_AS_LONG * size_of(answer) + MORE
    for match in itertools.islice(ends.finditer(text, start, longest), MOST_ENDS):
        at = match.start()
        if is_end(text[at : at + LOOK_AHEAD]):
            read = read_answer(text[start:at], format, functions, in_thought=in_thought)
            is_kept = read.message.thought.strip() == answer.thought.strip()
            if is_kept and not read.ends_in_thought and is_same_answer(read.message, answer):
                return at
    return None


def size_of(message: Message) -> int:
    """Characters of all its texts."""
    calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return len(message.content) + len(message.thought) + calls
