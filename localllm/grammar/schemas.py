"""Checks a JSON Schema."""

from __future__ import annotations

from typing import Any

from localllm.errors import InvalidParameter


def checked(schema: Any, param: str) -> Any:
    """The schema as llguidance takes it. Raises `InvalidParameter` with the path of the keyword."""
    if not isinstance(schema, dict | bool):
        raise InvalidParameter(f"{param} must be a JSON Schema: an object, or true or false", param=param)
    return schema
