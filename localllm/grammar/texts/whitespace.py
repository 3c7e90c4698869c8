"""llguidance's options for JSON documents: white space between tokens, and escapes in strings."""

from __future__ import annotations

from typing import Any

from localllm.grammar.refusals import refused
from localllm.grammar.texts.patterns import PatternRefused, whitespace
from localllm.types.structures import Structure

PRETTY = r"\n {0,40}| "
"""A line end with indentation, or one blank; bounded, because models may produce blanks forever."""

ESCAPES = 'nrbtf\\"'
r"""Characters allowed after a backslash. Not `u`, which could spell a property's name another way (`{"\u0061": ...}`
for `a`), or write an unpaired surrogate."""


def options(structure: Structure) -> dict[str, Any]:
    """llguidance's `x-guidance` for a structure. Raises `InvalidParameter`."""
    found: dict[str, Any] = {"whitespace_flexible": False, "json_allowed_escapes": ESCAPES}
    if structure.whitespace_pattern is not None:
        try:
            found["whitespace_pattern"] = whitespace(structure.whitespace_pattern)
        except PatternRefused as error:
            raise refused(structure.param, f"has a whitespace_pattern that cannot be enforced: {error}") from None
    elif structure.whitespace == "pretty":
        found["whitespace_pattern"] = PRETTY
    elif structure.whitespace == "compact":
        found |= {"item_separator": ", ", "key_separator": ": "}
    return found
