"""Which documents are closed before their limit cuts them off, and with what. Knows nothing of how an end is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Protocol

from localllm.engine.constraint.closing import Closing, ClosingTokens
from localllm.engine.constraint.distinctness import Distinctness
from localllm.grammar.schema.shortest import Outline
from localllm.types.structures import GrammarLimits, Structure

if TYPE_CHECKING:
    from llguidance import LLTokenizer

_SAMPLE = '{"title": "The sea", "tags": ["salt", "waves"], "createdAt": null, "item_count": 12, "isOpen": true}'


class Vocabulary(Protocol):
    """The part of `llama.tokens.grammar_tokens.GrammarTokens` that is needed."""

    @property
    def tokenizer(self) -> LLTokenizer: ...

    @property
    def size(self) -> int: ...

    @property
    def end_tokens(self) -> tuple[int, ...]: ...

    @property
    def special(self) -> tuple[tuple[int, bytes], ...]: ...


class Closings:
    """For one model."""

    def __init__(self, vocabulary: Callable[[], Vocabulary], limits: GrammarLimits) -> None:
        self._vocabulary = vocabulary
        self._limits = limits
        self._tokens: ClosingTokens | None = None
        """Made for the first document that may be closed."""
        self._bytes_per_token = 1.0
        """Of JSON."""

    def closes(self, structure: Structure) -> bool:
        """Whether such documents are closed before their limit."""
        asked = structure.close_at_limit
        closes = self._limits.close_at_limit if asked is None else asked
        return closes and structure.kind in ("json_object", "json_schema")

    def of(self, structure: Structure, outline: Outline, distinctness: Distinctness | None) -> Closing | None:
        """For one document, which has not begun."""
        if not self.closes(structure):
            return None
        vocabulary = self._vocabulary()
        if self._tokens is None:
            self._tokens = ClosingTokens(vocabulary.size, bytes_of(vocabulary), vocabulary.end_tokens)
            self._bytes_per_token = len(_SAMPLE) / len(vocabulary.tokenizer.tokenize_str(_SAMPLE))
        return Closing(
            self._tokens,
            (vocabulary.size + 31) // 32 * 4,
            distinctness,
            part=ceil(outline.part_bytes / self._bytes_per_token),
            words=[json.dumps(word, ensure_ascii=False)[1:-1].encode() for word in outline.words],
            is_asked=structure.close_at_limit is True,
        )


def bytes_of(vocabulary: Vocabulary) -> Callable[[int], bytes]:
    """What each token spells."""
    tokenizer, spellings = vocabulary.tokenizer, dict(vocabulary.special)
    return lambda token: spellings.get(token) or tokenizer.decode_bytes([token])
