"""The pages, their sections, and the links between them. Knows nothing of how they are shown."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

ORDER = (
    "install", "cli", "models", "server", "apis", "media", "documents", "structure", "speed", "memory", "gpu",
    "settings", "mcp", "agents", "deploying", "security", "troubleshooting", "embedding", "fields",
)  # fmt: skip
"""Topics in reading order; others follow."""
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
_PAGE = re.compile(r"(\w+)\.md(#[\w-]+)?")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


class Section(NamedTuple):
    """A part of a page. The first has the page's title as its heading."""

    topic: str
    heading: str
    text: str
    """Markdown, without the heading."""


class Page(NamedTuple):
    """One topic. `text` is the whole Markdown, its first line the title."""

    topic: str
    text: str

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].removeprefix("# ")

    def sections(self) -> Iterator[Section]:
        """In order."""
        first, *rest = _SECTION.split(self.text)
        yield Section(self.topic, self.title, first.partition("\n")[2].strip("\n"))
        for heading, text in zip(rest[::2], rest[1::2], strict=True):
            yield Section(self.topic, heading, text.strip("\n"))


@functools.cache
def pages() -> dict[str, Page]:
    """Topic -> page, in the order in which they are listed."""
    folder = importlib.resources.files("localllm.docs")
    found = {
        entry.name.removesuffix(".md"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".md")
    }
    topics = [*(topic for topic in ORDER if topic in found), *sorted(found.keys() - set(ORDER))]
    return {topic: Page(topic, found[topic]) for topic in topics}


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading: lower case, hyphens for spaces, no punctuation."""
    return _NOT_IN_ANCHOR.sub("", heading.lower()).replace(" ", "-")


def relinked(text: str, form: Callable[[str, str, str], str]) -> str:
    """The text with its links to other pages replaced by `form(label, topic, "#anchor" or "")`.

    Links to files of the repository, which does not ship, become their labels. Addresses and code blocks stay.
    """

    def replaced(link: re.Match[str]) -> str:
        label, target = link.groups()
        if page := _PAGE.fullmatch(target):
            return form(label, page[1], page[2] or "")
        return label if target.startswith(".") else link[0]

    parts = []
    position = 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(replaced, text[position : fence.start()]), fence[0]]
        position = fence.end()
    return "".join([*parts, _LINK.sub(replaced, text[position:])])
