"""What the grammar process is asked: a structure, the limits, and the special tokens that it may name.

Knows nothing of processes; imports llguidance only for its limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from localllm.types.structures import GrammarLimits, Preface, Structure

if TYPE_CHECKING:
    from llguidance import LLParserLimits


class SpecialTokens(msgspec.Struct, frozen=True):
    """Special tokens of a vocabulary, which grammars may name by spelling or number."""

    vocabulary_size: int
    spellings: tuple[tuple[int, bytes], ...]
    ends: tuple[int, ...] = ()
    """Tokens that end an answer."""


class GrammarRequest(msgspec.Struct, frozen=True):
    structure: Structure
    preface: Preface | None
    limits: GrammarLimits
    special: SpecialTokens
    is_loose: bool = False
    """For an `answer`: arguments of functions need not match their schemas, except of strict ones."""


def parser_limits(limits: GrammarLimits) -> LLParserLimits:
    """The limits in llguidance's form."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        step_lexer_fuel=limits.step_fuel,
        step_max_items=limits.step_items,
        max_lexer_states=limits.lexer_states,
        verbose_errors=False,
    )
