"""How adapters are written: on the command line, and as part of a model's name.

    [NAME=]FILE[:SCALE][:FIRST-LAST]    a file, with the name that it gets (else the file's) and its strength (else 1)
    BASE+NAME[:SCALE][:FIRST-LAST]+...  a model under adapters that were added to it

FIRST-LAST are the only layers that a control vector changes. Knows nothing of disks.
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
from localllm.types.headers.adapters import MAX_SCALE, AdapterInfo, Layers

MAX_NAME_CHARS = 64
MAX_TOGETHER = 16
"""Adapters in one name."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,4}(\.[0-9]{1,6})?", re.ASCII)
_LAYERS = re.compile(r"([1-9][0-9]{0,4})-([1-9][0-9]{0,4})", re.ASCII)


class NamedAdapter(NamedTuple):
    """An adapter by name."""

    name: str
    scale: float | None
    """None: the one that it was added with."""
    layers: Layers | None = None
    """The same."""


class GivenAdapter(NamedTuple):
    """An adapter's file."""

    name: str
    path: Path
    scale: float
    layers: Layers | None = None
    """None: all."""
    must_steer: bool = False
    """Whether it is to be a control vector."""

    def check(self, info: AdapterInfo) -> None:
        """Raises `InvalidParameter` for a file of the other kind."""
        if self.must_steer and not info.num_layers:
            raise InvalidParameter(
                f"{self.path} is a LoRA adapter, not a control vector; give it with --lora", param="control_vector"
            )


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
    """Reads NAME[:SCALE][:FIRST-LAST]. Raises `InvalidParameter`."""
    found = _named(text)
    if found is None:
        raise InvalidParameter(f"{clipped(text)!r} is not of the form NAME[:SCALE][:FIRST-LAST]", param="adapters")
    return found


def spelled(name: str, scale: float, layers: Layers | None = None) -> str:
    """NAME:SCALE[:FIRST-LAST]."""
    return f"{name}:{f'{scale:.6f}'.rstrip('0').rstrip('.')}" + ("" if layers is None else f":{layers}")


def parse_given(text: str) -> GivenAdapter:
    """Reads [NAME=]FILE[:SCALE][:FIRST-LAST]. Raises `InvalidParameter`."""
    name, equals, rest = text.partition("=")
    if not equals or looks_like_path(name):
        name, rest = "", text
    rest, layers = _without_layers(rest)
    file, colon, scale = rest.rpartition(":")
    if not colon or not _NUMBER.fullmatch(scale):
        file, scale = rest, "1"
    if not file:
        raise InvalidParameter(f"{clipped(text)!r} names no file; write [NAME=]FILE[:SCALE][:FIRST-LAST]", param="lora")
    named, path = checked_name(name or name_of(Path(file))), Path(file).expanduser()
    return GivenAdapter(named, path, checked_scale(scale), layers)


def parse_all_given(lora: str | None, control_vector: str | None) -> Sequence[GivenAdapter]:
    """Those of two options, each with several, separated by commas. Raises `InvalidParameter`."""
    found = [parse_given(each) for each in _parts(lora)]
    found += [parse_given(each)._replace(must_steer=True) for each in _parts(control_vector)]
    if len({each.name for each in found}) < len(found):
        raise InvalidParameter("two adapters have the same name; write NAME=FILE", param="lora")
    return found


def with_given(model: str, lora: str | None, control_vector: str | None) -> str:
    """The name of a model under all adapters that these options gave it. Raises `InvalidParameter`."""
    return "+".join([model, *(each.name for each in parse_all_given(lora, control_vector))])


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


def checked_layers(text: str) -> Layers:
    """Reads FIRST-LAST. Raises `InvalidParameter`."""
    found = _LAYERS.fullmatch(text)
    if found is None:
        raise InvalidParameter(f"{clipped(text)!r} is not FIRST-LAST, such as 10-20", param="layers")
    return Layers(int(found[1]), int(found[2]))


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _without_layers(text: str) -> tuple[str, Layers | None]:
    """What stands before :FIRST-LAST, and these."""
    before, colon, layers = text.rpartition(":")
    return (before, checked_layers(layers)) if colon and _LAYERS.fullmatch(layers) else (text, None)


def _named(text: str) -> NamedAdapter | None:
    text, layers = _without_layers(text)
    name, colon, scale = text.partition(":")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS or (colon and not _NUMBER.fullmatch(scale)):
        return None
    return NamedAdapter(name, checked_scale(scale) if colon else None, layers)
