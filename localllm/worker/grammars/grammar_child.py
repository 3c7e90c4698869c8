"""The worker's grammar process: reads structures, checks them, writes the grammar, and is killed when one runs away.

A compile cannot be stopped in a thread, and some take minutes: so each is first tried here, up to its first mask. Does
not load llama_cpp: of the vocabulary it has the special tokens, and one token per byte.

    python -P -m localllm.worker.grammars.grammar_child CPU_S MEMORY_MB        frames on stdin and stdout
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from localllm.errors import ErrorInfo, InvalidParameter, LocalLLMError, from_info
from localllm.grammar.schema.shortest import Outline
from localllm.types.structures import GrammarLimits, Preface, Structure
from localllm.worker.framing import encode
from localllm.worker.grammars.grammar_request import GrammarRequest, SpecialTokens
from localllm.worker.limited_child import LimitedChild, OverLimit, serve

DEADLINE_FACTOR = 4
"""Wall-clock limit as a multiple of the CPU limit, because decoding keeps every core busy."""


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """The child's reply."""

    grammar: str = ""
    notes: tuple[str, ...] = ()
    """Parts of the request that are not enforced."""
    checks: str = ""
    """What documents are checked for while they are written."""
    outline: Outline = Outline()
    """Of the shortest documents."""
    error: ErrorInfo | None = None


class Composed(NamedTuple):
    grammar: str
    notes: tuple[str, ...] = ()
    checks: str = ""
    outline: Outline = Outline()


class GrammarChild:
    """The parent's side: starts the child. Used by one thread."""

    def __init__(self, limits: GrammarLimits) -> None:
        self._limits = limits
        command = ["localllm.worker.grammars.grammar_child", str(limits.cpu_s), str(limits.memory_mb)]
        self._child = LimitedChild(command, Written)

    def write(
        self, structure: Structure, preface: Preface | None, special: SpecialTokens, *, deadline_s: float | None = None
    ) -> Composed:
        """The structure's grammar for llguidance, and notes. Raises `InvalidParameter`, or `OverLimit` if writing it
        took longer than `deadline_s`, which is tighter than the child's own limits.

        An `answer` that exceeds the limits is retried without the schemas of its functions.
        """
        limits, whole_s = self._limits, DEADLINE_FACTOR * self._limits.cpu_s
        request = GrammarRequest(structure, preface, limits, special)
        try:
            answer = self._child.ask(encode(request), whole_s if deadline_s is None else deadline_s)
        except OverLimit as reason:
            if deadline_s is not None:
                raise
            if structure.kind != "answer":
                raise too_much(structure, limits) from reason
            answer = self._loosely(request, whole_s)
        if answer.error is not None:
            raise from_info(answer.error)
        return Composed(answer.grammar, answer.notes, answer.checks, answer.outline)

    def _loosely(self, request: GrammarRequest, whole_s: float) -> Written:
        try:
            return self._child.ask(encode(msgspec.structs.replace(request, is_loose=True)), whole_s)
        except OverLimit as reason:
            raise too_much(request.structure, request.limits) from reason

    def close(self) -> None:
        self._child.close()


def too_much(structure: Structure, limits: GrammarLimits) -> InvalidParameter:
    return InvalidParameter(
        f"{structure.param} needs more than {limits.cpu_s} s or {limits.memory_mb} MB to compile; simplify it",
        param=structure.param,
    )


def _prepare() -> Callable[[GrammarRequest], bytearray]:
    from localllm.worker.grammars.grammar_trial import checked_grammar

    def answer_to(request: GrammarRequest) -> bytearray:
        try:
            composed = checked_grammar(request)
            return encode(Written(composed.grammar, composed.notes, composed.checks, composed.outline))
        except LocalLLMError as error:
            return encode(Written(error=error.info()))
        except (MemoryError, RecursionError):
            return encode(Written(error=too_much(request.structure, request.limits).info()))

    return answer_to


if __name__ == "__main__":
    cpu_s, memory_mb = map(int, sys.argv[1:])
    questions = msgspec.msgpack.Decoder(GrammarRequest)
    serve(questions, Written(), _prepare, cpu_s=cpu_s, memory_bytes=memory_mb * 10**6)
