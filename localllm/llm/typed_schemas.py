"""The JSON Schema of a Python type that msgspec understands; `msgspec.convert` accepts every document it allows.

`msgspec.json.schema` is looser: it does not constrain naive datetimes, int keys of a dict or base64, so it allows
documents that msgspec then refuses. Extra properties are forbidden, since msgspec would drop them. Knows nothing about
pydantic or grammars.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import inspect

from localllm.errors import InvalidParameter

Schema = dict[str, Any]

BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
DECIMAL = r"^-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?$"
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
_DAY = "(?:0[1-9]|1[0-9]|2[0-8])"
"""A day that every month has."""
NAIVE_TIME = f"^{_CLOCK}$"
NAIVE_DATETIME = (
    f"^[12][0-9]{{3}}-(?:(?:0[1-9]|1[0-2])-{_DAY}|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T{_CLOCK}$"
)
_SECONDS = "[0-9]{1,9}(?:\\.[0-9]{1,6})?S"
DURATION = (
    "^-?P(?:[0-9]{1,6}D(?:T[0-9]{1,4}H)?|T(?:[0-9]{1,4}H(?:[0-9]{1,4}M)?|[0-9]{1,4}M)?"
    f"(?:{_SECONDS})|T[0-9]{{1,4}}[HM])$"
)
"""ISO 8601 without years and months, which have no fixed length."""
INTEGER_KEY = "^(?:0|-?[1-9][0-9]{0,17})$"

_PLAIN: dict[type[inspect.Type], Schema] = {
    inspect.AnyType: {},
    inspect.RawType: {},
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.DateType: {"type": "string", "format": "date"},
    inspect.UUIDType: {"type": "string", "format": "uuid"},
    inspect.DecimalType: {"type": "string", "pattern": DECIMAL},
    inspect.TimeDeltaType: {"type": "string", "pattern": DURATION},
}
_BOUNDS = {
    "gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum", "multiple_of": "multipleOf",
}  # fmt: skip


def schema_of(kind: Any) -> Schema:
    """The schema of a Struct, dataclass, TypedDict, NamedTuple or attrs class, or of a type composed of these.

    Raises `InvalidParameter` for types that msgspec does not know or JSON Schema cannot express.
    """
    try:
        info = inspect.type_info(kind)
    except (TypeError, NameError) as error:  # NameError: an unresolved annotation
        raise _refused(kind, str(error)) from error
    builder = _Builder(kind)
    found = builder.schema(info)
    return {**found, "$defs": builder.definitions} if builder.definitions else found


def _refused(kind: Any, why: str) -> InvalidParameter:
    return InvalidParameter(f"schema: {_name(kind)} has no JSON form: {why}", param="schema")


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else repr(kind)


class _Builder:
    """Puts classes into `$defs`, since they may be recursive."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._names: dict[type, str] = {}
        self.definitions: dict[str, Schema] = {}

    def schema(self, info: inspect.Type) -> Schema:
        match info:
            case inspect.Metadata():
                return {**self.schema(info.type), **(info.extra_json_schema or {})}
            case inspect.IntType() | inspect.FloatType():
                kind = "integer" if isinstance(info, inspect.IntType) else "number"
                return {"type": kind, **_without_none({name: getattr(info, key) for key, name in _BOUNDS.items()})}
            case inspect.StrType():
                return {"type": "string", **_lengths(info, "Length"), **_without_none({"pattern": info.pattern})}
            case inspect.BytesType() | inspect.ByteArrayType() | inspect.MemoryViewType():
                if _lengths(info, "Length"):
                    raise self._inexpressible("the length of bytes, which are base64 in JSON")
                return {"type": "string", "pattern": BASE64}
            case inspect.DateTimeType():
                naive = {"type": "string", "pattern": NAIVE_DATETIME}
                return naive if info.tz is False else {"type": "string", "format": "date-time"}
            case inspect.TimeType():
                naive = {"type": "string", "pattern": NAIVE_TIME}
                return naive if info.tz is False else {"type": "string", "format": "time"}
            case inspect.LiteralType():
                return {"enum": list(info.values)}
            case inspect.EnumType():
                return {"enum": [member.value for member in info.cls]}
            case inspect.UnionType():
                return {"anyOf": [self.schema(one) for one in info.types]}
            case inspect.DictType():
                return self._mapping(info)
            case inspect.CollectionType():
                return self._collection(info)
            case inspect.TupleType():
                return _array([self.schema(one) for one in info.item_types], len(info.item_types))
            case _ if type(info) in _PLAIN:
                return dict(_PLAIN[type(info)])
        return self._named(info)

    def _collection(self, info: inspect.CollectionType) -> Schema:
        found = {"type": "array", "items": self.schema(info.item_type), **_lengths(info, "Items")}
        if isinstance(info, inspect.SetType | inspect.FrozenSetType) and (info.min_length or 0) > 1:
            # Without a minimum length duplicates do no harm: parsing the set merges them.
            found["uniqueItems"] = True
        return found

    def _mapping(self, info: inspect.DictType) -> Schema:
        key, value = info.key_type, self.schema(info.value_type)
        found: Schema = {"type": "object", **_lengths(info, "Properties")}
        while isinstance(key, inspect.Metadata):
            key = key.type
        if isinstance(key, inspect.LiteralType | inspect.EnumType):
            keys = key.values if isinstance(key, inspect.LiteralType) else [each.value for each in key.cls]
            return {**found, "properties": {str(name): value for name in keys}, "additionalProperties": False}
        if isinstance(key, inspect.AnyType) or key == inspect.StrType():
            return {**found, "additionalProperties": value}
        if key == inspect.IntType():
            return {**found, "patternProperties": {INTEGER_KEY: value}, "additionalProperties": False}
        if isinstance(key, inspect.StrType) and key.pattern is not None and not _lengths(key, ""):
            return {**found, "patternProperties": {key.pattern: value}, "additionalProperties": False}
        raise self._inexpressible("keys of this type; use str, int, an Enum or a Literal")

    def _named(self, info: inspect.Type) -> Schema:
        fields: Iterable[inspect.Field]
        match info:
            case inspect.StructType() | inspect.TypedDictType() | inspect.DataclassType() | inspect.NamedTupleType():
                kind, fields = info.cls, info.fields
            case inspect.CustomType():
                raise self._inexpressible(
                    f"{_name(info.cls)}, which msgspec does not know; try a pydantic.TypeAdapter of it"
                )
            case _:
                raise self._inexpressible(f"{type(info).__name__.removesuffix('Type')} values")
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = self._free_name(kind)
            self.definitions[name] = {}  # a placeholder, in case a field refers to this class
            is_array = isinstance(info, inspect.NamedTupleType) or getattr(info, "array_like", False)
            self.definitions[name] = (self._row if is_array else self._object)(info, tuple(fields))
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, info: inspect.Type, fields: tuple[inspect.Field, ...]) -> Schema:
        tag = _tag(info)
        properties = {} if tag is None else {info.tag_field: tag}  # type: ignore[attr-defined]  # a struct has one
        properties.update({field.encode_name: self.schema(field.type) for field in fields})
        required = [*properties][: tag is not None] + [field.encode_name for field in fields if field.required]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def _row(self, info: inspect.Type, fields: tuple[inspect.Field, ...]) -> Schema:
        tag = _tag(info)
        first = [] if tag is None else [tag]
        num_required = len(first) + sum(field.required for field in fields)
        return _array(first + [self.schema(field.type) for field in fields], num_required)

    def _free_name(self, kind: type) -> str:
        name, number = kind.__name__, 1
        while name in self.definitions:
            number += 1
            name = f"{kind.__name__}_{number}"
        return name

    def _inexpressible(self, what: str) -> InvalidParameter:
        return _refused(self._kind, f"JSON Schema cannot express {what}")


def _tag(info: inspect.Type) -> Schema | None:
    tag = getattr(info, "tag", None)
    return None if tag is None else {"const": tag}


def _array(items: list[Schema], num_required: int) -> Schema:
    return {
        "type": "array", "prefixItems": items, "items": False, "minItems": num_required, "maxItems": len(items),
    }  # fmt: skip


def _lengths(info: Any, what: str) -> Schema:
    return _without_none({f"min{what}": info.min_length, f"max{what}": info.max_length})


def _without_none(fields: dict[str, Any]) -> Schema:
    return {name: value for name, value in fields.items() if value is not None}
