"""Checks shared by several kinds of data. Knows no field."""

from __future__ import annotations

import math
from collections.abc import Sequence

from localllm.errors import InvalidParameter

MAX_SHOWN_CHARS, MAX_SHOWN_BITS = 60, 128
"""Limits for a value that is repeated in an error message."""


def check_texts(name: str, texts: tuple[str, ...], most: int | None, chars: int) -> None:
    """Raises `InvalidParameter` for more than `most` texts, or one that is empty or has more than `chars`
    characters."""
    if most is not None and len(texts) > most:
        raise InvalidParameter(f"{name} takes at most {most} strings, got {len(texts)}", param=name)
    for text in texts:
        if not 1 <= len(text) <= chars:
            raise InvalidParameter(
                f"each string of {name} must have 1 to {chars} characters, got {len(text)}", param=name
            )


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Raises `InvalidParameter` for a number out of range or a value that is not a number; None is allowed."""
    if value is None:
        return
    if not isinstance(value, int | float):
        raise InvalidParameter(f"{name} must be a number, got {shown(value)}", param=name)
    # Compared before conversion: an integer beyond the largest float cannot be converted.
    if not low <= value <= high or not math.isfinite(value):
        raise InvalidParameter(f"{name} must be from {low} to {high}, got {shown(value)}", param=name)


def check_token_ids(name: str, tokens: Sequence[int], highest: int, *, param: str | None = None) -> None:
    """Raises `InvalidParameter` for one that is not an integer from 0 to `highest`, with its index. `param`: the
    field's name, where `name` says more."""
    if set(map(type, tokens)) <= {int} and (not tokens or (min(tokens) >= 0 and max(tokens) <= highest)):
        return  # the usual case, at the speed of C: a prompt may have a million tokens
    for index, token in enumerate(tokens):
        if type(token) is not int or not 0 <= token <= highest:
            raise InvalidParameter(
                f"{name}[{index}] must be the id of a token, from 0 to {highest}, got {shown(token)}",
                param=param or name,
            )


def shown(value: object) -> str:
    """A short form of any value, for an error message."""
    if isinstance(value, int) and value.bit_length() > MAX_SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to spell the largest ones
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}..."
