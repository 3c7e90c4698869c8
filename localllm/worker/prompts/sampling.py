"""Sampling parameters: the request's, else the model's, else our defaults. Knows nothing of prompts."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from localllm.types import RANDOM_SEED, DrySampling, ResolvedSampling, SamplingParams


def with_defaults(params: SamplingParams, defaults: SamplingParams) -> SamplingParams:
    """The request's fields, completed with the model's."""
    if defaults == SamplingParams():
        return params
    nothing = SamplingParams()
    given = {
        name: value
        for name in SamplingParams.__struct_fields__
        if (value := getattr(defaults, name)) != getattr(nothing, name) == getattr(params, name)
    }
    return msgspec.structs.replace(params, **given)


_NUMBERS: dict[str, type[int] | type[float]] = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "top_n_sigma": float,
    "typical_p": float,
    "xtc_probability": float,
    "xtc_threshold": float,
    "dynatemp_range": float,
    "dynatemp_exponent": float,
    "mirostat": int,
    "mirostat_tau": float,
    "mirostat_eta": float,
    "repeat_penalty": float,
    "repeat_last_n": int,
    "presence_penalty": float,
    "frequency_penalty": float,
}
"""The fields of `ResolvedSampling` that a request or a model may set."""


_FILTERS_OFF: dict[str, float] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "xtc_probability": 0.0}
"""The filters that a model or our defaults may enable."""


def resolve_sampling(params: SamplingParams, model: dict[str, float]) -> ResolvedSampling:
    """The request's value, else the model's own, else our default; without a seed, or with -1, a random one.

    Mirostat decides by itself how many tokens to keep, so it disables filters that the request does not set.
    """
    values: dict[str, Any] = {} if params.logit_bias is None else {"logit_bias": params.logit_bias}
    by_surprise = params.mirostat if params.mirostat is not None else model.get("mirostat")
    for name, kind in _NUMBERS.items():
        asked = getattr(params, name)
        if asked is not None:
            values[name] = kind(asked)
        elif by_surprise and name in _FILTERS_OFF:
            values[name] = kind(_FILTERS_OFF[name])
        elif name in model:
            values[name] = kind(model[name])
    if params.dry_multiplier:
        fields = {name: getattr(params, f"dry_{name}") for name in DrySampling.__struct_fields__}
        values["dry"] = DrySampling(**{name: value for name, value in fields.items() if value is not None})
    if values.get("top_k", 0) < 0:
        values["top_k"] = 0
    seed = secrets.randbits(32) if params.seed in (None, RANDOM_SEED) else params.seed % 2**64
    return ResolvedSampling(seed=seed, **values)
