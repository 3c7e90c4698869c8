"""`localllm help`: the pages of the documentation on stdout, rendered on a terminal, as Markdown in a pipe."""

from __future__ import annotations

import sys

from localllm.cli.chat.answer_views import is_drawable, terminal_size
from localllm.cli.group import COMMANDS
from localllm.cli.shared import report
from localllm.docs.pages import Section, pages, relinked
from localllm.docs.searching import search
from localllm.errors import InvalidParameter

MAX_SECTIONS, MAX_LINES = 3, 60
"""Of the sections that a search found, so many are shown, and no further one after so many lines."""
MAX_COLUMNS = 110
MAX_FURTHER = 5
"""Sections that are only named."""


def show_help(words: str) -> int:
    """Print the list of pages, the page with this topic, or the sections about these words.

    Raises `InvalidParameter` if no section has any of the words.
    """
    if not words:
        return _list()
    if (page := pages().get(words.lower())) is not None:
        _print(page.text)
        return report.OK
    found = search(words, MAX_SECTIONS + MAX_FURTHER)
    if not found and words not in COMMANDS:
        raise InvalidParameter(
            f"no page says anything about {words!r}; the pages are {', '.join(pages())}", param="words"
        )
    shown = _shown(found)
    if shown:
        _print("\n\n".join(f"## {one.heading} ({one.topic})\n\n{one.text}" for one in shown) + "\n")
    if further := found[len(shown) :]:
        report.say("See also: " + "; ".join(f"{one.heading} ({one.topic})" for one in further))
    if shown:
        report.say(f"A whole page: localllm help {shown[0].topic}")
    if words in COMMANDS:
        report.say(f"Options of the command: localllm {words} --help")
    return report.OK


def _list() -> int:
    width = max(map(len, pages()))
    report.write(*(f"  {topic:<{width}}  {page.title}" for topic, page in pages().items()))
    report.say("A page: localllm help gpu. Words in all pages: localllm help system prompt")
    return report.OK


def _shown(found: list[Section]) -> list[Section]:
    shown: list[Section] = []
    num_lines = 0
    for one in found[:MAX_SECTIONS]:
        num_lines += one.text.count("\n") + 2
        if shown and num_lines > MAX_LINES:
            break
        shown.append(one)
    return shown


def _print(markdown: str) -> None:
    text = relinked(markdown, lambda label, topic, _: f"{label} (`localllm help {topic}`)")
    if not is_drawable():
        report.write_text(text)
        return
    from localllm.cli.render.blocks import Document
    from localllm.cli.render.table_cells import ansi

    document = Document()
    columns = min(terminal_size().columns - 1, MAX_COLUMNS)
    lines = [*document.feed(text, columns), *document.flush(columns)]
    sys.stdout.write("".join(f"{ansi(line.spans)}\n" for line in lines))
