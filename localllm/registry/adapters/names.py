"""How adapters are written: on the command line, and as part of a model's name.

    [NAME=]FILE[:SCALE]        a file, with the name that it gets (else the file's) and its strength (else 1)
    BASE+NAME[:SCALE]+...      a model under adapters that were added to it

Knows nothing of disks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from localllm.errors import InvalidParameter, clipped
from localllm.registry.names.model_names import looks_like_path
from localllm.system.windows_names import is_device
from localllm.types.headers.adapters import MAX_SCALE

MAX_NAME_CHARS = 64
MAX_TOGETHER = 16
"""Adapters in one name."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,4}(\.[0-9]{1,6})?", re.ASCII)


class NamedAdapter(NamedTuple):
    """An adapter by name."""

    name: str
    scale: float | None
    """None: the one that it was added with."""


class GivenAdapter(NamedTuple):
    """An adapter's file."""

    name: str
    path: Path
    scale: float


def checked_name(name: str) -> str:
    """Raises `InvalidParameter` for a name that an adapter cannot have."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS or name.endswith((".gguf", ".")) or is_device(name):
        raise InvalidParameter(
            f"{clipped(name)!r} is not a name of an adapter: up to {MAX_NAME_CHARS} lower-case letters, digits, . _ -",
            param="name",
        )
    return name


def composed(name: str) -> tuple[str, tuple[NamedAdapter, ...]] | None:
    """The base and its adapters, for a name of the form BASE+NAME[:SCALE]; None: it has another form.

    Raises `InvalidParameter` for a scale out of range, or too many adapters.
    """
    base, *rest = name.split("+")
    parts = [_named(each) for each in rest]
    if not base or not parts or looks_like_path(base):
        return None
    if len(parts) > MAX_TOGETHER:
        raise InvalidParameter(f"{len(parts)} adapters in one name; at most {MAX_TOGETHER} are applied", param="model")
    known = tuple(each for each in parts if each is not None)
    return (base, known) if len(known) == len(parts) else None


def parse_named(text: str) -> NamedAdapter:
    """Reads NAME[:SCALE]. Raises `InvalidParameter`."""
    found = _named(text)
    if found is None:
        raise InvalidParameter(f"{clipped(text)!r} is not of the form NAME[:SCALE]", param="adapters")
    return found


def spelled(name: str, scale: float) -> str:
    """NAME:SCALE."""
    return f"{name}:{f'{scale:.6f}'.rstrip('0').rstrip('.')}"


def parse_given(text: str) -> GivenAdapter:
    """Reads [NAME=]FILE[:SCALE]. Raises `InvalidParameter`."""
    name, equals, rest = text.partition("=")
    if not equals or looks_like_path(name):
        name, rest = "", text
    file, colon, scale = rest.rpartition(":")
    if not colon or not _NUMBER.fullmatch(scale):
        file, scale = rest, "1"
    if not file:
        raise InvalidParameter(f"{clipped(text)!r} names no file; write [NAME=]FILE[:SCALE]", param="lora")
    return GivenAdapter(checked_name(name or name_of(Path(file))), Path(file).expanduser(), checked_scale(scale))


def parse_all_given(text: str | None) -> Sequence[GivenAdapter]:
    """Several, separated by commas. Raises `InvalidParameter`."""
    found = [parse_given(part.strip()) for part in (text or "").split(",") if part.strip()]
    if len({each.name for each in found}) < len(found):
        raise InvalidParameter("two adapters have the same name; write NAME=FILE", param="lora")
    return found


def with_given(model: str, text: str | None) -> str:
    """The name of a model under all adapters that `--lora` gave it. Raises `InvalidParameter`."""
    return "+".join([model, *(each.name for each in parse_all_given(text))])


def name_of(path: Path) -> str:
    """A name made of a file's."""
    stem = path.name.lower().removesuffix(".gguf")
    return re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-._")[:MAX_NAME_CHARS]


def checked_scale(text: str) -> float:
    """Raises `InvalidParameter`."""
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not math.isfinite(scale) or abs(scale) > MAX_SCALE:
        raise InvalidParameter(
            f"the scale of an adapter is a number from -{MAX_SCALE:g} to {MAX_SCALE:g}, not {clipped(text)!r}",
            param="scale",
        )
    return scale


def _named(text: str) -> NamedAdapter | None:
    name, colon, scale = text.partition(":")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS or (colon and not _NUMBER.fullmatch(scale)):
        return None
    return NamedAdapter(name, checked_scale(scale) if colon else None)
