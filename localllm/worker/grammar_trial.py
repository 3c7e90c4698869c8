"""Writes the grammar of a structure and tries it: compiled, up to its first mask, with a token for each byte.

Runs in the grammar process (`grammar_child`), since none of it is bounded in time. Refuses in our words: llguidance's
repeat the source, the parser's state and Rust's stack.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import lru_cache

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from localllm.conversation import Function
from localllm.errors import InvalidParameter
from localllm.grammar.answers import source_of
from localllm.grammar.blame import culprit
from localllm.grammar.compose import Composed, composed, grammar_of
from localllm.grammar.literals import Literals
from localllm.structures import Structure, StructureKind
from localllm.worker.grammar_child import GrammarRequest, SpecialTokens, parser_limits

SEARCH_S = 0.5
"""For so long the part of a schema that does not compile is looked for."""
_PLACE = re.compile(r"(?:^|\n|: )at (\d+)\((\d+)\)")
"""Line and column in what llguidance says of Lark."""


def checked_grammar(request: GrammarRequest) -> Composed:
    """llguidance's text, which compiles and allows something, with notes. Raises `InvalidParameter`."""
    structure, literals = request.structure, Literals.of_vocabulary(request.special.spellings, request.special.ends)
    written = composed(structure, request.preface, literals, None if request.is_loose else frozenset())
    if (error := _error(request, written.grammar)) is None:
        return written
    if structure.kind == "answer":
        return _loosened(request, literals, error)
    raise _refusal(structure, error, _culprit(request, structure))


def _loosened(request: GrammarRequest, literals: Literals, error: str) -> Composed:
    """The same without the schemas that do not compile, or without all where they do not compile together."""
    source = source_of(request.structure)
    text, functions = source.text, source.functions
    if text is not None and (of_text := _error(request, grammar_of(text))) is not None:
        raise _refusal(text, of_text, _culprit(request, text))
    alone = [_of_schema(function) for function in functions]
    bad = {place for place, one in enumerate(alone) if one is not None and not _compiles(request, one)}
    for place in sorted(bad):
        if functions[place].is_strict:
            raise _refusal(alone[place], error, _culprit(request, alone[place]))
    for loose in (frozenset(bad), None) if bad else (None,):
        written = composed(request.structure, request.preface, literals, loose)
        if (still := _error(request, written.grammar)) is None:
            return written
        error = still
    raise _refusal(request.structure, error, request.structure.param)


def _of_schema(function: Function) -> Structure:
    kind: StructureKind = "json_schema" if function.parameters else "json_object"
    return Structure(kind=kind, source=function.parameters, param=function.param)


def _compiles(request: GrammarRequest, structure: Structure) -> bool:
    try:
        return _error(request, grammar_of(structure)) is None
    except InvalidParameter:  # its arguments are any object already
        return True


def _culprit(request: GrammarRequest, structure: Structure) -> str:
    until_s = time.monotonic() + SEARCH_S
    return culprit(structure, lambda part: time.monotonic() > until_s or _error(request, part) is None)


def _error(request: GrammarRequest, grammar: str) -> str | None:
    """What llguidance says against it."""
    matcher = LLMatcher(_tokenizer(request.special), grammar, log_level=0, limits=parser_limits(request.limits))
    if not matcher.is_error():
        matcher.compute_ff_tokens()
        if not matcher.is_stopped():
            matcher.compute_bitmask()
    return matcher.get_error() if matcher.is_error() else None


def _refusal(structure: Structure, error: str, param: str) -> InvalidParameter:
    """`param`: the path of what is at fault."""
    first = error.partition("\n")[0].lower()
    if any(word in first for word in ("too large", "too big", "too many", "limit", "fuel", "panic", "complex")):
        return InvalidParameter(f"{param} is too large or too complex to compile; simplify it", param=param)
    if "no extension" in first or "unsatisfiable" in first or "empty" in first or "no tokens allowed" in first:
        return InvalidParameter(f"{param} allows no text at all", param=param)
    if structure.kind in ("lark", "gbnf") and (place := _PLACE.search(error)) is not None:
        return InvalidParameter(f"{param} is wrong at line {place[1]}, column {place[2]}", param=param)
    return InvalidParameter(f"{param} cannot be compiled", param=param)


class _ByteVocabulary:
    """A token for each byte, and the model's special tokens at their numbers; what `TokenizerWrapper` wants of one."""

    bos_token_id = None

    def __init__(self, size: int, spellings: Mapping[int, bytes]) -> None:
        size = max(size, 256 + len(spellings) + 1)
        free = [token for token in range(257 + len(spellings)) if token not in spellings]
        self.eos_token_id = free[256]
        self.special_token_ids = list(spellings)
        self.tokens = [b""] * size
        for token, spelling in spellings.items():
            self.tokens[token] = spelling
        for byte in range(256):
            self.tokens[free[byte]] = bytes([byte])
        self._of_byte = free[:256]

    def __call__(self, text: bytes) -> list[int]:
        return [self._of_byte[byte] for byte in text]


@lru_cache(maxsize=1)
def _tokenizer(special: SpecialTokens) -> LLTokenizer:
    words = _ByteVocabulary(special.vocabulary_size, dict(special.spellings))
    return LLTokenizer(TokenizerWrapper(words), slices=[])
