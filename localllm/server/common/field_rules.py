"""Request fields are honoured, refused by name, or ignored for a reason; a header names unknown ones.

A request's Struct honours its fields, except those that its `fates` refuse or ignore. `docs/fields.md` lists all three
(see `api_table`). Knows no API.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from localllm.errors import UnsupportedParameter
from localllm.server.common.parse import Fields, parse, small

T = TypeVar("T", bound=msgspec.Struct)


class Refused(NamedTuple):
    """A field that would change the answer but is not supported."""

    why: str
    neutral: tuple[Any, ...] = ()
    """Values besides null that have no effect and are therefore accepted."""


class Fates(NamedTuple):
    """How known but unsupported fields are treated. A Struct declares it as `fates: ClassVar[Fates]`."""

    refused: Mapping[str, Refused] = {}
    ignored: Mapping[str, str] = {}
    """Field -> why it has no effect."""

    def check(self, given: Fields, path: str = "") -> None:
        """Raise `UnsupportedParameter` for the first refused field that has an effect, with `path` as prefix."""
        for name, raw in given.items():
            refused = self.refused.get(name)
            if refused is None:
                continue
            value = small(raw)  # values without effect are short
            if value is None or any(_is_same(value, neutral) for neutral in refused.neutral):
                continue
            instead = f" or send {json.dumps(refused.neutral[0])}" if refused.neutral else ""
            where = f"{path}{name}"
            raise UnsupportedParameter(f"{where} is not supported: {refused.why}; leave it out{instead}", param=where)


def fates_of(kind: type[msgspec.Struct]) -> Fates:
    """The `fates` that a Struct declares."""
    fates: Fates = getattr(kind, "fates", Fates())
    return fates


def honoured(kind: type[msgspec.Struct]) -> list[str]:
    """The honoured fields, in the Struct's order, named as in JSON."""
    fates = fates_of(kind)
    return [name for name in kind.__struct_encode_fields__ if name not in fates.refused and name not in fates.ignored]


def unknown_fields(given: Iterable[str], kind: type[msgspec.Struct], path: str = "") -> list[str]:
    """The unknown fields, each with `path` as prefix."""
    fates = fates_of(kind)
    return [
        f"{path}{name}" for name in sorted({*given} - {*kind.__struct_encode_fields__, *fates.refused, *fates.ignored})
    ]


def parse_known(body: bytes, kind: type[T]) -> tuple[Fields, T, list[str]]:
    """The given JSON, the same typed, and its unknown fields.

    Raises `InvalidParameter`, `UnsupportedParameter`.
    """
    given, request = parse(body, kind, fates_of(kind).check)
    return given, request, unknown_fields(given, kind)


def _is_same(value: Any, neutral: Any) -> bool:
    """`False == 0` in Python, but `logprobs: 0` is not `logprobs: false`."""
    return bool(value == neutral) and isinstance(value, bool) == isinstance(neutral, bool)
