"""llama-server's `samplers`: which filters to apply, in which order. Only the default order is supported; any may be
omitted. Knows nothing of how they work.
"""

from __future__ import annotations

from typing import Any

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped

ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
_LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
    "a": "adaptive_p",
}
_ALSO_CALLED = {
    "nucleus": "top_p",
    "temp": "temperature",
    "top_sigma": "top_n_sigma",
    "typ": "typ_p",
    "typical": "typ_p",
    "typical_p": "typ_p",
}
_OFF: dict[str, dict[str, Any]] = {
    "penalties": {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0},
    "dry": {"dry_multiplier": 0.0},
    "top_n_sigma": {"top_n_sigma": 0.0},
    "top_k": {"top_k": 0},
    "typ_p": {"typical_p": 1.0},
    "top_p": {"top_p": 1.0},
    "min_p": {"min_p": 0.0},
    "xtc": {"xtc_probability": 0.0},
    "temperature": {"temperature": 1.0, "dynatemp_range": 0.0},
}
"""Sampler -> fields that turn it off."""


def samplers_of(given: list[str] | str | None) -> tuple[str, ...]:
    """The requested samplers by name. Raises `InvalidParameter`, `UnsupportedParameter`."""
    if given is None:
        return ORDER
    if isinstance(given, str):
        names = [_LETTERS.get(letter, letter) for letter in given]
    else:
        plain = [name.replace("-", "_") for name in given]
        names = [_ALSO_CALLED.get(name, name) for name in plain]
    for name in names:
        if name in ("infill", "adaptive_p"):
            raise UnsupportedParameter(f"samplers: {name} is not supported; leave it out", param="samplers")
        if name not in ORDER:
            raise InvalidParameter(
                f"samplers: unknown sampler {clipped(name, 40)!r}; available: {', '.join(ORDER)}", param="samplers"
            )
    places = [ORDER.index(name) for name in names]
    if places != sorted(set(places)):
        raise UnsupportedParameter(
            f"samplers have a fixed order: {', '.join(ORDER)}; send a subset in that order",
            param="samplers",
        )
    return tuple(names)


def switched_off(used: tuple[str, ...]) -> dict[str, Any]:
    """The request fields that turn off all other samplers."""
    return {field: value for name in ORDER if name not in used for field, value in _OFF[name].items()}
