"""Answers short questions about texts and tokens, in steps. Knows nothing of requests, templates or threads."""

from __future__ import annotations

from array import array
from collections.abc import Generator
from typing import Any

from localllm.errors import InternalError, SlotNotFound
from localllm.worker.messages import SLOT_METHODS
from localllm.worker.prompts.prompt_parts import Tokenizer

PIECES_A_STEP = 1000


def answer_call(method: str, args: tuple[Any, ...], vocab: Tokenizer, model_id: str) -> Generator[None, None, Any]:
    """The result of a `Call`. Raises `LocalLLMError`s."""
    if method == "tokenize":
        text, add_special, parse_special = args
        tokens = array("i")  # a list takes nine times the memory
        for step in vocab.tokenize_in_steps(text, add_special=add_special, parse_special=parse_special, closes=True):
            tokens.extend(step)
            yield
        return tokens.tolist()
    if method == "pieces":
        ids, special = args
        pieces: list[bytes] = []
        for start in range(0, len(ids), PIECES_A_STEP):
            some = vocab.check_tokens(ids[start : start + PIECES_A_STEP], "tokens")
            pieces += [vocab.piece(token, special=special) for token in some]
            yield
        return pieces
    if method in SLOT_METHODS:
        raise SlotNotFound(f"{model_id} does not generate text and has no slots", param="id_slot")
    raise InternalError(f"the worker knows no method {method!r}")
