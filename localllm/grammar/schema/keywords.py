"""Which keywords of JSON Schema are enforced, which are annotations, and the alternatives to all others.

Unknown names are annotations, as JSON Schema says, and noted: one may be a typo, such as `requried`. Names that begin
with `x-` are not.
"""

from __future__ import annotations

from difflib import get_close_matches

OBJECT = frozenset(
    {"properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
     "propertyNames", "unevaluatedProperties"}
)  # fmt: skip
ARRAY = frozenset({"prefixItems", "items", "additionalItems", "minItems", "maxItems", "unevaluatedItems"})
STRING = frozenset({"minLength", "maxLength", "pattern", "format"})
NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
APPLIED = frozenset({*REFERENCES, "allOf", "anyOf", "oneOf", "enum", "const"})
"""Keywords that apply to every type."""

OF_TYPE: dict[str, frozenset[str]] = {
    "object": OBJECT,
    "array": ARRAY,
    "string": STRING,
    "number": NUMBER | {"format"},
    "integer": NUMBER | {"format"},
    "boolean": frozenset(),
    "null": frozenset(),
}

ANNOTATIONS = frozenset(
    """$schema $id id $anchor $dynamicAnchor $recursiveAnchor $defs definitions $comment $vocabulary title
    description default examples example deprecated readOnly writeOnly contentMediaType contentEncoding
    contentSchema discriminator externalDocs xml enumNames enumDescriptions markdownDescription""".split()
)
"""Keywords that do not affect validity."""

REFUSED: dict[str, str] = {
    "uniqueItems": "leave it out, and check the answer for repeated items",
}
"""Keywords that affect validity but cannot be enforced, with the remedy."""

CHECKED = "uniqueItems"
"""A keyword that no grammar can express: checked while a document is written (see `checks`)."""

WITHOUT_EFFECT: dict[str, tuple[object, ...]] = {
    "uniqueItems": (False,),
    "not": (False,),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
}
"""Keyword -> values that have no effect."""

AS_CASES = frozenset(
    """not if then else dependentRequired dependentSchemas dependencies contains minContains maxContains""".split()
)
"""Keywords that become cases (see `cases`)."""

KEPT = OBJECT | ARRAY | STRING | NUMBER | APPLIED | AS_CASES | {"type"}


def asks_for_nothing(name: str, value: object) -> bool:
    """Whether every document satisfies this keyword with this value."""
    return any(type(value) is type(one) and value == one for one in WITHOUT_EFFECT.get(name, ()))


def note_of(name: str, path: str) -> str:
    """The note for an unknown keyword, with the keyword that was probably meant."""
    close = get_close_matches(name, [*KEPT, *REFUSED], n=1, cutoff=0.8) if name.isascii() and len(name) < 40 else ()
    return f"keyword-unknown: {path}" + (f" (did you mean {close[0]}?)" if close else "")
