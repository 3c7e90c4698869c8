"""How an answer is shown: on a pipe, a plain terminal, or one that supports drawing. Knows no conversation."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from localllm.cli.chat.interrupts import undivided
from localllm.cli.chat.thinking import Thoughts
from localllm.system import terminals
from localllm.system.printable import one_line, printable
from localllm.types import Delta

if TYPE_CHECKING:
    from localllm.cli.render.blocks import Document
    from localllm.cli.render.live import Size
    from localllm.cli.render.table_cells import Line

DRAWING_SHARE = 0.25
"""Upper bound on the share of time spent drawing; the model runs on the same CPU."""
LEAST_COLUMNS = 16
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPINNER_S = 0.1


class AnswerStyle(NamedTuple):
    """How answers are shown."""

    markdown: bool = True
    """Render Markdown if the terminal supports it and NO_COLOR is not set."""
    thoughts: Thoughts = "on"
    unfolds: bool = False
    """Whether /thoughts can show hidden thoughts."""


DEFAULT_LOOK = AnswerStyle()


class View(Protocol):
    """Shows an answer as it streams."""

    def show(self, delta: Delta) -> None:
        """Show the next piece."""

    def end(self) -> None:
        """Finish; leaves the cursor at the start of a line."""


def is_drawable() -> bool:
    """Whether stdout is a terminal that supports cursor movement, and colour is allowed (https://no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return False
    try:
        return terminals.obeys_sequences(sys.stdout.fileno())
    except (OSError, ValueError):  # stdout was replaced by another stream
        return False


def view(look: AnswerStyle, *, drawable: bool) -> View:
    """The best view for this look on this stdout."""
    if look.markdown and drawable:
        return DrawnView(look, _write)
    return PlainView(look, _write, is_terminal=sys.stdout.isatty())


def terminal_size() -> Size:
    """The current size: windows are resized while answers stream."""
    from localllm.cli.render.live import Size

    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        columns, rows = 80, 24
    return Size(max(columns or 80, LEAST_COLUMNS), max(rows or 24, 2))


def spinner() -> str:
    """The current frame of the spinner."""
    return _SPINNER[int(time.monotonic() / _SPINNER_S) % len(_SPINNER)]


def _write(text: str) -> None:
    with undivided():
        sys.stdout.write(text)
        sys.stdout.flush()


class PlainView:
    """The text verbatim, with thoughts between tags if they are shown. Control characters never reach a terminal."""

    def __init__(self, look: AnswerStyle, write: Callable[[str], object], *, is_terminal: bool) -> None:
        self._look = look
        self._write = write
        self._is_terminal = is_terminal
        self._last = "\n"
        self._is_empty = True
        self._thought: _Thinking | None = None

    def show(self, delta: Delta) -> None:
        if delta.thought:
            if self._thought is None:
                self._thought = _Thinking()
                self._put("<think>\n" if self._look.thoughts == "on" else "")
            self._thought.num_tokens += delta.num_tokens
            self._put(delta.thought if self._look.thoughts == "on" else "")
        if delta.text:
            self._end_thought()
            self._put(delta.text)
        self._is_empty = self._is_empty and not delta.calls

    def end(self) -> None:
        self._end_thought()
        if self._last != "\n" or self._is_empty:
            self._write("\n")

    def _end_thought(self) -> None:
        if self._thought is None:
            return
        if self._look.thoughts == "on":
            self._put(("" if self._last == "\n" else "\n") + "</think>\n\n")
        elif self._look.thoughts == "hide" and self._is_terminal:
            self._put(f"[{self._thought.note(unfolds=self._look.unfolds)}]\n\n")
        self._thought = None

    def _put(self, text: str) -> None:
        if text:
            self._last, self._is_empty = text[-1], False
            self._write(printable(text) if self._is_terminal else text)


class _Thinking:
    """The model's thinking, while it lasts."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()
        self.num_tokens = 0

    def so_far(self) -> str:
        """The note while it lasts."""
        size = f", {self.num_tokens} tokens" if self.num_tokens > 1 else ""
        return f"{spinner()} thinking: {time.monotonic() - self._since_s:.0f} s{size}"

    def note(self, *, unfolds: bool) -> str:
        """The note once it is over."""
        size = f"{self.num_tokens} token{'' if self.num_tokens == 1 else 's'}" if self.num_tokens else ""
        unfolding = "/thoughts shows it" if unfolds else ""
        more = "; ".join(filter(None, (size, unfolding)))
        return f"thought for {time.monotonic() - self._since_s:.1f} s{f' ({more})' if more else ''}"


class DrawnView:
    """Markdown rendered on a terminal as it streams; thoughts dimmed or replaced by a note; a status line for a call in
    progress.
    """

    def __init__(
        self, look: AnswerStyle, write: Callable[[str], object], size: Callable[[], Size] = terminal_size
    ) -> None:
        from localllm.cli.render.blocks import Document
        from localllm.cli.render.live import Live

        self._look = look
        self._size = size
        self._live = Live(write, reflows=_reflows())
        self._document: Document = Document()
        self._thought: Document | None = None
        self._thinking: _Thinking | None = None
        self._call = ""
        self._call_chars = 0
        self._finished: list[Line] = []
        self._next_draw_s = 0.0

    def show(self, delta: Delta) -> None:
        columns = self._size().columns - 1
        self._take(delta, columns)
        if time.monotonic() >= self._next_draw_s:
            self._draw()

    def end(self) -> None:
        columns = self._size().columns - 1
        self._end_thought(columns)
        self._finished += self._document.flush(columns)
        self._call = ""
        self._draw()

    def _take(self, delta: Delta, columns: int) -> None:
        if delta.thought:
            thought, thinking = self._begin_thought(columns)
            thinking.num_tokens += delta.num_tokens
            if self._look.thoughts == "on":
                self._finished += thought.feed(delta.thought, columns)
        if delta.text:
            self._end_thought(columns)
            self._finished += self._document.feed(delta.text, columns)
        for piece in delta.calls:
            self._end_thought(columns)
            if piece.name:
                self._call, self._call_chars = piece.name, 0
            self._call_chars += len(piece.arguments)

    def _begin_thought(self, columns: int) -> tuple[Document, _Thinking]:
        from localllm.cli.render.blocks import Document
        from localllm.cli.render.theme import THOUGHT

        if self._thought is None or self._thinking is None:
            self._finished += self._document.flush(columns)
            self._document = Document()
            self._thought, self._thinking = Document(THOUGHT), _Thinking()
        return self._thought, self._thinking

    def _end_thought(self, columns: int) -> None:
        if self._thought is None or self._thinking is None:
            return
        self._finished += self._thought.flush(columns)
        if self._look.thoughts != "off":
            is_folded = self._look.thoughts == "hide" and self._look.unfolds
            self._finished += _note(self._thinking.note(unfolds=is_folded))
        self._thought = self._thinking = None

    def _draw(self) -> None:
        started_s = time.monotonic()
        size = self._size()
        self._live.update(self._finished, self._preview(size.columns - 1), size)
        self._finished = []
        now_s = time.monotonic()
        self._next_draw_s = now_s + (now_s - started_s) * (1 / DRAWING_SHARE - 1)

    def _preview(self, columns: int) -> list[Line]:
        if self._thought is not None and self._thinking is not None:
            if self._look.thoughts == "on":
                return self._thought.preview(columns)
            return _note(self._thinking.so_far())[:1]
        shown = self._document.preview(columns)
        if self._call:
            characters = f"{self._call_chars} characters" if self._call_chars > columns // 2 else ""
            line = f"{spinner()} calling {one_line(self._call)} {characters}"
            shown = [*shown, *_note(line[: columns - 1])[:1]]
        return shown


def _reflows() -> bool:
    """Whether the terminal rewraps lines when its window gets narrower, as most do."""
    term = os.environ.get("TERM", "")
    return "XTERM_VERSION" not in os.environ and not term.startswith(("linux", "rxvt", "st-", "screen."))


def _note(text: str) -> list[Line]:
    """A dimmed line, followed by an empty one."""
    from localllm.cli.render.table_cells import Line
    from localllm.cli.render.theme import DIM

    return [Line(((text, DIM),)), Line()]
