"""Expressions of a grammar over characters, as in GBNF. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from localllm.grammar.texts.charsets import Range


@dataclass(frozen=True, eq=False)
class Chars:
    """One of these characters."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, eq=False)
class Token:
    """One token of the model's vocabulary, as Lark writes it: `<[123]>`, `<|end|>`."""

    text: str


@dataclass(frozen=True, eq=False)
class Ref:
    """A reference to a rule."""

    name: str


@dataclass(frozen=True, eq=False)
class Seq:
    """Items in sequence; without items, the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Alt:
    """Any one of the options."""

    options: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Rep:
    """A repeated item; `most` None: no upper bound."""

    item: Node
    least: int
    most: int | None


Node = Chars | Token | Ref | Seq | Alt | Rep
Rules = dict[str, Node]


def children(node: Node) -> tuple[Node, ...]:
    """Its direct children."""
    match node:
        case Seq(items):
            return items
        case Alt(options):
            return options
        case Rep(item, _, _):
            return (item,)
        case _:
            return ()
