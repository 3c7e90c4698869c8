"""Writes the grammar of a structure and tries it: compiled, up to its first mask, with one token per byte.

Runs in the grammar process (`grammar_child`), since none of it is bounded in time. Errors are worded here, because
llguidance's repeat the source, the parser's state and Rust's stack.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from localllm.errors import InvalidParameter
from localllm.grammar.calls.answers import source_of
from localllm.grammar.calls.arguments import Loose
from localllm.grammar.compose import ComposedGrammar, composed, grammar_of
from localllm.grammar.schema.blame import culprit
from localllm.grammar.schema.notes import NONE, Concessions
from localllm.grammar.texts.literals import Literals
from localllm.types.formats import AnswerSource
from localllm.types.schemas.value_schemas import ValueSchema
from localllm.types.structures import Structure
from localllm.worker.grammars.grammar_request import GrammarRequest, SpecialTokens, parser_limits

MAX_ARGUMENTS = 40
"""Number of a function's arguments up to which those that do not compile are searched for."""
MAX_EMPTY = 8
"""The most definitions that are left out one after another because no text matches them."""
MAX_DROPPED = 3
"""The most keywords that are left out one after another because they do not compile."""
SEARCH_S = 0.5
"""Time for finding the part of a schema that does not compile."""
_EMPTY = re.compile(r"^Unsatisfiable schema(?s:.*)json-schema:///#/\$defs/(d\d+)")
"""llguidance says so of any definition, even if no document needs it."""
_TOO_MUCH = ("too large", "too big", "too many", "limit", "fuel", "panic", "complex")
_PLACE = re.compile(r"(?:^|\n|: )at (\d+)\((\d+)\)")
"""Line and column in llguidance's messages about Lark."""


def checked_grammar(request: GrammarRequest) -> ComposedGrammar:
    """llguidance's text, which compiles and allows something, with notes. Raises `InvalidParameter`."""
    structure, literals = request.structure, Literals.of_vocabulary(request.special.spellings, request.special.ends)
    if structure.kind == "answer" and not request.is_loose:
        return _answer(request, literals)
    written = composed(structure, request.preface, literals, None)
    if (error := _error(request, written.grammar)) is None:
        return written
    return _without_culprits(request, literals, error)


def _without_culprits(request: GrammarRequest, literals: Literals, error: str) -> ComposedGrammar:
    """The grammar with as few concessions as make it compile; of a structure that is not strict, without any keyword at
    fault. Raises `InvalidParameter`."""
    made = NONE
    while True:
        made = _conceded(request, error, made)
        written = composed(request.structure, request.preface, literals, concessions=made)
        still = _error(request, written.grammar)
        if still is None:
            return written
        error = still


def _conceded(request: GrammarRequest, error: str, made: Concessions) -> Concessions:
    """One concession more. Raises `InvalidParameter` if none helps."""
    structure = request.structure
    if _is_undecided(error) and not made.without_formats:
        return made._replace(without_formats=True)
    if _is_too_much(error) and not made.narrows and structure.kind == "json_schema":
        return made._replace(narrows=True)
    empty = _EMPTY.search(error)
    if empty is not None and empty[1] not in made.empty_definitions and len(made.empty_definitions) < MAX_EMPTY:
        return made._replace(empty_definitions=(*made.empty_definitions, empty[1]))
    path = _culprit(request, structure, made)
    if structure.is_strict or len(made.dropped) == MAX_DROPPED or path in made.dropped:
        raise _refusal(structure, error, path)
    return made._replace(dropped=(*made.dropped, path))


def _answer(request: GrammarRequest, literals: Literals) -> ComposedGrammar:
    """The grammar of an answer, without what is asked of arguments that no text can satisfy."""
    functions = source_of(request.structure).functions
    loose: Loose = frozenset()
    while True:
        written = composed(request.structure, request.preface, literals, loose)
        dead = [each for each in written.bounded if each.place not in loose and _is_dead(request, each.terminal)]
        if not dead:
            break
        for each in dead:
            if functions[each.place[0]].is_strict:
                raise InvalidParameter(f"{each.path} allows no text at all", param=each.path)
        loose |= {each.place for each in dead}
    error = _error(request, written.grammar)
    return written if error is None else _loosened(request, literals, error, loose)


def _is_dead(request: GrammarRequest, terminal: str) -> bool:
    """Whether no text matches a terminal, or it takes too much work to find out."""
    lark = f"%llguidance {{}}\nstart: TEXT\nTEXT: {terminal}\n"
    return _error(request, json.dumps({"grammars": [{"lark_grammar": lark}]})) is not None


def _loosened(request: GrammarRequest, literals: Literals, error: str, loose: Loose) -> ComposedGrammar:
    """The grammar without the schemas that do not compile, or without any if that does not help."""
    source = source_of(request.structure)
    if source.text is not None and (of_text := _error(request, grammar_of(source.text))) is not None:
        raise _refusal(source.text, of_text, _culprit(request, source.text))
    parts = _Parts(request, source, literals)
    bad = parts.bad()
    for place in bad:
        if (function := source.functions[place]).is_strict:
            schema = Structure(kind="json_schema", source=function.parameters or "{}", param=function.param)
            raise _refusal(schema, error, _culprit(request, schema))
    arguments: Loose = loose | {each for place in bad for each in parts.bad_arguments(place)}
    for which in (arguments, loose | {*bad}, None):
        written = composed(request.structure, request.preface, literals, which)
        if (still := _error(request, written.grammar)) is None:
            return written
        error = still
    raise _refusal(request.structure, error, request.structure.param)


class _Parts:
    """Separates functions of an answer that compile from those that do not, by bisection: most do."""

    def __init__(self, request: GrammarRequest, source: AnswerSource, literals: Literals) -> None:
        self._request = request
        self._source = source
        self._literals = literals

    def bad(self) -> list[int]:
        """Functions that do not compile; of two halves that compile alone but not together, the longer one."""
        return sorted(self._bad([*range(len(self._source.functions))]))

    def _bad(self, places: list[int]) -> list[int]:
        """Which of these do not compile together."""
        if len(places) == 1:
            return places
        halves = [places[: len(places) // 2], places[len(places) // 2 :]]
        found = [place for half in halves if not self._compile(half) for place in self._bad(half)]
        return found or max(halves, key=self._length)

    def _compile(self, places: list[int], loose: Loose = frozenset()) -> bool:
        functions = tuple(self._source.functions[place] for place in places)
        some = msgspec.structs.replace(self._source, functions=functions, choice="required")
        structure = msgspec.structs.replace(self._request.structure, source=msgspec.json.encode(some).decode())
        return _error(self._request, composed(structure, None, self._literals, loose).grammar) is None

    def bad_arguments(self, place: int) -> list[tuple[int, str]]:
        """Arguments of a function that do not compile even if all others may be anything."""
        names = ValueSchema.of(self._source.functions[place]).names
        if len(names) > MAX_ARGUMENTS:
            return []
        return [
            (place, name)
            for name in names
            if not self._compile([place], frozenset((0, other) for other in names if other != name))
        ]

    def _length(self, places: list[int]) -> int:
        return sum(len(self._source.functions[place].parameters) for place in places)


def _culprit(request: GrammarRequest, structure: Structure, made: Concessions = NONE) -> str:
    until_s = time.monotonic() + SEARCH_S
    return culprit(structure, lambda part: time.monotonic() > until_s or _error(request, part) is None, made)


def _error(request: GrammarRequest, grammar: str) -> str | None:
    """llguidance's error, if any."""
    matcher = LLMatcher(_tokenizer(request.special), grammar, log_level=0, limits=parser_limits(request.limits))
    if not matcher.is_error():
        matcher.compute_ff_tokens()
        if not matcher.is_stopped():
            matcher.compute_bitmask()
    return matcher.get_error() if matcher.is_error() else None


def _is_undecided(error: str) -> bool:
    """Whether llguidance could not find out, within its limits, if any text matches."""
    return error.startswith("Unable to determine")


def _is_too_much(error: str) -> bool:
    return any(word in error.partition("\n")[0].lower() for word in _TOO_MUCH)


def _refusal(structure: Structure, error: str, param: str) -> InvalidParameter:
    """`param`: the path of the faulty part."""
    first = error.partition("\n")[0].lower()
    if _is_undecided(error) or _is_too_much(error):
        return InvalidParameter(f"{param} is too large or too complex to compile; simplify it", param=param)
    if "no extension" in first or "unsatisfiable" in first or "empty" in first or "no tokens allowed" in first:
        return InvalidParameter(f"{param} allows no text at all", param=param)
    if structure.kind in ("lark", "gbnf") and (place := _PLACE.search(error)) is not None:
        return InvalidParameter(f"{param} is wrong at line {place[1]}, column {place[2]}", param=param)
    return InvalidParameter(f"{param} cannot be compiled", param=param)


class _ByteVocabulary:
    """One token per byte, and the model's special tokens with their numbers; implements what `TokenizerWrapper`
    needs."""

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
