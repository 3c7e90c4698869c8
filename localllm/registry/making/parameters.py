"""Converts parameters of Modelfiles and of Ollama's `params` layers to ours, by one table for both.

Every name is honoured, refused with a remedy, or answered with a suggestion. Names and meanings follow
docs/modelfile.mdx and api/types.go (`Options`, `Runner`) of Ollama's source; the field names of `SamplingParams` work
as well. Knows nothing of where the values were read.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter
from localllm.types import SamplingParams
from localllm.types.declared import declared
from localllm.types.loading import MAX_CTX, MIN_CTX

MAX_TEXT_CHARS = 4096
"""Longer texts are not parsed as numbers."""
MAX_NOTICES = 20

_OURS = {"num_predict": "max_tokens", "num_ctx": "ctx"}
OLLAMA_NAMES = {ours: theirs for theirs, ours in _OURS.items()}
"""Our field -> Ollama's name, where they differ."""

_OF_A_MACHINE = {
    "num_gpu": "--gpu-layers",
    "num_thread": "--threads",
    "main_gpu": "--device",
    "num_batch": None,
    "num_gqa": None,
    "use_mmap": None,
    "use_mlock": None,
    "numa": None,
    "low_vram": None,
    "f16_kv": None,
    "vocab_only": None,
    "logits_all": None,
    "embedding_only": None,
    "rope_frequency_base": None,
    "rope_frequency_scale": None,
}
"""Settings of how one machine loads a model -> our option for it, if there is one."""
_NOT_SERVED = {
    "num_keep": "the context is never shifted, so remove it",
    "penalize_newline": "newlines are penalized like any other token, so remove it",
    "tfs_z": "llama.cpp has dropped it; use min_p instead",
    "draft_num_predict": "the number of drafted tokens adapts to what saves time, so remove it",
    "logprobs": "set it in each request, and remove it here",
    "prompt_logprobs": "set it in each request, and remove it here",
}


class RawParameter(NamedTuple):
    """One parameter as read: text, or the value of a JSON field."""

    name: str
    value: Any
    where: str = ""
    """Prefix of error messages, such as `line 3`."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The combined parameters."""

    params: SamplingParams = SamplingParams()
    stop: tuple[str, ...] = ()
    ctx: int | None = None


def collect(given: Iterable[RawParameter]) -> Parameters:
    """Combines all parameters. Raises `InvalidParameter` that begins with `where` and names the parameter."""
    fields: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    for one in given:
        field = _field(one)
        kind = _KINDS[field]
        if kind.repeatable:
            values = one.value if isinstance(one.value, list | tuple) else [one.value]
            lists.setdefault(field, []).extend(_value(one, field, kind, value) for value in values)
        elif field in fields:
            raise _wrong(one, "appears twice; remove one")
        else:
            fields[field] = _value(one, field, kind, one.value)
        _try(one, {**fields, **_as_fields(lists)})
    return _build({**fields, **_as_fields(lists)})


def collect_usable(values: Mapping[str, Any]) -> tuple[Parameters, tuple[str, ...]]:
    """The parameters that can be honoured and a message for each that cannot; for files written by others."""
    usable: list[RawParameter] = []
    notices: list[str] = []
    for name, value in values.items():
        try:
            collect([*usable, RawParameter(str(name)[:100], value)])
        except InvalidParameter as error:
            notices.append(error.message)
        else:
            usable.append(RawParameter(name, value))
    if len(notices) > MAX_NOTICES:
        notices[MAX_NOTICES:] = [f"{len(notices) - MAX_NOTICES} more parameters are ignored"]
    return collect(usable), tuple(notices)


def lines_of(parameters: Parameters) -> list[tuple[str, str]]:
    """(name, value) pairs that `collect` reads back unchanged, under Ollama's names where it has them."""
    lines: list[tuple[str, str]] = []
    if parameters.ctx is not None:
        lines.append((OLLAMA_NAMES["ctx"], str(parameters.ctx)))
    for field in msgspec.structs.fields(SamplingParams):
        value = getattr(parameters.params, field.name)
        if value == field.default or field.name in ("stop", "logprobs", "prompt_logprobs"):
            continue
        name = OLLAMA_NAMES.get(field.name, field.name)
        if isinstance(value, dict):
            lines += [(name, f"{token}:{bias!r}") for token, bias in value.items()]
        elif isinstance(value, tuple):
            lines += [(name, str(item)) for item in value]
        else:
            lines.append((name, str(value).lower() if isinstance(value, bool) else repr(value)))
    return lines + [("stop", text) for text in parameters.stop]


class _Kind(NamedTuple):
    type: type
    repeatable: bool = False


def _kinds() -> dict[str, _Kind]:
    """Field -> how its text is parsed; numbers as `SamplingParams` declares them."""
    kinds = {
        "ctx": _Kind(int),
        "ignore_eos": _Kind(bool),
        "stop": _Kind(str, True),
        "dry_sequence_breakers": _Kind(str, True),
        "stop_token_ids": _Kind(int, True),
        "logit_bias": _Kind(tuple, True),
    }
    numbers = {"number": float, "integer": int}
    fields = declared(SamplingParams).items()
    return kinds | {name: _Kind(numbers[field.kind]) for name, field in fields if field.kind in numbers}


_KINDS = _kinds()


def _field(one: RawParameter) -> str:
    if one.name in _OF_A_MACHINE:
        option = _OF_A_MACHINE[one.name]
        remedy = (
            f"give {option} to localllm run or localllm serve instead"
            if option
            else "localllm chooses it when it loads the model"
        )
        raise _wrong(one, f"depends on the machine, not the model; remove it: {remedy}")
    if one.name in _NOT_SERVED:
        raise _wrong(one, f"is not supported: {_NOT_SERVED[one.name]}")
    field = _OURS.get(one.name, one.name)
    if field not in _KINDS:
        known = [*_KINDS, *_OURS]
        close = difflib.get_close_matches(one.name, known, n=2) or ["temperature", "num_ctx", "stop"]
        raise _wrong(one, f"is not a parameter; similar ones are {' and '.join(close)}")
    return field


def _value(one: RawParameter, field: str, kind: _Kind, value: Any) -> Any:
    """The value in its field's type; None where Ollama uses a number to say "unset"."""
    if kind.type is str:
        if not isinstance(value, str):
            raise _wrong(one, f"must be text, not {_shown(value)}")
        return value
    if kind.type is tuple:
        token, _, bias = str(value)[:MAX_TEXT_CHARS].partition(":")
        return (int(_number(one, token, whole=True)), _number(one, bias, whole=False))
    if kind.type is bool:
        text = str(value).strip().lower()
        if text not in ("true", "false", "1", "0"):
            raise _wrong(one, f"must be true or false, not {_shown(value)}")
        return text in ("true", "1")
    number = _number(one, value, whole=kind.type is int)
    if (one.name == "num_predict" and number in (-2, -1, 0)) or (field in ("max_tokens", "seed") and number == -1):
        return None  # no limit, no fixed seed
    if field == "max_tokens" and number == 0:
        raise _wrong(one, "is 0, so the model would never answer; remove it")
    if field == "ctx" and not MIN_CTX <= number <= MAX_CTX:
        raise _wrong(one, f"must be {MIN_CTX} to {MAX_CTX:,}, not {_shown(value)}")
    return number


def _number(one: RawParameter, value: Any, *, whole: bool) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        if whole and isinstance(value, str | int):  # never via float, which has 53 bits: a seed has 64
            return int(value[:MAX_TEXT_CHARS] if isinstance(value, str) else value)
        number = float(value[:MAX_TEXT_CHARS] if isinstance(value, str) else value)
        if whole and number != int(number):
            raise ValueError
        return int(number) if whole else number
    except (ValueError, TypeError, OverflowError) as error:
        raise _wrong(one, f"must be {'a whole' if whole else 'a'} number, not {_shown(value)}") from error


def _as_fields(lists: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: dict(values) if name == "logit_bias" else tuple(values) for name, values in lists.items()}


def _try(one: RawParameter, fields: dict[str, Any]) -> None:
    """Checks ranges, which `SamplingParams` defines, after each parameter, so that the error names the right one."""
    try:
        _build(fields)
    except InvalidParameter as error:
        raise _wrong(one, f"cannot be used: {error.message}") from error


def _build(fields: dict[str, Any]) -> Parameters:
    stop = fields.get("stop", ())
    SamplingParams(stop=stop)  # limits their number and length
    rest = {name: value for name, value in fields.items() if name not in ("stop", "ctx")}
    return Parameters(params=SamplingParams(**rest), stop=stop, ctx=fields.get("ctx"))


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _wrong(one: RawParameter, reason: str) -> InvalidParameter:
    where = f"{one.where}: " if one.where else ""
    return InvalidParameter(f"{where}the parameter {one.name[:60]} {reason}", param=one.name[:60])
