"""Colours for code, one line at a time, by the lexers of Pygments. Knows no Markdown.

A lexer of Pygments reads a whole text. An answer grows, and reading its code again for each new line would cost more
the longer it gets, so the lexer's stack of states is kept from line to line and every line is read once. Comments and
strings that a lexer reads with a single pattern leave no state behind: for those `_OPENERS` finds the end.
"""

from __future__ import annotations

import contextlib
import re
import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from localllm.cli.render.table_cells import Span, Style, merge

if TYPE_CHECKING:
    from pygments.lexer import ExtendedRegexLexer, Lexer

KEYWORD: Style = "35"
STRING: Style = "32"
NUMBER: Style = "36"
COMMENT: Style = "90"
CALL: Style = "34"
TYPE: Style = "33"
NAME: Style = "34"
REMOVED: Style = "31"

MAX_HIGHLIGHTED_CHARS = 500
"""Longer lines are data, and the patterns of some lexers take more than linear time."""
MAX_LINE_S = 0.1
"""A lexer that takes more CPU time for one line, or fails, reads no more of its block."""

_STYLES: dict[str, Style] = {
    "Keyword": KEYWORD, "Keyword.Constant": NUMBER, "Keyword.Type": TYPE, "Operator.Word": KEYWORD,
    "Literal.String": STRING, "Literal.Number": NUMBER, "Comment": COMMENT, "Comment.Preproc": KEYWORD,
    "Comment.PreprocFile": STRING,
    "Name.Function": CALL, "Name.Builtin": CALL, "Name.Builtin.Pseudo": NUMBER, "Name.Class": TYPE,
    "Name.Exception": TYPE, "Name.Decorator": TYPE, "Name.Tag": NAME, "Name.Attribute": NAME, "Name.Variable": NAME,
    "Generic.Inserted": STRING, "Generic.Deleted": REMOVED, "Generic.Heading": NUMBER, "Generic.Subheading": NUMBER,
}  # fmt: skip
_OPENERS = {"/*": "*/", "<!--": "-->", "--[[": "]]", "{-": "-}", "(*": "*)", "`": "`", '"""': '"""', "'''": "'''"}
_OPENER = re.compile("|".join(map(re.escape, _OPENERS)))
_OTHER_NAMES = {
    "cc": "cpp", "h": "cpp", "hpp": "cpp", "cxx": "cpp", "node": "js", "mjs": "js", "jsx": "js", "kt": "kotlin",
    "ipython": "python", "pycon": "python", "console": "bash", "terminal": "bash", "sqlite": "sql", "ml": "ocaml",
    "jsonc": "json", "jsonl": "json", "conf": "ini", "dotenv": "ini", "env": "ini", "svg": "xml", "xhtml": "xml",
    "patch": "diff",
}  # fmt: skip
"""Labels of code blocks that Pygments does not know, or whose lexer needs more than one line."""


class _State(NamedTuple):
    """The state at the start of the next line."""

    stack: tuple[str, ...]
    closer: str = ""
    """The end of the open comment or string."""
    style: Style = ""


class _Lexers(NamedTuple):
    """A lexer of Pygments; `resumable` can continue from a stack of states, if that is all the state it has."""

    plain: Lexer
    resumable: ExtendedRegexLexer | None = None


class Highlighter:
    """Colours one block of code. `name`: the label of the block."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lexers = _lexers(name.lower())
        self._state = _State(("root", "php") if name.lower() == "php" else ("root",))

    def copy(self) -> Highlighter:
        twin = Highlighter(self.name)
        twin._lexers, twin._state = self._lexers, self._state
        return twin

    def line(self, text: str) -> tuple[Span, ...]:
        """The next line, without its end."""
        if self._lexers is None or len(text) > MAX_HIGHLIGHTED_CHARS:
            return merge([(text, "")])
        started_s = time.thread_time()
        begun: list[Span] = []
        if self._state.closer:
            end = text.find(self._state.closer)
            if end < 0:
                return merge([(text, self._state.style)])
            end += len(self._state.closer)
            begun, text = [(text[:end], self._state.style)], text[end:]
            self._state = _State(self._state.stack)
        try:
            spans, self._state = _read(self._lexers, text, self._state)
        except Exception:  # noqa: BLE001 - some lexers fail on code that begins in the middle, as BibTeX's does
            spans, self._lexers = [(text, "")], None
        if time.thread_time() - started_s > MAX_LINE_S:
            self._lexers = None
        return merge([*begun, *spans])


def _read(lexers: _Lexers, line: str, before: _State) -> tuple[list[Span], _State]:
    """The spans of the line, and the state after it."""
    for match in _OPENER.finditer(line):
        opener, closer = match[0], _OPENERS[match[0]]
        closed, stack = _lex(lexers, line + closer, before.stack)
        text, style = closed[-1]
        opens_here = len(text) == len(line) + len(closer) - match.start() and closer not in line[match.end() :]
        if style in (COMMENT, STRING) and opens_here and (opener != closer or not text.startswith(opener * 2)):
            return [*closed[:-1], (text.removesuffix(closer), style)], _State(stack, closer, style)
    spans, stack = _lex(lexers, line, before.stack)
    return spans, _State(stack)


def _lex(lexers: _Lexers, line: str, stack: tuple[str, ...]) -> tuple[list[Span], tuple[str, ...]]:
    from pygments.lexer import LexerContext

    tokens = None
    if lexers.resumable is not None:
        context = LexerContext(f"{line}\n", 0, list(stack))
        # A few lexers have callbacks of their own that take no context.
        with contextlib.suppress(TypeError):
            tokens = list(lexers.resumable.get_tokens_unprocessed(context=context))
            stack = tuple(context.stack)
    if tokens is None:
        tokens = list(lexers.plain.get_tokens_unprocessed(f"{line}\n"))
    return list(merge((text.replace("\n", ""), _style(kind)) for _, kind, text in tokens)), stack


@cache
def _style(kind: Any) -> Style:
    """The style of a token type, or of its nearest ancestor that has one."""
    while kind.parent is not None:
        if (style := _STYLES.get(str(kind).removeprefix("Token."))) is not None:
            return style
        kind = kind.parent
    return ""


@cache
def _lexers(name: str) -> _Lexers | None:
    """The lexers for the label of a code block; None: unknown."""
    from pygments.lexer import ExtendedRegexLexer, RegexLexer
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    try:
        found = find_lexer_class_by_name(_OTHER_NAMES.get(name, name))
    except ClassNotFound:
        return None
    if not issubclass(found, RegexLexer):
        return _Lexers(found())
    if not issubclass(found, ExtendedRegexLexer):
        return _Lexers(found(), type(found)(found.__name__, (ExtendedRegexLexer, found), {})())
    is_resumable = found.get_tokens_unprocessed is ExtendedRegexLexer.get_tokens_unprocessed
    return _Lexers(found(), found() if is_resumable else None)
