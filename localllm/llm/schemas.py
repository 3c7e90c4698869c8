"""What `schema=` may be, and how an answer of that shape becomes a value. Knows nothing of how it is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import GenericAlias, UnionType
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from localllm.errors import InvalidParameter
from localllm.llm import pydantic_schemas, typed_schemas
from localllm.types import Structure

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Adapter(Protocol[T_co]):
    """As `pydantic.TypeAdapter` is."""

    def validate_json(self, data: str, /) -> T_co: ...


SchemaLike = Mapping[str, Any] | str | bytes | Structure | GenericAlias | UnionType
"""A JSON Schema, as a dict or as JSON; any other structure; or a type that type checkers have no type for."""


class Shape(Generic[T]):
    """What an answer has to be, and how it is read."""

    def __init__(self, structure: Structure, kind: Any = None) -> None:
        """`kind`: the type to read it as; None: the JSON value, or of what is no JSON the text."""
        self.structure = structure
        self._kind = kind

    def read(self, text: str) -> T:
        """Raises `json.JSONDecodeError` for a part of a document, else pydantic's and msgspec's `ValidationError`s."""
        # Of JSON msgspec's own decoder refuses lone surrogates, and numbers beyond a float's range.
        value: Any = json.loads(text) if self.structure.kind in ("json_object", "json_schema") else text
        if self._kind is not None and pydantic_schemas.is_pydantic(self._kind):
            value = pydantic_schemas.adapter(self._kind).validate_json(text)
        elif self._kind is not None:
            value = msgspec.convert(value, self._kind, str_keys=True)
        return value  # type: ignore[no-any-return]


def to_shape(schema: object) -> Shape[Any] | None:
    """Raises `InvalidParameter`; what no grammar can hold an answer to is found out where it is compiled."""
    if schema is None:
        return None
    if isinstance(schema, Structure):
        return Shape(msgspec.structs.replace(schema, param="schema"))
    if isinstance(schema, str | bytes):
        return Shape(_structure(_source(schema)))
    if isinstance(schema, Mapping):
        return Shape(_structure(_written(schema)))
    if pydantic_schemas.is_pydantic(schema):
        try:
            found = pydantic_schemas.schema_of(schema)
        except Exception as error:  # pydantic's own kinds of it: the type has no JSON Schema, or refers to none
            raise InvalidParameter(f"schema: {schema!r} has no JSON Schema: {error}", param="schema") from error
        return Shape(_structure(_written(found)), schema)
    return Shape(_structure(_written(typed_schemas.schema_of(schema))), schema)


def _structure(source: str) -> Structure:
    return Structure(kind="json_schema", source=source, param="schema")


def _source(text: str | bytes) -> str:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidParameter(f"schema is a text, and not JSON: {error}", param="schema") from error
    if not isinstance(found, dict | bool):
        raise InvalidParameter("schema is JSON, but no JSON Schema: that is an object", param="schema")
    return text if isinstance(text, str) else text.decode()


def _written(schema: Mapping[str, Any]) -> str:
    """In the order of its keys, which is the order of the properties in a document."""
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameter(f"schema is a dict that JSON cannot say: {error}", param="schema") from error


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
