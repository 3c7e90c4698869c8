"""The notation, for `shapes`, of arguments enclosed in literals of their own (Qwen3-Coder, GLM, DeepSeek's DSML).

Texts are unquoted and never contain the literal that follows; what a schema asks of them is one regular expression.
Everything else is JSON, with every keyword. Where a value may be a text or something else and the format marks no
types, a text that readers would take for something else is written as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from localllm.grammar.calls.texts import ALL_TYPES, NotWritable, Schema, of_types, text_of
from localllm.grammar.calls.unmarked import unmarked
from localllm.grammar.calls.values import STRING, Shapes
from localllm.grammar.calls.writings import NAME, Plain, other_name
from localllm.grammar.rules import Rules, mark_of
from localllm.grammar.texts.literals import ANY, either, joined, quoted
from localllm.types.formats import TaggedArguments
from localllm.types.schemas.value_schemas import ValueSchema


class TaggedNotation(Plain):
    """The notation of one format."""

    def __init__(self, rules: Rules, kind: TaggedArguments, values: ValueSchema) -> None:
        """`values`: what readers know of the arguments."""
        super().__init__(rules)
        self._values = values
        self._kind = kind
        self._marks = dict(kind.type_marks) if kind.before_type else {}
        self.separator = kind.between

    def member(self, shapes: Shapes, name: str, schema: Schema) -> str:
        ends = mark_of(self._kind.before_type or self._kind.behind_key)
        if not name or name != name.strip() or ends in name:
            raise NotWritable
        begun = self._rules.literals.written(self._kind.before + name)
        return self._member(shapes, begun, schema, self._values.member(name).types)

    def other_member(self, shapes: Shapes, schema: Schema, but: Sequence[str]) -> str:
        name = self._rules.terminal(other_name(NAME, but))
        begun = joined([self._rules.literals.written(self._kind.before), name])
        return self._member(shapes, begun, schema, self._values.member("").types)

    def _member(self, shapes: Shapes, begun: str, schema: Schema, types: frozenset[str]) -> str:
        """`types`: those that readers expect; empty: any."""
        literals, kind = self._rules.literals, self._kind
        if not self._marks:
            ways = [*self._unmarked(shapes, schema, types)]
            value = joined([literals.written(kind.behind_key), either(ways)]) if ways else ""
        else:
            ways = [
                joined([literals.written(kind.before_type + mark + kind.behind_key), value])
                for mark, value in self._marked(shapes, schema, types)
            ]
            value = either(ways) if ways else ""
        if not value:
            raise NotWritable
        return joined([begun, value])

    def _unmarked(self, shapes: Shapes, schema: Schema, types: frozenset[str]) -> Iterator[str]:
        """Each way to write a value whose type only the schema tells."""
        if types == STRING:
            yield from self._text(shapes, text_of(schema, shapes.resolved))
            return
        if types and "string" not in types:
            yield self._json(shapes, schema)
            return
        yield from unmarked(shapes, schema, types, self._kind.after, self._text)

    def _marked(self, shapes: Shapes, schema: Schema, types: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Each possible type mark, and the values after it."""
        own = self._marks.get("*", "")
        kinds: dict[str, set[str]] = {}
        for type_ in types or ALL_TYPES:
            kinds.setdefault(self._marks.get(type_, own), set()).add(type_)
        for mark, named in kinds.items():
            if mark == self._marks.get("string"):
                for way in self._text(shapes, text_of(schema, shapes.resolved), is_only=len(kinds) == 1):
                    yield mark, way
            elif (rest := of_types(schema, named, shapes.resolved)) is not False:
                yield mark, self._json(shapes, rest)

    def _json(self, shapes: Shapes, schema: Schema) -> str:
        return self._then(self._rules.json(shapes.whole(schema)), self._kind.after)

    def _text(self, shapes: Shapes, terminal: str | None, *, is_only: bool = True) -> Iterator[str]:
        """A text, possibly in the format's quotes; nothing if there is no terminal."""
        if terminal is None:
            return
        (opening, closing), after = self._kind.quotes, self._kind.after
        if not opening:
            yield shapes.until(after, terminal, is_only=is_only)
            return
        yield shapes.until(after, f"({terminal}) & ~({quoted(opening)} {ANY})", is_only=is_only)
        inside = f"({terminal}) & ~({ANY} {quoted(mark_of(after))} {ANY})"
        yield joined([self._rules.literals.written(opening), shapes.until(closing + after, inside, is_only=False)])
