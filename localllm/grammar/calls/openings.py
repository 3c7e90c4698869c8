"""Every way in which a call may open inside an answer, as readers of answers see it.

White space in literals may be missing, and so may literals before the last necessary one: the begin of a section, the
first of two lines. Text after the last necessary literal must be as the model was trained to write it. Knows nothing of
a call's content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from localllm.grammar.texts.literals import BLANKS, Literals, Segments, escaped, parts_of
from localllm.types.formats import Calls, ChatFormat, ObjectCall

LEAST_PART = 4
"""Minimum length, in characters, of a literal's last part that opens a call without the other parts."""


class SpelledOpening(NamedTuple):
    """An opening as text."""

    pattern: str
    """A regular expression up to the last necessary literal."""
    rest: str
    """The literal after it."""


class MarkedOpening(NamedTuple):
    """An opening with a special token in it."""

    token: int
    rest: Segments
    is_early: bool
    """Whether the token alone opens a call: nothing else begins with it."""


class Openings(NamedTuple):
    """All openings of one format."""

    spelled: tuple[SpelledOpening, ...]
    marked: tuple[MarkedOpening, ...]

    @property
    def marks(self) -> list[int]:
        """The special tokens that alone open a call."""
        return sorted({each.token for each in self.marked if each.is_early})

    @property
    def others(self) -> list[int]:
        """The special tokens of openings that also begin other things."""
        return sorted({each.token for each in self.marked} - {*self.marks})


def openings_of(format_: ChatFormat, calls: Calls, literals: Literals) -> Openings:
    """All openings of a format, those of the model's own notation first."""
    before = parts_of(calls.call.before)
    brace = "{" if isinstance(calls.call, ObjectCall) else ""
    spelled = [_spelled(begin, calls.call.before, brace) for begin in _begins(calls)]
    literal = [begin + calls.call.before + brace for begin in _begins(calls)]
    if before:
        spelled.append(_spelled("", calls.call.before, brace))
        literal.append(calls.call.before + brace)
        if len(before) > 1 and len(before[-1]) >= LEAST_PART:
            spelled.append(_spelled("", calls.call.before[calls.call.before.rindex(before[-1]) :], brace))
    others = _others(format_)
    marked = [
        found for text in dict.fromkeys(literal) if (found := _marked(text.lstrip(), others, literals)) is not None
    ]
    return Openings(tuple(dict.fromkeys(spelled)), tuple(marked))


def _begins(calls: Calls) -> Iterator[str]:
    if calls.begin:
        yield calls.begin
    yield from calls.also_begins


def _spelled(begin: str, before: str, brace: str) -> SpelledOpening:
    """The opening as text. The first and last parts are necessary; of `begin`, only the first."""
    is_list = begin.rstrip().endswith("[") and len(begin.strip()) > 1
    firsts = parts_of(begin.rstrip().removesuffix("[") if is_list else begin)
    firsts += ["["] if is_list else []
    own = parts_of(before)
    needed = [False] * len(firsts) + [False] * (len(own) - 1) + [True] * bool(own)
    if own and not firsts:
        needed[0] = True
    if firsts and begin.strip() != "[":
        needed[0] = True
    parts = [*firsts, *own]
    if brace:
        parts, needed = [*parts, brace], [*needed, True]
    if not any(needed):
        needed[0] = True
    last = len(needed) - needed[::-1].index(True)
    pattern = BLANKS.join(
        escaped(part) if must else f"({escaped(part)})?" for part, must in zip(parts[:last], needed[:last], strict=True)
    )
    whole = begin + before + brace
    return SpelledOpening(pattern, _behind(whole, parts[:last]))


def _behind(whole: str, parts: list[str]) -> str:
    """The text after these parts in the whole literal."""
    at = 0
    for part in parts:
        at = whole.index(part, at) + len(part)
    return whole[at:]


def _marked(text: str, others: list[str], literals: Literals) -> MarkedOpening | None:
    """The opening by its first special token. If text comes before that token, no other literal may contain it."""
    segments = literals.segments(text)
    place = next((place for place, part in enumerate(segments) if isinstance(part, int)), None)
    if place is None:
        return None
    token, rest = segments[place], segments[place + 1 :]
    assert isinstance(token, int)
    if place:
        is_used = any(token in literals.segments(other) for other in others)
        return None if is_used else MarkedOpening(token, rest, is_early=True)
    is_first = any(literals.segments(other.lstrip())[:1] == (token,) for other in others)
    has_text = any(isinstance(part, str) and part.strip() for part in rest)
    return MarkedOpening(token, rest, is_early=not is_first or not has_text)


def _others(format_: ChatFormat) -> list[str]:
    """The literals that do not open a call."""
    tags = [each for each in (format_.thought, format_.text) if each is not None]
    return [*(text for tag in tags for text in (tag.opening, tag.closing)), *format_.also_text, *format_.ignored]
