"""Errors for rejected parts of a request, and the notation of their paths."""

from __future__ import annotations

import re

from localllm.errors import InvalidParameter, clipped

_PLAIN = re.compile(r"[\w$-]+")


class Unsupported(InvalidParameter):
    """A keyword that no grammar can express. What the schema asks for has a meaning."""


class NeverValid(InvalidParameter):
    """Keywords that contradict each other: no document matches the schema, so it is as good as `false`."""


def under(path: str, *steps: str | int) -> str:
    """The path of a member: `a.b`, `a[0]`, `a["x y"]`."""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN.fullmatch(step) and len(step) <= 80:
            path += f".{step}"
        else:
            path += f'["{clipped(step, 80)}"]'
    return path


def refused(path: str, why: str) -> InvalidParameter:
    """An error about the value at this path: `<path> <why>`."""
    return InvalidParameter(f"{path} {why}", param=path)


def unsupported(path: str, remedy: str) -> InvalidParameter:
    """An error about a keyword that cannot be enforced; `remedy` says what to write instead."""
    return Unsupported(f"{path} is not supported: {remedy}", param=path)


def impossible(path: str, why: str) -> InvalidParameter:
    """An error about a keyword that, with those beside it, allows nothing."""
    return NeverValid(f"{path} {why}", param=path)
