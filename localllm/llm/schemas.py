"""What `schema=` accepts, and how an answer is parsed into a value. Knows nothing about requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import GenericAlias, UnionType
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from localllm.errors import InvalidParameter
from localllm.llm import pydantic_schemas, typed_schemas
from localllm.llm.templates import Template
from localllm.types import Structure

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Adapter(Protocol[T_co]):
    """The part of `pydantic.TypeAdapter` that is used."""

    def validate_json(self, data: str, /) -> T_co: ...


SchemaLike = Mapping[str, Any] | str | bytes | Structure | Template | GenericAlias | UnionType | Adapter[Any]
"""A JSON Schema, as a dict or JSON text; another `Structure`; a `Template`; an adapter; or a type that `type[T]` does
not cover."""


class SchemaShape(Generic[T]):
    """The structure of an answer, and the type it is parsed into."""

    def __init__(self, structure: Structure, kind: Any = None) -> None:
        """`kind`: the type to parse into; None: the JSON value, or the text if the structure is not JSON."""
        self.structure = structure
        self._kind = kind

    def read(self, text: str) -> T:
        """Parse an answer. Raises `json.JSONDecodeError` for a partial one, a `ValidationError` for a wrong one."""
        # json, since msgspec's decoder refuses lone surrogates and numbers beyond the range of a float.
        value: Any = json.loads(text) if self.structure.kind in ("json_object", "json_schema") else text
        if self._kind is not None and pydantic_schemas.is_pydantic(self._kind):
            value = pydantic_schemas.adapter(self._kind).validate_json(text)
        elif self._kind is not None:
            value = msgspec.convert(value, self._kind, str_keys=True)
        return value  # type: ignore[no-any-return]


class TemplateShape(SchemaShape[dict[str, Any]]):
    """That of a template, parsed into a dict."""

    def __init__(self, template: Template) -> None:
        super().__init__(template.structure)
        self._template = template

    def read(self, text: str) -> dict[str, Any]:
        return self._template.read(text)


def to_shape(schema: object) -> SchemaShape[Any] | None:
    """The shape of an answer with this schema. Keywords that no grammar can enforce are refused later, by the grammar
    compiler. Raises `InvalidParameter`."""
    if schema is None:
        return None
    if isinstance(schema, Structure):
        return SchemaShape(msgspec.structs.replace(schema, param="schema"))
    if isinstance(schema, Template):
        return TemplateShape(schema)
    if isinstance(schema, str | bytes):
        return SchemaShape(_structure(_source(schema)))
    if isinstance(schema, Mapping):
        return SchemaShape(_structure(_written(schema)))
    if pydantic_schemas.is_pydantic(schema):
        try:
            found = pydantic_schemas.schema_of(schema)
        except Exception as error:  # several kinds of pydantic's own: the type, or one it refers to, has no JSON Schema
            raise InvalidParameter(f"schema: {schema!r} has no JSON Schema: {error}", param="schema") from error
        return SchemaShape(_structure(_written(found)), schema)
    return SchemaShape(_structure(_written(typed_schemas.schema_of(schema))), schema)


def _structure(source: str) -> Structure:
    return Structure(kind="json_schema", source=source, param="schema")


def _source(text: str | bytes) -> str:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidParameter(f"schema is a string but not JSON: {error}", param="schema") from error
    if not isinstance(found, dict | bool):
        raise InvalidParameter("schema is JSON but not a JSON Schema, which is an object", param="schema")
    return text if isinstance(text, str) else text.decode()


def _written(schema: Mapping[str, Any]) -> str:
    """As JSON text, in the order of its keys: documents have their properties in that order."""
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameter(f"schema cannot be written as JSON: {error}", param="schema") from error


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
