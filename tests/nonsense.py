"""A model that wants nonsense: any token that a grammar allows, each as likely as the next, with a will to end.

The vocabulary is made here: all bytes, and pieces that run over the seams of JSON.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

_SEAMS = r"""
{" "} ":" "," ":{" ":[ "}, }} ]} [[ ]] ":" }," true false null "a" "b" name 12 34. .5 e- -1 00 2024- T12: @ex ample
the and \n \" \\ \u00 aa éé ß 日本 😀 </ <f
"""
_PIECES = [*_SEAMS.split(), ",\n", ": ", "\n  ", "  "]
TOKENS = [bytes([code]) for code in range(256)]
TOKENS += sorted({piece.encode() for piece in _PIECES if len(piece.encode()) > 1})
TOKENS += [b"\xff</s>"]
END = len(TOKENS) - 1

_CLOSING = [
    index for index, token in enumerate(TOKENS[:END]) if token in (b'"', b"}", b"]", b'"}', b"}}", b"]}", b"]]")
]


class _Wrapped:
    """What llguidance asks of a tokenizer written in Python."""

    eos_token_id = END
    bos_token_id = None
    tokens = TOKENS
    special_token_ids = (END,)

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


TOKENIZER = LLTokenizer(TokenizerWrapper(_Wrapped()), slices=[])


def compiled(grammar: str) -> LLMatcher:
    """Ready for a first token. Fails the test if it does not compile."""
    matcher = LLMatcher(TOKENIZER, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def accepts(matcher: LLMatcher, text: str | bytes) -> bool:
    """The text is a whole document of it; byte by byte, so that no tokenizer is in the way."""
    matcher = matcher.deep_copy()
    tokens = list(text.encode() if isinstance(text, str) else text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def allowed(matcher: LLMatcher) -> Sequence[int]:
    """The tokens that may come next."""
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
    found: list[int] = np.flatnonzero(bits[: len(TOKENS)]).tolist()
    return found


def document(matcher: LLMatcher, rng: random.Random, *, most: int = 300) -> str | None:
    """What the model writes; None if it has not ended after `most` tokens and as many again in which it wants to."""
    matcher = matcher.deep_copy()
    written: list[bytes] = []
    for index in range(2 * most):
        choice = allowed(matcher)
        assert choice, f"nothing is allowed behind {b''.join(written)!r}: {matcher.get_error()[:200]}"
        hurry = 0.25 if index < most else 0.97
        ending = [token for token in choice if token == END] or [token for token in _CLOSING if token in choice]
        token = rng.choice(ending if ending and rng.random() < hurry else choice)
        if token == END:
            break
        assert matcher.consume_token(token), matcher.get_error()
        written.append(TOKENS[token])
        if matcher.is_stopped():
            assert matcher.is_accepting()
            break
    else:
        return None
    return b"".join(written).decode()
