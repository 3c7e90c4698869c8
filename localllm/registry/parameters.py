"""Parameters as Modelfiles and Ollama's `params` layers write them, to ours. One table for both.

Every name is honoured, refused with the remedy, or an error that suggests what was meant. Ollama's names and meanings:
docs/modelfile.mdx and api/types.go (`Options`, `Runner`) of its source. Our own names of `SamplingParams` work as well.
Knows nothing of where the values were read.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter
from localllm.types import SAMPLING_RANGES, SamplingParams

MIN_CTX, MAX_CTX = 8, 2**24
"""As `LoadOptions.ctx` takes it."""
MAX_TEXT_CHARS = 4096
"""Of a number; longer texts are none."""
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
"""How a model is loaded on one machine: the option that says it there, where there is one."""
_NOT_SERVED = {
    "num_keep": "the context is never shifted here, so leave it out",
    "penalize_newline": "line ends count as any other token does, so leave it out",
    "tfs_z": "llama.cpp has dropped it; min_p does its work",
    "draft_num_predict": "draft models are not served yet, so leave it out",
    "logprobs": "it belongs in each request, so leave it out",
    "prompt_logprobs": "it belongs in each request, so leave it out",
}


class Given(NamedTuple):
    """One parameter as it stands somewhere: a text, or the value of a JSON field."""

    name: str
    value: Any
    where: str = ""
    """Begins the error: `line 3`."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What they come to."""

    params: SamplingParams = SamplingParams()
    stop: tuple[str, ...] = ()
    ctx: int | None = None


def collect(given: Iterable[Given]) -> Parameters:
    """All of them together. Raises `InvalidParameter` that begins with `where` and names the parameter."""
    fields: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    for one in given:
        field = _field(one)
        kind = _KINDS[field]
        if kind.repeatable:
            values = one.value if isinstance(one.value, list | tuple) else [one.value]
            lists.setdefault(field, []).extend(_value(one, field, kind, value) for value in values)
        elif field in fields:
            raise _wrong(one, "is given twice; keep one of them")
        else:
            fields[field] = _value(one, field, kind, one.value)
        _try(one, {**fields, **_as_fields(lists)})
    return _build({**fields, **_as_fields(lists)})


def collect_usable(values: Mapping[str, Any]) -> tuple[Parameters, tuple[str, ...]]:
    """Those that can be honoured, and a sentence about each that cannot: for files that others wrote."""
    usable: list[Given] = []
    notices: list[str] = []
    for name, value in values.items():
        try:
            collect([*usable, Given(str(name)[:100], value)])
        except InvalidParameter as error:
            notices.append(error.message)
        else:
            usable.append(Given(name, value))
    if len(notices) > MAX_NOTICES:
        notices[MAX_NOTICES:] = [f"{len(notices) - MAX_NOTICES} more parameters cannot be used"]
    return collect(usable), tuple(notices)


def lines_of(parameters: Parameters) -> list[tuple[str, str]]:
    """(name, value) of each, which `collect` reads back to the same: Ollama's names where it has one."""
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
    """Field -> how its text is read; numbers are told by the types of `SamplingParams`."""
    kinds = {
        "ctx": _Kind(int),
        "ignore_eos": _Kind(bool),
        "stop": _Kind(str, True),
        "dry_sequence_breakers": _Kind(str, True),
        "stop_token_ids": _Kind(int, True),
        "logit_bias": _Kind(tuple, True),
    }
    hints = typing.get_type_hints(SamplingParams)
    for name in SAMPLING_RANGES:
        hint = hints[name]
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        kinds[name] = _Kind(float if float in options else int)
    return kinds


_KINDS = _kinds()


def _field(one: Given) -> str:
    if one.name in _OF_A_MACHINE:
        option = _OF_A_MACHINE[one.name]
        remedy = f"say {option} when it is run or served" if option else "it is chosen when the model is loaded"
        raise _wrong(one, f"is for one machine, not for a model: leave it out, {remedy}")
    if one.name in _NOT_SERVED:
        raise _wrong(one, f"is not taken: {_NOT_SERVED[one.name]}")
    field = _OURS.get(one.name, one.name)
    if field not in _KINDS:
        known = [*_KINDS, *_OURS]
        close = difflib.get_close_matches(one.name, known, n=2) or ["temperature", "num_ctx", "stop"]
        raise _wrong(one, f"is not a parameter; similar ones are {' and '.join(close)}")
    return field


def _value(one: Given, field: str, kind: _Kind, value: Any) -> Any:
    """The value in its type; where Ollama has a number for "none", None."""
    if kind.type is str:
        if not isinstance(value, str):
            raise _wrong(one, f"must be a text, not {_shown(value)}")
        return value
    if kind.type is tuple:
        token, _, bias = str(value)[:MAX_TEXT_CHARS].partition(":")
        return (int(_number(one, token, whole=True)), _number(one, bias, whole=False))
    if kind.type is bool:
        text = str(value).strip().lower()
        if text not in ("true", "false", "1", "0"):
            raise _wrong(one, f"is true or false, not {_shown(value)}")
        return text in ("true", "1")
    number = _number(one, value, whole=kind.type is int)
    if (one.name == "num_predict" and number in (-2, -1, 0)) or (field in ("max_tokens", "seed") and number == -1):
        return None  # no limit, no fixed seed
    if field == "max_tokens" and number == 0:
        raise _wrong(one, "is 0, and the model would never answer; leave it out")
    if field == "ctx" and not MIN_CTX <= number <= MAX_CTX:
        raise _wrong(one, f"is from {MIN_CTX} to {MAX_CTX:,}, not {_shown(value)}")
    return number


def _number(one: Given, value: Any, *, whole: bool) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        if whole and isinstance(value, str | int):  # no float on the way: that has 53 bits, a seed 64
            return int(value[:MAX_TEXT_CHARS] if isinstance(value, str) else value)
        number = float(value[:MAX_TEXT_CHARS] if isinstance(value, str) else value)
        if whole and number != int(number):
            raise ValueError
        return int(number) if whole else number
    except (ValueError, TypeError, OverflowError) as error:
        raise _wrong(one, f"is a {'whole ' if whole else ''}number, not {_shown(value)}") from error


def _as_fields(lists: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: dict(values) if name == "logit_bias" else tuple(values) for name, values in lists.items()}


def _try(one: Given, fields: dict[str, Any]) -> None:
    """Ranges are `SamplingParams`' own; whose fault it is, is known now."""
    try:
        _build(fields)
    except InvalidParameter as error:
        raise _wrong(one, f"cannot be used: {error.message}") from error


def _build(fields: dict[str, Any]) -> Parameters:
    stop = fields.get("stop", ())
    SamplingParams(stop=stop)  # bounds their number and length
    rest = {name: value for name, value in fields.items() if name not in ("stop", "ctx")}
    return Parameters(params=SamplingParams(**rest), stop=stop, ctx=fields.get("ctx"))


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _wrong(one: Given, reason: str) -> InvalidParameter:
    where = f"{one.where}: " if one.where else ""
    return InvalidParameter(f"{where}the parameter {one.name[:60]} {reason}", param=one.name[:60])
