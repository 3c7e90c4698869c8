"""Converts GBNF, llama.cpp's grammar notation, to Lark that matches exactly the same texts (see `lexemes`).

Accepts the notation of `src/llama-grammar.cpp`: escapes, comments, ranges, `{m,n}`, tokens as `<[id]>` and `<text>`.
"""

from __future__ import annotations

import re

from localllm.grammar.refusals import refused
from localllm.grammar.texts.charsets import LAST, SURROGATES, Range, complement, minus, normalized
from localllm.grammar.texts.lexemes import lark
from localllm.grammar.texts.nodes import Alt, Chars, Node, Ref, Rep, Rules, Seq, Token, children
from localllm.types.upstream import MAX_GRAMMAR_REPEATS

MAX_DEPTH = 60

_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_HEX = {"x": 2, "u": 4, "U": 8}
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_TOKEN = re.compile(r"(!?)<(?:\[(\d{1,9})\]|([^<>\s]{1,100}))>")
_BRACES = re.compile(r"\{\s*(\d{1,9})\s*(?:(,)\s*(\d{1,9})?\s*)?\}")


def lark_of(source: str, param: str) -> str:
    """The grammar in Lark. Raises `InvalidParameter` with the error and its line."""
    parser = _Parser(source, param)
    rules = parser.rules()
    if "root" not in rules:
        raise refused(param, "has no rule named root")
    waiting = list(rules.values())
    while waiting:
        node = waiting.pop()
        if isinstance(node, Ref) and node.name not in rules:
            raise refused(param, f"has no rule named {node.name[:80]}, which another rule refers to")
        waiting += children(node)
    try:
        return lark(rules, "root")
    except RecursionError:
        raise refused(param, "is nested too deeply") from None


class _Parser:
    """Recursive descent, with one method for each construct of the notation."""

    def __init__(self, source: str, param: str) -> None:
        self._source = source
        self._param = param
        self._at = 0

    def rules(self) -> Rules:
        found: Rules = {}
        self._skip(_SPACES)
        while self._at < len(self._source):
            name = self._match(_NAME, "a rule's name")[0]
            self._skip(_SPACE)
            self._expect("::=")
            self._skip(_SPACES)
            found[name] = self._alternatives(0)
            if self._at < len(self._source) and self._peek() not in "\r\n":
                raise self._wrong("expected a line end")
            self._skip(_SPACES)
        return found

    def _alternatives(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._wrong(f"groups are nested more than {MAX_DEPTH} deep")
        options = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            self._skip(_SPACES)
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self, depth: int) -> Node:
        items: list[Node] = []
        space = _SPACES if depth else _SPACE
        while (item := self._item(depth, items)) is not None:
            items.append(item)
            self._skip(space)
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def _item(self, depth: int, before: list[Node]) -> Node | None:
        character = self._peek()
        if character == '"':
            return self._literal()
        if character == "[":
            return self._class()
        if character == ".":
            self._at += 1
            return Chars(minus(((0, LAST),), [SURROGATES]))
        if character == "(":
            self._at += 1
            self._skip(_SPACES)
            group = self._alternatives(depth + 1)
            self._expect(")")
            return group
        if character and character in "*+?{":
            if not before:
                raise self._wrong(f"`{character}` has nothing to repeat")
            return self._repetition(before.pop())
        if character and character in "<!":
            return self._token()
        name = _NAME.match(self._source, self._at)
        if name is None:
            return None
        self._at = name.end()
        return Ref(name[0])

    def _repetition(self, item: Node) -> Node:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
        if simple is not None:
            self._at += 1
            return Rep(item, *simple)
        braces = self._match(_BRACES, "{number} or {number,number}")
        least = int(braces[1])
        most = None if braces[2] and not braces[3] else int(braces[3] or braces[1])
        # As in llama.cpp: a larger lower bound is an error, a larger upper bound is unlimited.
        if least > MAX_GRAMMAR_REPEATS:
            raise self._wrong(f"more than {MAX_GRAMMAR_REPEATS} repetitions")
        if most is not None and most < least:
            raise self._wrong("the upper bound of a repetition is below the lower bound")
        return Rep(item, least, most if most is not None and most <= MAX_GRAMMAR_REPEATS else None)

    def _literal(self) -> Node:
        self._at += 1
        items: list[Node] = []
        while self._peek() != '"':
            code = self._char()
            items.append(Chars(((code, code),)))
        self._at += 1
        return Seq(tuple(items))

    def _class(self) -> Node:
        self._at += 1
        is_negated = self._peek() == "^"
        self._at += is_negated
        ranges: list[Range] = []
        while self._peek() != "]":
            first = last = self._char()
            if self._peek() == "-" and self._source[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                last = self._char()
            if last < first:
                raise self._wrong("a range ends before it begins")
            ranges.append((first, last))
        self._at += 1
        found = minus(complement(ranges) if is_negated else normalized(ranges), [SURROGATES])
        if not found:
            raise self._wrong("a character class is empty")
        return Chars(found)

    def _char(self) -> int:
        character = self._peek()
        if not character:
            raise self._wrong("the grammar ends inside a string")
        self._at += 1
        if character != "\\":
            return ord(character)
        kind = self._peek()
        self._at += 1
        if kind in _HEX:
            digits = self._source[self._at : self._at + _HEX[kind]]
            if not re.fullmatch(f"[0-9a-fA-F]{{{_HEX[kind]}}}", digits) or int(digits, 16) > LAST:
                raise self._wrong(f"\\{kind} needs {_HEX[kind]} hexadecimal digits")
            self._at += len(digits)
            return int(digits, 16)
        if kind not in _ESCAPES:
            raise self._wrong(f"\\{kind} is not an escape sequence")
        return ord(_ESCAPES[kind])

    def _token(self) -> Node:
        found = self._match(_TOKEN, "a token such as <[id]> or <text>")
        if not found[1]:
            return Token(found[0])
        if not found[2]:
            raise self._wrong("excluding a token requires its id, as in !<[id]>")
        return Token(f"<[^{found[2]}]>")

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _skip(self, space: re.Pattern[str]) -> None:
        found = space.match(self._source, self._at)
        self._at = found.end() if found else self._at

    def _expect(self, text: str) -> None:
        if not self._source.startswith(text, self._at):
            raise self._wrong(f"expected `{text}`")
        self._at += len(text)

    def _match(self, what: re.Pattern[str], expected: str) -> re.Match[str]:
        found = what.match(self._source, self._at)
        if found is None:
            raise self._wrong(f"expected {expected}")
        self._at = found.end()
        return found

    def _wrong(self, what: str) -> Exception:
        line = self._source.count("\n", 0, self._at) + 1
        return refused(self._param, f"is not valid GBNF in line {line}: {what}")
