"""A short list of choices below the cursor: drawn, and taken by keys, with prompt_toolkit. Knows no command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from localllm.system.printable import one_line

MAX_TITLE_SHARE = 0.6
"""Of the columns: notes begin in one column where the titles take less."""
MIN_COLUMNS = 8
"""Shorter notes say nothing."""


class Choice(NamedTuple):
    """An entry of the menu."""

    title: str
    note: str
    """What it would work with; may be empty."""
    words: tuple[str, ...]
    """The command, without `localllm`."""


def choose(title: str, entries: Sequence[Choice]) -> Choice | None:
    """The entry that the user takes; None if they leave. Nothing of the list stays on the screen."""
    at = 0
    keys = KeyBindings()

    @keys.add("up")
    @keys.add("k")
    def _up(_: KeyPressEvent) -> None:
        nonlocal at
        at = (at - 1) % len(entries)

    @keys.add("down")
    @keys.add("j")
    def _down(_: KeyPressEvent) -> None:
        nonlocal at
        at = (at + 1) % len(entries)

    @keys.add("enter")
    def _take(event: KeyPressEvent) -> None:
        event.app.exit(result=entries[at])

    @keys.add("q")
    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def _leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    for number, entry in enumerate(entries[:9], 1):
        _add_number(keys, str(number), entry)

    def shown() -> FormattedText:
        return FormattedText(lines(title, entries, at, get_app().output.get_size().columns - 1))

    window = Window(FormattedTextControl(shown, focusable=True, show_cursor=False), dont_extend_height=True)
    app: Application[Choice | None] = Application(Layout(window), key_bindings=keys, erase_when_done=True)
    return app.run()


def _add_number(keys: KeyBindings, number: str, entry: Choice) -> None:
    @keys.add(number)
    def _take(event: KeyPressEvent) -> None:
        event.app.exit(result=entry)


def lines(title: str, entries: Sequence[Choice], at: int, columns: int) -> list[tuple[str, str]]:
    """The screen as prompt_toolkit takes it: pairs of style and text. No line is wider than `columns`."""
    shown = [("bold", _cut(f"{title}: what would you like to do?", columns)), ("", "\n\n")]
    width = max(len(entry.title) for entry in entries)
    width = width if width < MAX_TITLE_SHARE * columns else 0
    for number, entry in enumerate(entries):
        mark = "> " if number == at else "  "
        head = _cut(f"{mark}{number + 1}  {entry.title:{width}}", columns)
        note = _cut(f"  {entry.note}", columns - len(head)) if entry.note else ""
        shown += [("reverse" if number == at else "", head), ("ansibrightblack", note), ("", "\n")]
    return [*shown, ("", "\n"), ("ansibrightblack", _cut("Up, Down, Enter, or a number; q leaves", columns))]


def _cut(text: str, columns: int) -> str:
    text = one_line(text)
    if len(text) <= columns:
        return text
    return text[: columns - 1] + "…" if columns > MIN_COLUMNS else ""
