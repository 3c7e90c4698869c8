"""Durations as clients write them: seconds as a number, or with units as in Ollama (`5m`, `1h30m`, `-1`)."""

from __future__ import annotations

import math
import re

from localllm.errors import InvalidParameter

FOREVER_S = -1.0
MAX_S = 10 * 365 * 86400.0

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|ms|s|m|h)")
_WHOLE = re.compile(rf"([+-]?)((?:{_PART.pattern})+)")


def keep_alive_seconds(value: float | str | None) -> float | None:
    """Parses the `keep_alive` of a request; `FOREVER_S` for any negative value. Raises `InvalidParameter`."""
    if value is None:
        return None
    seconds = _seconds(value) if isinstance(value, str) else float(value)
    if seconds is None or math.isnan(seconds):
        raise InvalidParameter(
            f"keep_alive takes seconds, or a time like 5m or 1h30m, got {value!r:.80}", param="keep_alive"
        )
    return FOREVER_S if seconds < 0 else min(seconds, MAX_S)


def _seconds(text: str) -> float | None:
    """Parses the format of Go's time.ParseDuration, and plain numbers."""
    try:
        return float(text)
    except ValueError:
        match = _WHOLE.fullmatch(text)
    if match is None or len(text) > 100:
        return None
    total = sum(float(part[1]) * _UNITS_S[part[2]] for part in _PART.finditer(match[2]))
    return -total if match[1] == "-" else total
