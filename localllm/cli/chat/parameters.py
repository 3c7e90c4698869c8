"""The parameters of /set: sampling parameters and how the chat looks. Knows no conversation and no terminal."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from localllm.cli.chat import thinking
from localllm.errors import InvalidParameter
from localllm.types import SAMPLING_RANGES, SamplingParams
from localllm.types.declared import declared

UNSET = ("default", "none")
"""Values that restore the model's default."""
_NOT_HERE = {"logprobs", "prompt_logprobs"}
"""Sampling parameters of no use in a chat."""
SWITCHES: dict[str, tuple[str, ...]] = {
    "think": thinking.WORDS,
    "markdown": ("on", "off"),
    "stats": ("on", "off"),
}
_FIELDS = {field.name: field for field in msgspec.structs.fields(SamplingParams) if field.name not in _NOT_HERE}
_DECLARED = declared(SamplingParams)


def parameter_names() -> list[str]:
    """All parameters of /set except `system`."""
    return [*_FIELDS, *SWITCHES]


def with_parameter(params: SamplingParams, name: str, text: str) -> SamplingParams:
    """`params` with one value parsed from `text`. Raises `InvalidParameter`."""
    field = _FIELDS[name]
    if text.lower() in UNSET:
        return msgspec.structs.replace(params, **{name: field.default})
    try:
        value = msgspec.convert(_parsed(name, text), field.type, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
        raise InvalidParameter(f"{name} takes {kind(name)}, not {text!r}", param=name) from error
    return msgspec.structs.replace(params, **{name: value})


def kind(name: str) -> str:
    """The values that a parameter takes, for a message."""
    if name == "think":
        return thinking.TAKES
    if name in SWITCHES:
        return " or ".join(SWITCHES[name])
    if name == "seed":
        return "a 64-bit integer, or -1 for a random one each time"
    if name in SAMPLING_RANGES:
        low, high = SAMPLING_RANGES[name]
        is_whole = _DECLARED[name].kind == "integer"
        until = f"from {low:g} to {high:g}" if high < 2**31 - 1 else f"of at least {low:g}"
        return f"{'an integer' if is_whole else 'a number'} {until}"
    by_type = {"stop_token_ids": "numbers", "logit_bias": 'JSON like {"15": -100}', "ignore_eos": "true or false"}
    return by_type.get(name, 'strings, quoted if needed, or JSON like ["\\n"]')


def shown(params: SamplingParams, name: str) -> str:
    """A parameter's value, in the form that /set takes."""
    value: Any = getattr(params, name)
    if value is None or value == ():
        return "default"
    if isinstance(value, tuple):
        return msgspec.json.encode(value).decode()
    if isinstance(value, dict):
        return msgspec.json.encode({str(key): bias for key, bias in value.items()}).decode()
    return str(value).lower() if isinstance(value, int) else f"{value:.10g}"


def _parsed(name: str, text: str) -> Any:
    """The text, split into values for a parameter that takes several."""
    if name == "logit_bias":
        return {int(key): bias for key, bias in msgspec.json.decode(text.encode(), type=dict[str, float]).items()}
    if name in ("stop", "dry_sequence_breakers", "stop_token_ids"):
        if text.startswith("["):
            return msgspec.json.decode(text.encode())
        return shlex.split(text) if name != "stop_token_ids" else text.replace(",", " ").split()
    return text


def unquoted(text: str) -> str:
    """Without the quotes around it."""
    text = text.strip()
    for quote in ('"""', '"', "'"):
        if len(text) >= 2 * len(quote) and text.startswith(quote) and text.endswith(quote):
            return text[len(quote) : -len(quote)]
    return text
