"""Values that may be texts or something else, in notations that neither quote texts nor mark types.

Readers take a value for JSON if its schema allows that type, and for a text otherwise. So a text that looks like
something else the schema allows is written in quotes, and every other one as it stands. Knows no notation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from localllm.grammar.calls.texts import ALL_TYPES, Schema, accepts, of_types, text_of
from localllm.grammar.calls.values import Shapes
from localllm.grammar.texts.literals import ANY, joined

_BLANKS = r"[ \t\r\n]*"
_BEGINNINGS = (("{", {"object"}), (r"\[", {"array"}), ("0-9-", {"number", "integer"}))
"""First characters of JSON values, as parts of a class, and their types."""
_LIKE = (
    ("null|None", {"null"}),
    ("true|false|True|False", {"boolean"}),
    ("[+._][0-9a-fA-FxXoO_.+-]*", {"number", "integer"}),
)
"""Other texts that readers take for values of these types."""
_WORDS: tuple[tuple[bool | None, str, str], ...] = (
    (None, "null", "null"), (True, "boolean", "true"), (False, "boolean", "false"),
)  # fmt: skip

Texts = Callable[..., Iterator[str]]
"""`texts(shapes, terminal, is_only=False)`: the ways to write a text that matches a terminal."""


def unmarked(
    shapes: Shapes, schema: Schema, types: frozenset[str], closing: str, texts: Texts, but: Collection[str] = ()
) -> Iterator[str]:
    """Each way to write a value and the literal after it. `types`: those that readers expect, texts among them; empty:
    any. `but`: types that are written elsewhere."""
    if not but and shapes.types(schema) == types and _is_plain(shapes, schema):
        yield from texts(shapes, ANY)  # whatever is written is read as one of the types
        return
    kinds = (types or ALL_TYPES).difference(but)
    text = text_of(schema, shapes.resolved)
    if text is not None:
        yield from texts(shapes, f"({text}) & {_unlike(types or ALL_TYPES)}", is_only=False)
    written = shapes.rules.literals.written
    for value, type_, word in _WORDS:
        if type_ in kinds and accepts(schema, value, shapes.resolved):
            yield written(word + closing)
    rest = of_types(schema, kinds - {"null", "boolean"}, shapes.resolved)
    if rest is not False:
        yield joined([shapes.rules.json(shapes.whole(rest)), written(closing)])


def _unlike(types: Collection[str]) -> str:
    """A terminal for texts that readers do not take for values of these types, nor for quoted texts."""
    firsts = "".join(chars for chars, its in _BEGINNINGS if its & {*types})
    others = "|".join(pattern for pattern, its in _LIKE if its & {*types})
    begun = rf'/(?s:{_BLANKS}([^ \t\r\n"{firsts}].*)?)/'
    return f"{begun} & ~(/{_BLANKS}({others}){_BLANKS}/)" if others else begun


def _is_plain(shapes: Shapes, schema: Schema) -> bool:
    """Whether the schema asks only for types."""
    schema = shapes.resolved(schema)
    if isinstance(schema, dict) and schema.keys() == {"anyOf"}:
        return all(_is_plain(shapes, one) for one in schema["anyOf"])
    return schema is True or (isinstance(schema, dict) and schema.keys() <= {"type"})
