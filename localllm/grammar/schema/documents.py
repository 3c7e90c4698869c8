"""Parses JSON in requests: preserves the order of properties, limits nesting, rejects duplicate names."""

from __future__ import annotations

import json
from typing import Any

from localllm.errors import InvalidParameter
from localllm.types.structures import Structure

MAX_DEPTH = 100
"""Maximum nesting; llguidance itself gives up at 128 levels."""


def json_of(structure: Structure) -> Any:
    """The structure's source, parsed. Raises `InvalidParameter`."""
    param = structure.param
    try:
        value = json.loads(structure.source, object_pairs_hook=_unique, parse_constant=_no_constant)
    except _Refused as error:
        raise InvalidParameter(f"{param} is not JSON: {error}", param=param) from None
    except (ValueError, RecursionError):
        raise InvalidParameter(f"{param} is not JSON, or nested too deeply", param=param) from None
    if "\\ud" in structure.source.lower():
        _refuse_half_pairs(value, param)
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidParameter(f"{param} is nested more than {MAX_DEPTH} levels deep", param=param)
        level = [child for one in level if isinstance(one, dict | list) for child in _children(one)]
    return value


def _children(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _refuse_half_pairs(value: Any, param: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidParameter(
            f"{param} has an unpaired surrogate (\\ud800 to \\udfff) in a text", param=param
        ) from None
    except RecursionError:  # nested too deeply, which the caller rejects
        pass


class _Refused(Exception):
    """Raised in a hook of the parser; its text becomes part of the error message."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"an object has the name {twice[:80]!r} twice")
    return found


def _no_constant(name: str) -> Any:
    raise _Refused(f"{name} is not a number in JSON")
