"""`logit_bias` as clients spell it: OpenAI's object by token id, or llama-server's pairs. Knows no vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

from localllm.errors import InvalidParameter
from localllm.types import MAX_TOKEN_ID

Biases = dict[str, float | bool] | list[tuple[int | str, float | bool]]
"""Token -> number added to its logit. False, as in llama-server, forbids the token."""

FORBIDS = -100.0
"""OpenAI's value for a forbidden token."""
MAX_DIGITS = len(str(MAX_TOKEN_ID))
MAX_KEY_CHARS = 40
"""Maximum length of a key repeated in an error message."""


def biases_of(given: Biases | None) -> dict[int, float] | None:
    """Biases by token id; repeated ones are added. Raises `InvalidParameter`."""
    if given is None:
        return None
    biases: dict[int, float] = {}
    pairs: Iterable[tuple[int | str, float | bool]] = given.items() if isinstance(given, dict) else given
    for key, bias in pairs:
        shown = str(key)[:MAX_KEY_CHARS] if isinstance(key, str) or 0 <= key <= MAX_TOKEN_ID else "[...]"
        token = _token(key, f"logit_bias.{shown}")
        if bias is True:
            raise InvalidParameter(
                f"logit_bias.{shown}: give a number, or false to forbid the token",
                param=f"logit_bias.{shown}",
            )
        biases[token] = biases.get(token, 0.0) + (FORBIDS if bias is False else bias)
    return biases


def _token(key: int | str, param: str) -> int:
    """JSON object keys are always strings."""
    # Check the length first: Python refuses to parse more than 4,300 digits.
    if isinstance(key, str) and key.isdecimal() and len(key) <= MAX_DIGITS:
        key = int(key)
    if isinstance(key, str) or not 0 <= key <= MAX_TOKEN_ID:
        raise InvalidParameter(f"{param}: give the id of a token, from 0 to {MAX_TOKEN_ID}", param=param)
    return key
