"""Expressions of a grammar over characters, as GBNF has them. What a node is, not what it takes."""

from __future__ import annotations

from dataclasses import dataclass

from localllm.grammar.charsets import Range


@dataclass(frozen=True, eq=False)
class Chars:
    """One character of these."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, eq=False)
class Token:
    """One token of the model's vocabulary, as Lark writes it: `<[123]>`, `<|end|>`."""

    text: str


@dataclass(frozen=True, eq=False)
class Ref:
    """Another rule."""

    name: str


@dataclass(frozen=True, eq=False)
class Seq:
    """One after another; none is the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Alt:
    """One of them."""

    options: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Rep:
    """That many times; `most` None is no bound."""

    item: Node
    least: int
    most: int | None


Node = Chars | Token | Ref | Seq | Alt | Rep
Rules = dict[str, Node]


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right in it."""
    match node:
        case Seq(items):
            return items
        case Alt(options):
            return options
        case Rep(item, _, _):
            return (item,)
        case _:
            return ()
