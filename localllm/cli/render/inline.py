r"""Emphasis, code, links: the text of one block as styled spans. Knows no blocks and no width.

markdown-it reads CommonMark. The rest is for chat models: `\(`, `\[` and `$$` open formulas, which are shown verbatim,
and in a text that is still growing, open emphasis, code and links are assumed to be closed later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from localllm.cli.render.table_cells import Span, Style, join, merge
from localllm.cli.render.theme import BOLD, ITALIC, STRIKE, Theme

_UNFINISHED = re.compile(r"(?:[*_~`\\]+|<b?r?\s*/?|&[#\w]{0,10})\Z", re.IGNORECASE)
"""The end of a growing text that may still become markup, and is not shown yet."""
_OPEN_ADDRESS = re.compile(r"\]\([^\s()]*(?:\([^\s()]*)?\s*\Z")
_LINK_OR_BREAK = re.compile(
    r"(\bhttps?://(?:[^\s<>\"`|()]|\([^\s<>\"`|()]*\))*(?:[^\s<>\"`|()*_~.,;:!?']|\([^\s<>\"`|()]*\))|<br\s*/?>)", re.I
)
_TICKS = re.compile("`+")
_FORMULAS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$", "\\)": "", "\\]": ""}
_STYLES = {"strong": BOLD, "em": ITALIC, "s": STRIKE}


@lru_cache(maxsize=512)
def spans_of(text: str, theme: Theme, *, growing: bool, base: Style | None = None) -> tuple[Span, ...]:
    """`text` without its markup. `growing`: more text will follow."""
    if growing:
        text = _OPEN_ADDRESS.sub("]()", _UNFINISHED.sub("", text))
    tokens = PARSER.inline.parse(text, PARSER, {"growing": growing}, [])
    return merge(_spans(tokens, theme, theme.text if base is None else base, []))


def _spans(tokens: list[Token], theme: Theme, base: Style, opened: list[Style]) -> Iterator[Span]:
    """`opened`: the styles around `tokens`, which end with them."""
    target = said = ""
    for token in tokens:
        if token.nesting > 0:
            opened.append(_STYLES.get(token.tag, theme.link))
            if token.tag == "a":
                target, said = str(token.attrs["href"]), ""
        elif token.nesting < 0:
            opened.pop()
            if token.tag == "a":
                yield from _address(target, said, theme, opened)
        elif token.type == "image":
            yield "image: ", _all(theme.aside, opened)
            yield from _spans(token.children or [], theme, base, [*opened, theme.link])
            yield from _address(str(token.attrs["src"]), token.content, theme, opened)
        elif token.type == "code_inline":
            yield token.content, _all(base, [*opened, theme.code])
        elif token.tag == "br":
            yield "\n", ""
        else:
            # Entities can stand for control characters, which a terminal would obey.
            is_safe = token.type == "text" or token.content.replace("\N{REPLACEMENT CHARACTER}", "\0").isprintable()
            text = token.content if is_safe else token.markup
            said += text
            for place, part in enumerate(_LINK_OR_BREAK.split(text)):
                is_link = place % 2 and part[0] != "<"
                yield ("\n" if place % 2 and not is_link else part), _all(base, opened + [theme.link] * is_link)


def _all(style: Style, more: list[Style]) -> Style:
    for one in dict.fromkeys(reversed(more)):
        style = join(style, one)
    return style


def _address(target: str, said: str, theme: Theme, opened: list[Style]) -> Iterator[Span]:
    """A link's URL if it differs from its text, since a link may mislead."""
    if target and target not in (said, f"mailto:{said}"):
        yield f" ({target})", _all(theme.aside, opened)


def _formula(state: StateInline, silent: bool) -> bool:
    closing = _FORMULAS.get(state.src[state.pos : state.pos + 2])
    if closing is None:
        return False
    end = state.src.find(closing, state.pos + 2, state.posMax) + len(closing)
    if end < len(closing):
        end = state.posMax if state.env["growing"] else state.pos + 2
    if not silent:
        state.pending += state.src[state.pos : end]
    state.pos = end
    return True


def _open_code(state: StateInline, silent: bool) -> bool:
    """Code whose end is still to be written."""
    ticks = _TICKS.match(state.src, state.pos)
    if ticks is None or not state.env["growing"]:
        return False
    code = state.src[ticks.end() : state.posMax]
    if "\n" in code or ticks[0] in code:
        return False
    if not silent:
        state.push("code_inline", "code", 0).content = code.lstrip()
    state.pos = state.posMax
    return True


def _close_at_end(state: StateInline) -> None:
    """Close the emphasis that is open in the last line."""
    if not state.env["growing"]:
        return
    last_line = max((place for place, token in enumerate(state.tokens) if token.tag == "br"), default=-1)
    for opener in reversed(list(state.delimiters)):
        is_inside_a_word = opener.open and opener.close
        if opener.open and opener.end < 0 and not is_inside_a_word and opener.length <= 3 and opener.token > last_line:
            opener.end = len(state.delimiters)
            state.push("text", "", 0)
            state.delimiters.append(replace(opener, token=len(state.tokens) - 1, end=-1, open=False, close=True))


def _parser() -> MarkdownIt:
    """Without what needs the whole text (references) or is shown verbatim (HTML), and without lists and quotes."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.disable(["reference", "html_block", "html_inline", "list", "blockquote"])
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.inline.ruler.before("backticks", "open_code", _open_code)
    parser.inline.ruler2.after("balance_pairs", "close_at_end", _close_at_end)
    for name, function in (("normalizeLink", str), ("normalizeLinkText", str), ("validateLink", _is_address)):
        setattr(parser, name, function)
    return parser


def _is_address(url: str) -> bool:
    """Not `<std::string>`."""
    return ":" not in url or url.startswith(("http:", "https:", "ftp:", "mailto:"))


PARSER = _parser()
