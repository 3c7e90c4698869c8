"""Reads the calls of an answer with the literals around and between them, by the description of one format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from localllm.chat.formats.parts.call_reading import CallReading
from localllm.chat.formats.parts.collected import AnswerParts, Draft
from localllm.chat.formats.parts.object_calls import ObjectReading
from localllm.chat.formats.parts.pattern_calls import PatternReading
from localllm.chat.formats.tape import Steps, Tape, parts_of
from localllm.types.conversation import Function
from localllm.types.formats import Calls, ObjectCall

CUT_CALL = "the answer ended within a call, which is in the text"
UNREAD = "what could not be read as a call is in the text"
LEAST_PART = 4
"""Minimum length, in characters, of a literal's last part that marks a call without the other parts."""


class Opening(NamedTuple):
    """A way in which calls may begin: a literal that marks them, and the literals before the first call's own."""

    marker: str
    rest: tuple[str, ...] = ()
    is_list: bool = False
    """Whether a bracket follows."""
    before: tuple[str, ...] | None = None
    """The remaining literals of the first call; None: all."""


class Section:
    """Reads the calls of one answer."""

    def __init__(
        self,
        calls: Calls,
        functions: Sequence[Function],
        tape: Tape,
        out: AnswerParts,
        show: Callable[[str], None],
    ) -> None:
        self._calls = calls
        self._functions = functions
        self._tape = tape
        self._out = out
        self._show = show
        """Receives text that is no call."""
        self._has_made = False
        """Whether any of these calls is of a declared function."""
        call = calls.call
        is_object = isinstance(call, ObjectCall)
        self._before = parts_of(call.before)
        self._call: CallReading = (
            ObjectReading(call) if isinstance(call, ObjectCall) else PatternReading(call, calls.arguments)
        )
        self._starts = self._before[:1] + self._before[1:][-1:] or (("{",) if is_object else ())
        """First literals of a call, if any mark it."""
        end = calls.end.strip()
        self._end = ("]", *parts_of(end[1:])) if end.startswith("]") else parts_of(end)
        self._between = parts_of(calls.between) or ((";",) if calls.is_bare else ())
        self.openings = self._openings()
        self.bare = Opening("", is_list=bool(calls.begin))
        """The opening of calls that only brackets open."""
        self.bracket = calls.opening.strip()[0] if calls.is_bare else ""
        """The first of these brackets; empty for other formats."""

    def _openings(self) -> list[Opening]:
        begins = [*self._calls.also_begins] if self._calls.is_bare else [self._calls.begin, *self._calls.also_begins]
        found = [each for begin in begins for each in self._begun(begin)]
        if self._before:
            found.append(Opening(self._before[0], before=self._before[1:]))
            if self._before[1:] and len(self._before[-1]) >= LEAST_PART:
                found.append(Opening(self._before[-1], before=()))
        return found

    @staticmethod
    def _begun(begin: str) -> list[Opening]:
        begin = begin.strip()
        is_list = begin.endswith("[") and len(begin) > 1
        parts = parts_of(begin.removesuffix("[") if is_list else begin)
        return [Opening(parts[0], parts[1:], is_list)] if parts else []

    def read(self, opening: Opening, *, is_guess: bool = False) -> Steps[bool]:
        """Read calls after the opening's marker, while the tape records since that marker. Returns whether there is a
        call, declared or not; if not, the tape continues to record."""
        tape = self._tape
        yield from tape.parts(opening.rest)
        if opening.is_list:
            yield from tape.parts(("[",))
        before = self._before if opening.before is None else opening.before
        if before and not (yield from tape.parts(before, needs_last=True)):
            return False
        self._has_made = False
        if not (yield from self._one(is_guess=is_guess)):
            return False
        while (follows := (yield from self._next())) is not None:
            is_guess = is_guess or follows == "maybe"
            if (yield from self._one(is_guess=is_guess)):
                continue
            raw = tape.recorded()
            if is_guess:
                tape.back(raw)
            else:
                self._show(raw)
                self._out.note(UNREAD)
            break
        return True

    def _one(self, *, is_guess: bool) -> Steps[bool]:
        """Read a call; a call of an undeclared function stays text. Returns whether it is a call at all."""
        draft = Draft(self._functions, self._out)
        outcome = yield from self._call.read(self._tape, draft, is_guess=is_guess)
        draft.close()
        if outcome == "undeclared":
            self._show(self._tape.recorded())
            draft.note_undeclared()
        if draft.is_made and draft.members:
            self._show(", ".join(draft.members))
            self._out.note(UNREAD)
        self._has_made |= outcome == "made"
        return outcome != "broken"

    def _next(self) -> Steps[Literal["call", "maybe"] | None]:
        """After a call, read the first literals of another, if one follows. If so, the tape records."""
        tape = self._tape
        tape.record()
        gap = yield from tape.space()
        found = yield from tape.literal([*self._starts, *self._between[:1], *self._end[:1]])
        if found and found in self._between[:1] and found not in self._starts:
            yield from tape.parts(self._between[1:])
            yield from tape.space()
            gap, found = "", (yield from tape.literal([*self._starts, *self._end[:1]]))
            if not self._starts and not found:
                return "call"
        if found in self._end[:1]:
            yield from tape.parts(self._end[1:])
            raw = tape.recorded()
            if not self._has_made:
                self._show(raw)
            return None
        tape.back(found)
        if found and (not self._before or (yield from tape.parts(self._before, needs_last=True))):
            return "call"
        if gap and not found and not self._starts and not self._between:
            return "maybe"
        if not found:
            tape.back(gap)
        self._show(tape.recorded())
        return None
