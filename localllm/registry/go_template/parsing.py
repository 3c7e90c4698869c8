"""Parses a Go text/template into a tree of output, assignments, branches and loops. Unsupported constructs are refused
by name.

Knows nothing of Jinja, nor of the meaning of fields and functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from localllm.registry.go_template.lexing import Action, Text, Token, refused, split

MAX_DEPTH = 60
"""Nesting limit of blocks, and of parentheses."""
_REFUSED = ("define", "template", "block")


@dataclass(frozen=True)
class Literal:
    """A string, a number, true, false or nil."""

    value: str | int | float | bool | None


@dataclass(frozen=True)
class Reference:
    """`.A.B`, `$.A`, `$x.A`, `(...).A`: a starting point and the fields from there."""

    start: Expression | str
    """An expression, `.`, or a variable including its dollar sign."""
    fields: tuple[str, ...]
    at: int


@dataclass(frozen=True)
class Call:
    """A function and its arguments; a piped value comes last."""

    name: str
    arguments: tuple[Expression, ...]
    at: int


Expression = Literal | Reference | Call


@dataclass(frozen=True)
class Print:
    """`{{ x }}`"""

    value: Expression


@dataclass(frozen=True)
class Assign:
    """`{{ $x := y }}` or `{{ $x = y }}`"""

    variable: str
    value: Expression
    declares: bool
    at: int


@dataclass
class Branch:
    """`if`, `with` or `range`, up to its `end`."""

    kind: str
    variables: tuple[str, ...]
    """Variables it declares: none, the value, or index and value."""
    value: Expression
    at: int
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Jump:
    """`break` or `continue`."""

    kind: str


Node = Text | Print | Assign | Branch | Jump


@dataclass(frozen=True)
class _Open:
    """An open block."""

    branch: Branch
    parent: list[Node]
    """The body that its nodes are added to."""
    is_else_if: bool
    """Whether it ends together with the enclosing block."""


def parse(source: str) -> list[Node]:
    """Raises `InvalidParameter` with line and column."""
    root: list[Node] = []
    open_: list[_Open] = []
    current = root
    for part in split(source):
        if isinstance(part, Text):
            current.append(part)
            continue
        words = _Words(source, part.tokens)
        first = words.peek
        if first.kind != "name" or first.text not in ("if", "with", "range", "else", "end", "break", "continue"):
            current.append(words.action(part))
            continue
        words.take()
        if first.text in ("break", "continue"):
            if not any(each.branch.kind == "range" for each in open_):
                raise refused(source, first.at, f"{first.text} outside of range")
            current.append(Jump(first.text))
        elif first.text in ("if", "with", "range"):
            branch = words.branch(first.text, part)
            open_.append(_Open(branch, current, False))
            current.append(branch)
            current = branch.body
        else:
            if not open_:
                raise refused(source, first.at, f"{first.text} without if, with or range")
            branch = open_[-1].branch
            if first.text == "else":
                if current is branch.otherwise:
                    raise refused(source, first.at, "a second else")
                current = branch.otherwise
                if words.peek.kind == "name" and words.peek.text in ("if", "with"):
                    nested = words.branch(words.take().text, part)
                    open_.append(_Open(nested, current, True))
                    current.append(nested)
                    current = nested.body
            else:
                while (ended := open_.pop()).is_else_if:
                    continue
                current = ended.parent
        if len(open_) > MAX_DEPTH:
            raise refused(source, part.at, f"blocks are nested more than {MAX_DEPTH} deep")
        words.end()
    if open_:
        raise refused(source, open_[-1].branch.at, f"this {open_[-1].branch.kind} has no end")
    return root


class _Words:
    """The tokens of one action."""

    def __init__(self, source: str, tokens: tuple[Token, ...]) -> None:
        self._source = source
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    @property
    def peek(self) -> Token:
        return self._tokens[self._next]

    def take(self) -> Token:
        token = self.peek
        self._next += token.kind != "end"
        return token

    def end(self) -> None:
        if self.peek.kind != "end":
            raise self._unexpected(self.peek)

    def action(self, action: Action) -> Node:
        first = self.peek
        if first.kind == "name" and first.text in _REFUSED:
            raise refused(self._source, first.at, f"{first.text} is not supported")
        if first.kind == "end":
            raise refused(self._source, action.at, "this action is empty")
        node: Node
        if first.kind == "variable" and self._tokens[1].text in (":=", "="):
            self.take()
            declares = self.take().text == ":="
            node = Assign(first.text, self.pipeline(), declares, first.at)
        else:
            node = Print(self.pipeline())
        self.end()
        return node

    def branch(self, kind: str, action: Action) -> Branch:
        names: list[str] = []
        texts = [token.text for token in self._tokens[self._next :]]
        if texts[1:2] == [":="] or (texts[1:2] == [","] and texts[3:4] == [":="]):
            while (token := self.take()).text != ":=":
                if token.kind == "variable":
                    names.append(token.text)
            if len(names) > 1 and kind != "range":
                raise refused(self._source, action.at, f"{kind} can declare only one variable")
        return Branch(kind, tuple(names), self.pipeline(), action.at)

    def pipeline(self) -> Expression:
        value = self._command(())
        while self.peek.text == "|" and self.peek.kind == "sign":
            self.take()
            value = self._command((value,))
        return value

    def _command(self, piped: tuple[Expression, ...]) -> Expression:
        first = self.peek
        if first.kind == "name" and first.text not in ("true", "false", "nil"):
            self.take()
            arguments: list[Expression] = []
            while self.peek.kind not in ("end", "sign") or self.peek.text == "(":
                arguments.append(self._operand())
            return Call(first.text, (*arguments, *piped), first.at)
        value = self._operand()
        if piped or self.peek.kind not in ("end", "sign") or self.peek.text == "(":
            raise refused(self._source, first.at, f"{first.text!r} is not a function")
        return value

    def _operand(self) -> Expression:
        token = self.take()
        value: Expression
        if token.kind == "string":
            return Literal(token.text)
        if token.kind == "number":
            return Literal(float(token.text) if "." in token.text else int(token.text))
        if token.kind == "name" and token.text in ("true", "false", "nil"):
            return Literal({"true": True, "false": False, "nil": None}[token.text])
        if token.kind == "name":  # a function without arguments
            return Call(token.text, (), token.at)
        if token.text == "(" and token.kind == "sign":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise refused(self._source, token.at, f"parentheses are nested more than {MAX_DEPTH} deep")
            value = self.pipeline()
            if self.take().text != ")":
                raise refused(self._source, token.at, "this parenthesis is not closed")
            self._depth -= 1
            fields = self._fields()
            return Reference(value, fields, token.at) if fields else value
        if token.kind in ("dot", "variable"):
            return Reference(token.text, self._fields(), token.at)
        if token.kind == "field":
            return Reference(".", (token.text[1:], *self._fields()), token.at)
        raise self._unexpected(token)

    def _fields(self) -> tuple[str, ...]:
        """Fields that follow without a space."""
        fields = []
        while self.peek.kind == "field" and self.peek.glued:
            fields.append(self.take().text[1:])
        return tuple(fields)

    def _unexpected(self, token: Token) -> Exception:
        return refused(self._source, token.at, f"unexpected {token.text!r}" if token.text else "too short")
