"""Checks that several kinds of data share. Knows no field."""

from __future__ import annotations

from localllm.errors import InvalidParameter


def check_texts(name: str, texts: tuple[str, ...], most: int, chars: int) -> None:
    """Raises `InvalidParameter` for more than `most` texts, or one of more than `chars` characters, or of none."""
    if len(texts) > most:
        raise InvalidParameter(f"{name} takes at most {most} strings, got {len(texts)}", param=name)
    for text in texts:
        if not 1 <= len(text) <= chars:
            raise InvalidParameter(
                f"each string of {name} must have 1 to {chars} characters, got {len(text)}", param=name
            )


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Raises `InvalidParameter` for a number outside of these; None is none."""
    if value is not None and not low <= value <= high:  # nor is NaN; `math.isfinite` fails on very large integers
        raise InvalidParameter(f"{name} must be from {low} to {high}, got {_shown(value)}", param=name)


def _shown(number: float) -> str:
    """Python itself refuses to write an integer of more than 4,300 digits."""
    if isinstance(number, int) and number.bit_length() > 64:
        return f"an integer of {number.bit_length()} bits"
    return str(number)
