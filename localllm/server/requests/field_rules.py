"""Request fields are honoured, refused by name, or ignored for a reason; a header names unknown ones.

A request's Struct honours its fields, except those that its `fates` refuse or ignore. `docs/fields.md` lists all three
(see `api_table`). Unknown fields are also named in the objects of its `nested` fields. Knows no API.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from localllm.errors import UnsupportedParameter
from localllm.server.requests.parse import Fields, decoding, parse, small

Nested = tuple[str, ...]
P = TypeVar("P")
Parse = Callable[[bytes], tuple[P, list[str]]]
"""JSON to a request and its unknown fields. Raises `InvalidParameter`, `UnsupportedParameter`."""
T = TypeVar("T", bound=msgspec.Struct)


class RefusedField(NamedTuple):
    """A field that would change the answer but is not supported."""

    why: str
    neutral: tuple[Any, ...] = ()
    """Values besides null that have no effect and are therefore accepted."""


class Fates(NamedTuple):
    """How known but unsupported fields are treated. A Struct declares it as `fates: ClassVar[Fates]`."""

    refused: Mapping[str, RefusedField] = {}
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


def known_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """All fields that are honoured, refused or ignored."""
    fates = fates_of(kind)
    return frozenset((*kind.__struct_encode_fields__, *fates.refused, *fates.ignored))


def unknown_fields(given: Iterable[str], kind: type[msgspec.Struct], path: str = "") -> list[str]:
    """The unknown fields, each with `path` as prefix."""
    return [f"{path}{name}" for name in sorted({*given} - known_fields(kind))]


def unknown_within(given: Sequence[Fields], kind: type[msgspec.Struct], path: str = "") -> Iterator[str]:
    """The unknown fields of objects and of those nested in them, such as `tools[].name`; each once, outer ones first.

    A Struct names the fields to look into as `nested: ClassVar[Nested]`. If what is known depends on the
    object, `known_in(given)` returns the known fields, or None if the object may have any.
    """
    known_in = getattr(kind, "known_in", None)
    if known_in is None:
        yield from unknown_fields(set[str]().union(*given), kind, path)
    else:
        found = ((each, known_in(each)) for each in given)
        unknown = set[str]().union(*(each.keys() - known for each, known in found if known is not None))
        yield from (f"{path}{name}" for name in sorted(unknown))
    for name, inner in _nested(kind).items():
        single: list[Fields] = []
        listed: list[Fields] = []
        for raw in (each[name] for each in given if name in each):
            value = msgspec.json.decode(raw, type=_OBJECTS)
            if isinstance(value, list):
                listed += (item for item in value if isinstance(item, dict))
            elif isinstance(value, dict):
                single.append(value)
        if single:
            yield from unknown_within(single, inner, f"{path}{name}.")
        if listed:
            yield from unknown_within(listed, inner, f"{path}{name}[].")


_OBJECTS = dict[str, msgspec.Raw] | list[dict[str, msgspec.Raw] | str] | str | None
"""A nested field whose type has been checked before."""


@functools.cache
def _nested(kind: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """Field -> type of the objects in it, for the fields that a Struct and its bases call `nested`."""
    names = [name for base in reversed(kind.__mro__) for name in vars(base).get("nested", ())]
    hints = get_type_hints(kind) if names else {}
    return {name: next(_structs(hints[name])) for name in names}


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """The Structs in a type such as `str | list[Struct] | None`."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint):
        yield from _structs(inner)


def parse_known(
    body: bytes, kind: type[T], seen: Callable[[Fields], None] = lambda _: None
) -> tuple[Fields, T, list[str]]:
    """The given JSON, the same typed, and its unknown fields. `seen` gets the former before it is checked.

    Raises `InvalidParameter`, `UnsupportedParameter`.
    """

    def check(given: Fields) -> None:
        seen(given)
        fates_of(kind).check(given)

    given, request = parse(body, kind, check)
    with decoding():  # names of nested fields have not been decoded before
        return given, request, [*unknown_within([given], kind)]


def known(kind: type[T]) -> Parse[T]:
    """Parses a request of this type."""
    return lambda body: parse_known(body, kind)[1:]


def _is_same(value: Any, neutral: Any) -> bool:
    """`False == 0` in Python, but `logprobs: 0` is not `logprobs: false`."""
    return bool(value == neutral) and isinstance(value, bool) == isinstance(neutral, bool)
