"""`logit_bias` as clients spell it: OpenAI's object by token id, or llama-server's pairs. Knows no vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

from localllm.errors import InvalidParameter
from localllm.types import MAX_BIASED_TOKENS, MAX_TOKEN_ID

Biases = dict[str, float | bool] | list[tuple[int | str, float | bool]]
"""Token -> what is added to its logit. False is llama-server's word for a token that must never come."""

FORBIDS = -100.0
"""OpenAI's value for that."""
MAX_DIGITS = len(str(MAX_TOKEN_ID))
MAX_KEY_CHARS = 40
"""Of a key that an error message repeats."""


def biases_of(given: Biases | None) -> dict[int, float] | None:
    """By token id; what is said twice of a token is added up. Raises `InvalidParameter`."""
    if given is None:
        return None
    if len(given) > MAX_BIASED_TOKENS:
        raise InvalidParameter(
            f"logit_bias takes at most {MAX_BIASED_TOKENS} tokens, got {len(given)}", param="logit_bias"
        )
    biases: dict[int, float] = {}
    pairs: Iterable[tuple[int | str, float | bool]] = given.items() if isinstance(given, dict) else given
    for key, bias in pairs:
        shown = str(key)[:MAX_KEY_CHARS] if isinstance(key, str) or 0 <= key <= MAX_TOKEN_ID else "[...]"
        token = _token(key, f"logit_bias.{shown}")
        if bias is True:
            raise InvalidParameter(
                f"logit_bias.{shown}: give a number, or false for a token that must never come",
                param=f"logit_bias.{shown}",
            )
        biases[token] = biases.get(token, 0.0) + (FORBIDS if bias is False else bias)
    return biases


def _token(key: int | str, param: str) -> int:
    """JSON objects can only spell it as text."""
    # Its length first: Python refuses to read a number of more than 4,300 digits.
    if isinstance(key, str) and key.isdecimal() and len(key) <= MAX_DIGITS:
        key = int(key)
    if isinstance(key, str) or not 0 <= key <= MAX_TOKEN_ID:
        raise InvalidParameter(f"{param}: give the id of a token, from 0 to {MAX_TOKEN_ID}", param=param)
    return key
