"""What a model thinks before it answers, told apart from the answer as both stream. Knows no model and no screen.

Thoughts stand between tags at the very beginning of an answer (several blocks may follow each other), or before a
closing tag alone on its line, where the template opened them. Tags elsewhere, as in an answer about them, are text.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from localllm.types import THOUGHTS

Kind = Literal["thought", "answer", "unmarked"]
"""`unmarked`: no text, but all that came before it was a thought, as can be seen only now."""

TAGS = tuple((thought.opening, thought.closing) for thought in THOUGHTS)
_CLOSING = tuple(closing for _, closing in TAGS)


class Part(NamedTuple):
    """A piece of text and what it is."""

    kind: Kind
    text: str


class ThoughtSplitter:
    """One answer: `feed` it as it comes, `flush` it at its end. The text is the same however it is cut into pieces.

    `starts_inside`: the prompt opened the thoughts.
    """

    def __init__(self, *, starts_inside: bool = False) -> None:
        self._held = ""
        self._closing = TAGS[0][1] if starts_inside else None
        self._may_open = True
        self._trims = True
        """Whether empty lines are dropped that begin a thought or the answer after one."""
        self._watches = not starts_inside
        """For a closing tag without an opening one."""
        self._at_line_start = True
        self._blank = ""
        """Space at the end of a thought, shown only if the thought goes on."""
        self._between = ""
        """What divides a thought from the next."""

    def feed(self, text: str) -> list[Part]:
        """What is known of the text so far."""
        self._held += text
        return self._parts(is_end=False)

    def flush(self) -> list[Part]:
        """The rest of it."""
        return self._parts(is_end=True)

    def _parts(self, *, is_end: bool) -> list[Part]:
        parts: list[Part] = []
        while self._held:
            before = len(self._held), self._closing, self._may_open
            if self._closing is not None:
                self._thought(parts, self._closing, is_end=is_end)
            elif self._may_open:
                self._beginning(is_end=is_end)
            else:
                self._answer(parts, is_end=is_end)
            if (len(self._held), self._closing, self._may_open) == before:
                break
        return _merged(parts)

    def _beginning(self, *, is_end: bool) -> None:
        """Before anything but space: a tag, or the answer."""
        text = self._held.lstrip()
        for opening, closing in TAGS:
            if text.startswith(opening):
                self._held = text[len(opening) :]
                self._closing, self._trims, self._watches = closing, True, False
                return
        if is_end or (text and not any(opening.startswith(text) for opening, _ in TAGS)):
            self._may_open = False
            self._held = self._held if self._watches else text  # after thoughts the answer begins with a word

    def _thought(self, parts: list[Part], closing: str, *, is_end: bool) -> None:
        end = self._held.find(closing)
        keep = 0 if is_end or end >= 0 else _begun(self._held, (closing,))
        text = self._held[:end] if end >= 0 else self._held[: len(self._held) - keep]
        self._held = self._held[end + len(closing) :] if end >= 0 else self._held[len(self._held) - keep :]
        text = self._blank + text
        if self._trims:
            text = text.lstrip()
        self._trims = self._trims and not text
        shown = text.rstrip()
        self._blank = text[len(shown) :]
        if shown:
            parts.append(Part("thought", self._between + shown))
            self._between = ""
        if end >= 0:
            self._closing, self._may_open, self._watches = None, True, False
            self._blank, self._between = "", "\n\n"

    def _answer(self, parts: list[Part], *, is_end: bool) -> None:
        if not self._watches:
            parts.append(Part("answer", self._held))
            self._held = ""
            return
        line, newline, rest = self._held.partition("\n")
        if self._at_line_start and line.strip() in _CLOSING and (newline or is_end):
            parts.append(Part("unmarked", ""))
            self._held, self._watches, self._may_open = rest, False, True
            return
        may_close = self._at_line_start and not newline and not is_end
        if may_close and any(tag.startswith(line.strip()) for tag in _CLOSING):
            return
        parts.append(Part("answer", line + newline))
        self._held, self._at_line_start = rest, bool(newline)


def without_thoughts(text: str, *, starts_inside: bool = False) -> tuple[str, str]:
    """The thoughts of a whole answer, and the answer itself."""
    splitter = ThoughtSplitter(starts_inside=starts_inside)
    thoughts, answer = "", ""
    for part in _merged(splitter.feed(text) + splitter.flush()):
        if part.kind == "thought":
            thoughts += part.text
        elif part.kind == "answer":
            answer += part.text
        else:
            thoughts, answer = answer.strip(), ""
    return thoughts, answer


def _begun(text: str, tags: tuple[str, ...]) -> int:
    """How many characters at the end of `text` may be the beginning of a tag."""
    most = max(len(tag) for tag in tags) - 1
    sizes = range(min(most, len(text)), 0, -1)
    return next((size for size in sizes if any(tag.startswith(text[-size:]) for tag in tags)), 0)


def _merged(parts: list[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        if merged and merged[-1].kind == part.kind and part.kind != "unmarked":
            merged[-1] = Part(part.kind, merged[-1].text + part.text)
        else:
            merged.append(part)
    return merged
