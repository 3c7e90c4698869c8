"""Fields of requests: honoured, refused by name, or ignored for a reason. The rest is nobody's, and named in a header.

A request's Struct honours the fields that it has, but for those that its `fates` refuse or ignore. `API.md` lists all
three (see `api_table`). Knows no API.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from localllm.errors import UnsupportedParameter
from localllm.server.parse import Fields, parse, small

T = TypeVar("T", bound=msgspec.Struct)


class Refused(NamedTuple):
    """A field that would change the answer, and that nothing here does."""

    why: str
    neutral: tuple[Any, ...] = ()
    """The values, besides null, that ask for nothing and are therefore fine."""


class Fates(NamedTuple):
    """What becomes of known fields that are not honoured. A Struct declares it as `fates: ClassVar[Fates]`."""

    refused: Mapping[str, Refused] = {}
    ignored: Mapping[str, str] = {}
    """Field -> why it has no effect."""

    def check(self, given: Fields, path: str = "") -> None:
        """Raise `UnsupportedParameter` for the first field that asks for something refused; `path` is put before it."""
        for name, raw in given.items():
            refused = self.refused.get(name)
            if refused is None:
                continue
            value = small(raw)  # nothing that asks for nothing is long
            if value is None or any(_is_same(value, neutral) for neutral in refused.neutral):
                continue
            instead = f" or send {json.dumps(refused.neutral[0])}" if refused.neutral else ""
            where = f"{path}{name}"
            raise UnsupportedParameter(f"{where} is not supported: {refused.why}; leave it out{instead}", param=where)


def fates_of(kind: type[msgspec.Struct]) -> Fates:
    """Those that it declares."""
    fates: Fates = getattr(kind, "fates", Fates())
    return fates


def honoured(kind: type[msgspec.Struct]) -> list[str]:
    """The fields that have an effect, in the Struct's order, named as in JSON."""
    fates = fates_of(kind)
    return [name for name in kind.__struct_encode_fields__ if name not in fates.refused and name not in fates.ignored]


def unknown_fields(given: Iterable[str], kind: type[msgspec.Struct], path: str = "") -> list[str]:
    """The fields that are nobody's, with `path` before each."""
    fates = fates_of(kind)
    return [
        f"{path}{name}" for name in sorted({*given} - {*kind.__struct_encode_fields__, *fates.refused, *fates.ignored})
    ]


def parse_known(body: bytes, kind: type[T]) -> tuple[Fields, T, list[str]]:
    """What was given, the same typed, and which fields of it are nobody's.

    Raises `InvalidParameter`, `UnsupportedParameter`.
    """
    given, request = parse(body, kind, fates_of(kind).check)
    return given, request, unknown_fields(given, kind)


def _is_same(value: Any, neutral: Any) -> bool:
    """`False == 0` in Python, but `logprobs: 0` is not `logprobs: false`."""
    return bool(value == neutral) and isinstance(value, bool) == isinstance(neutral, bool)
