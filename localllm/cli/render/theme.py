"""The styles of Markdown. Only the 16 basic colours, so that the terminal's palette decides, dark or light."""

from __future__ import annotations

from typing import NamedTuple

from localllm.cli.render.table_cells import Span, Style

BOLD = "1"
DIM = "2"
ITALIC = "3"
STRIKE = "9"


class Theme(NamedTuple):
    """The style of each kind of text."""

    text: Style = ""
    titles: tuple[Style, ...] = ("1;4;35", "1;35", "1")
    """Headings of level 1, of level 2, and of all other levels."""
    code: Style = "36"
    link: Style = "4;34"
    aside: Style = DIM
    """URLs of links, rules, bars, labels."""
    marker: Style = "35"
    """Markers of list items."""
    is_coloured: bool = True
    """Whether code is highlighted."""
    gutter: tuple[Span, ...] = ()
    """Precedes every line."""


ANSWER = Theme()
THOUGHT = Theme(
    text=DIM,
    titles=("2;1",),
    code=DIM,
    link="2;4",
    marker=DIM,
    is_coloured=False,
    gutter=(("\N{BOX DRAWINGS LIGHT VERTICAL} ", DIM),),
)
