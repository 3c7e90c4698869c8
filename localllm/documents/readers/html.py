"""HTML, through the parser of Python's library: the text that a reader sees, headings and lists as in Markdown.

Nothing is fetched, and where links lead is not read. Also reads XHTML and broken pages.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from localllm.documents.contents import Contents, Lines, Section
from localllm.documents.plain import clean, text_of

_HIDDEN = frozenset({"script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select"})
_BLOCKS = frozenset(
    "address article aside blockquote dd details div dl dt fieldset figcaption figure footer form header hr li main "
    "nav ol p pre section summary table tbody tfoot thead tr ul title body".split()
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_SPACES = re.compile(r"[ \t\n\f\r]+")


def read(data: bytes, *, max_characters: int) -> Contents:
    """Raises `Unreadable`."""
    parser = _Text(max_characters)
    parser.feed(text_of(data))
    parser.close()
    return Contents((Section(clean(parser.text()), language="markdown"),), "HTML")


class _Text(HTMLParser):
    def __init__(self, max_characters: int) -> None:
        super().__init__(convert_charrefs=True)
        self._lines = Lines(max_characters)
        self._line: list[str] = []
        self._prefix = ""
        self._hidden: list[str] = []
        """Open elements that are not shown, and those within them of the same name."""
        self._num_pre = 0
        self._was_blank = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden or tag in _HIDDEN:
            if tag in _HIDDEN and (not self._hidden or tag == self._hidden[-1]):
                self._hidden.append(tag)
            return
        if tag in _HEADINGS:
            self._end_line(blank=True)
            self._prefix = _HEADINGS[tag]
        elif tag == "li":
            self._end_line()
            self._prefix = "- "
        elif tag in ("td", "th"):
            self._line.append(" | " if self._line else "| ")
        elif tag == "br":
            self._end_line()
        elif tag in _BLOCKS:
            self._end_line(blank=tag not in ("tr", "dd", "dt", "ul", "ol", "tbody", "thead", "div"))
        if tag == "pre":
            self._num_pre += 1
        if tag == "img" and (alt := dict(attrs).get("alt")):
            self._line.append(f"[image: {alt}]")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.pop()
            return
        if tag == "pre":
            self._num_pre = max(0, self._num_pre - 1)
        if tag in ("td", "th", "li", "tr", "dt", "dd", "div"):
            if tag not in ("td", "th"):
                self._end_line()
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._end_line(blank=True)

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._num_pre:
            first, *rest = data.split("\n")
            self._line.append(first)
            for each in rest:
                self._end_line(is_pre=True)
                self._line.append(each)
            return
        self._line.append(_SPACES.sub(" ", data))

    def text(self) -> str:
        self._end_line()
        return self._lines.text()

    def _end_line(self, *, blank: bool = False, is_pre: bool = False) -> None:
        line = "".join(self._line)
        line = line.rstrip() if self._num_pre or is_pre else _SPACES.sub(" ", line).strip()
        self._line = []
        if line or is_pre:
            self._lines.add(self._prefix + line)
            self._prefix, self._was_blank = "", False
        if blank and not self._was_blank:
            self._lines.add("")
            self._was_blank = True
