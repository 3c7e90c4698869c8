"""Converts a setting's value from a file, a variable or an option to its field's type. Does not know any setting."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, sentence_of
from localllm.types import GpuLayers
from localllm.types.declared import choices_of
from localllm.types.mismatches import mismatch

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]*")


def read_toml(path: Path) -> dict[str, Any]:
    """The content of the file; empty if it does not exist. Raises `InvalidParameter`."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))  # editors of Windows write a byte order mark
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidParameter(sentence_of(error)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidParameter(f"{path} cannot be read: {error}; correct it in an editor") from error


def converted(name: str, kind: Any, value: Any, source: str) -> Any:
    """Converts a value to its field's type; strings (environment, command line) may contain numbers and booleans.

    Raises `InvalidParameter` that begins with `source`.
    """
    try:
        if name in ("gpu_layers", "n_cpu_moe"):
            return parse_layers(value)
        if isinstance(value, Path):
            return value
        return msgspec.convert(value, kind, strict=not isinstance(value, str), dec_hook=_paths)
    except (msgspec.ValidationError, ValueError) as error:
        choices = ", ".join(choices_of(kind))
        reason = f"it {mismatch(error).what}" if isinstance(error, msgspec.ValidationError) else str(error).lower()
        reason = f"it is one of {choices}" if choices else reason
        raise InvalidParameter(f"{source}: {value!r} is not a valid {name} ({reason})", param=name) from error


def parse_layers(value: str | int) -> GpuLayers:
    """`auto`, `all` or a count of zero or more. Raises `ValueError`."""
    if value in ("auto", "all"):
        return value  # type: ignore[return-value]
    if isinstance(value, bool) or not str(value).isdecimal():
        raise ValueError("it takes auto, all or a number of layers")
    return int(value)


def comma_list(text: str | None) -> tuple[str, ...]:
    """The non-empty parts of a comma-separated list, stripped."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def origin_of(text: str) -> str:
    """A web page's origin in browsers' notation. Raises `InvalidParameter`."""
    origin = text if text.endswith("://") else text.rstrip("/")
    if origin not in ("*", "null", "localhost", "apps") and not _ORIGIN.fullmatch(origin):
        raise InvalidParameter(
            f"cors_origins: {text!r} is not an origin; give *, null, localhost, apps, or one like "
            "https://chat.example:8080",
            param="cors_origins",
        )
    return origin


def _paths(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"expected {kind.__name__}")
