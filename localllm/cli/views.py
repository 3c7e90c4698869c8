"""Where an answer is shown: a pipe, a plain terminal, or one that is drawn on. Knows no model and no conversation."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from localllm import osdep
from localllm.cli.interrupts import undivided
from localllm.cli.thinking import Part

if TYPE_CHECKING:
    from localllm.cli.render.blocks import Document
    from localllm.cli.render.cells import Line
    from localllm.cli.render.live import Size

Thoughts = Literal["on", "hide", "off"]
"""Shown; a note in their place; nothing at all. The model thinks all the same."""

DRAWING_SHARE = 0.25
"""Of our time may go into drawing, at most; the rest belongs to the model, which runs on the same processor."""
LEAST_COLUMNS = 16
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPINNER_S = 0.1


class Look(NamedTuple):
    """How answers are shown."""

    markdown: bool = True
    """Rendered, where the terminal can and NO_COLOR is not set."""
    thoughts: Thoughts = "on"


DEFAULT_LOOK = Look()


class View(Protocol):
    """Takes an answer as it comes."""

    def show(self, text: str, parts: list[Part]) -> None:
        """`text` as the model wrote it, and what is known of its parts by now."""

    def end(self, parts: list[Part]) -> None:
        """The last parts. The cursor is at the beginning of a line then."""


def is_drawable() -> bool:
    """Whether stdout is a terminal that obeys cursor movements, and may be coloured (https://no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return False
    try:
        return osdep.obeys_sequences(sys.stdout.fileno())
    except (OSError, ValueError):  # a stream of somebody else's making
        return False


def view(look: Look, *, drawable: bool) -> View:
    """The best there is for this look on this stdout."""
    if look.markdown and drawable:
        return DrawnView(look.thoughts, _write)
    return PlainView(look.thoughts, _write, is_terminal=sys.stdout.isatty())


def terminal_size() -> Size:
    """As it is now: windows are resized while answers come."""
    from localllm.cli.render.live import Size

    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        columns, rows = 80, 24
    return Size(max(columns or 80, LEAST_COLUMNS), max(rows or 24, 2))


def spinner() -> str:
    """A sign that turns with time."""
    return _SPINNER[int(time.monotonic() / _SPINNER_S) % len(_SPINNER)]


def _write(text: str) -> None:
    with undivided():
        sys.stdout.write(text)
        sys.stdout.flush()


class PlainView:
    """The text as the model wrote it, but for thoughts that are not wanted. A terminal gets nothing it would obey."""

    def __init__(self, thoughts: Thoughts, write: Callable[[str], object], *, is_terminal: bool) -> None:
        self._thoughts = thoughts
        self._write = write
        self._is_terminal = is_terminal
        self._last = ""

    def show(self, text: str, parts: list[Part]) -> None:
        if self._thoughts != "on":
            text = "".join(part.text for part in parts if part.kind == "answer")
        self._put(text)

    def end(self, parts: list[Part]) -> None:
        if self._thoughts != "on":
            self._put("".join(part.text for part in parts if part.kind == "answer"))
        if self._last != "\n":
            self._write("\n")

    def _put(self, text: str) -> None:
        if text:
            self._last = text[-1]
            self._write(_without_orders(text) if self._is_terminal else text)


class DrawnView:
    """Markdown, drawn on a terminal as it comes; thoughts dimmed, or a note in their place."""

    def __init__(
        self, thoughts: Thoughts, write: Callable[[str], object], size: Callable[[], Size] = terminal_size
    ) -> None:
        from localllm.cli.render.blocks import Document
        from localllm.cli.render.live import Live

        self._thoughts = thoughts
        self._size = size
        self._live = Live(write, reflows=_reflows())
        self._document: Document = Document()
        self._thought: Document | None = None
        self._thinking_since_s = 0.0
        self._finished: list[Line] = []
        self._next_draw_s = 0.0

    def show(self, text: str, parts: list[Part]) -> None:  # noqa: ARG002 (the parts say it all)
        columns = self._size().columns - 1
        for part in parts:
            self._take(part, columns)
        if time.monotonic() >= self._next_draw_s:
            self._draw()

    def end(self, parts: list[Part]) -> None:
        columns = self._size().columns - 1
        for part in parts:
            self._take(part, columns)
        self._end_thought(columns)
        self._finished += self._document.flush(columns)
        self._draw()

    def _take(self, part: Part, columns: int) -> None:
        if part.kind == "thought":
            self._begin_thought()
            if self._thought is not None and self._thoughts == "on":
                self._finished += self._thought.feed(part.text, columns)
        elif part.kind == "answer":
            self._end_thought(columns)
            self._finished += self._document.feed(part.text, columns)
        else:
            self._mark_thought(columns)

    def _begin_thought(self) -> None:
        from localllm.cli.render.blocks import Document
        from localllm.cli.render.theme import THOUGHT

        if self._thought is None:
            self._thought = Document(THOUGHT)
            self._thinking_since_s = time.monotonic()

    def _end_thought(self, columns: int) -> None:
        if self._thought is None:
            return
        self._finished += self._thought.flush(columns)
        self._thought = None
        if self._thoughts != "off":
            self._finished += _note(f"thought for {time.monotonic() - self._thinking_since_s:.1f} s")

    def _mark_thought(self, columns: int) -> None:
        """All that was shown was a thought."""
        from localllm.cli.render.blocks import Document

        self._finished += self._document.flush(columns) + _note("these were thoughts; the answer follows")
        self._document = Document()

    def _draw(self) -> None:
        started_s = time.monotonic()
        size = self._size()
        self._live.update(self._finished, self._preview(size.columns - 1), size)
        self._finished = []
        now_s = time.monotonic()
        self._next_draw_s = now_s + (now_s - started_s) * (1 / DRAWING_SHARE - 1)

    def _preview(self, columns: int) -> list[Line]:
        if self._thought is None:
            return self._document.preview(columns)
        if self._thoughts == "on":
            return self._thought.preview(columns)
        if self._thoughts == "hide":
            (line, *_) = _note(f"{spinner()} thinking: {time.monotonic() - self._thinking_since_s:.0f} s")
            return [line]
        return []


def _reflows() -> bool:
    """Whether the terminal breaks lines anew when its window gets narrower, as most do."""
    term = os.environ.get("TERM", "")
    return "XTERM_VERSION" not in os.environ and not term.startswith(("linux", "rxvt", "st-", "screen."))


def _note(text: str) -> list[Line]:
    """A dimmed line and an empty one."""
    from localllm.cli.render.cells import Line
    from localllm.cli.render.theme import DIM

    return [Line(((text, DIM),)), Line()]


def _without_orders(text: str) -> str:
    from localllm.cli.render.cells import harmless

    return harmless(text).replace("\r", "\N{REPLACEMENT CHARACTER}")
