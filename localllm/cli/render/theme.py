"""How parts of a text look. The sixteen colours only, so that the terminal's own palette decides, dark or light."""

from __future__ import annotations

from typing import NamedTuple

from localllm.cli.render.cells import Span, Style

BOLD = "1"
DIM = "2"
ITALIC = "3"
UNDERLINE = "4"
STRIKE = "9"


class Theme(NamedTuple):
    """Styles by the part that they are for."""

    text: Style = ""
    titles: tuple[Style, ...] = ("1;4;35", "1;35", "1")
    """For headings of the first level, the second, and all others."""
    code: Style = "36"
    link: Style = "4;34"
    aside: Style = DIM
    """Addresses of links, rules, bars, labels."""
    marker: Style = "35"
    """Of list items."""
    is_coloured: bool = True
    """Whether code is highlighted."""
    gutter: tuple[Span, ...] = ()
    """Before every line."""


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
