"""Request fields for structured answers, under the names of several servers, converted to one `Structure`.

OpenAI's `response_format` (as `text.format` in the Responses API), llama-server's `json_schema` and `grammar`, vLLM's
`guided_*`, `structural_tag` and `structured_outputs`. A schema stays the client's JSON, so that its
properties keep their order. Knows nothing of a schema's content, or of whether a grammar can be built from it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.requests.field_rules import Fates, Nested
from localllm.server.requests.sampling import SamplingFields
from localllm.server.requests.values import ListField, exclusive, missing
from localllm.types.structures import Structure, StructureKind, Whitespace

_OBJECT_OR_TEXT: dict[str, Any] = {"type": ["object", "boolean", "string", "null"]}
SchemaField = Annotated[Raw, Meta(extra_json_schema={"type": ["object", "boolean", "null"]})]
"""A JSON schema as sent."""
SchemaOrText = Annotated[Raw, Meta(extra_json_schema=_OBJECT_OR_TEXT)]
"""The same, or a string that contains one: clients send both under vLLM's names."""

FormatType = Literal["text", "json_object", "json_schema", "regex", "choice", "lark", "grammar", "structural_tag"]

_FIELDS_OF: dict[str, frozenset[str]] = {
    "text": frozenset(),
    "json_object": frozenset({"schema", "whitespace", "close_at_limit"}),
    "json_schema": frozenset(
        {"json_schema", "schema", "name", "description", "strict", "whitespace", "close_at_limit"}
    ),
    "regex": frozenset({"regex"}),
    "choice": frozenset({"choice"}),
    "lark": frozenset({"lark"}),
    "grammar": frozenset({"grammar"}),
    "structural_tag": frozenset({"structures", "triggers", "format"}),
}
"""The fields of a format that depend on its type."""


TELLING = Fates(ignored=dict.fromkeys(("description", "name"), "the schema is enforced, but not shown to the model"))
"""Fields of a schema that would only inform the model."""


class JsonSchema(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's wrapper of a schema. `strict: false` enforces what can be; otherwise a schema is enforced in full."""

    fates: ClassVar[Fates] = TELLING

    name: str | None = None
    description: str | None = None
    schema: SchemaField | UnsetType = UNSET
    """Absent or `{}`: any object."""
    strict: bool | None = None
    whitespace: Whitespace | None = None
    close_at_limit: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's types, and others as extensions. llama-server and the Responses API put `schema` beside the type."""

    fates: ClassVar[Fates] = TELLING
    nested: ClassVar[Nested] = ("json_schema",)

    type: FormatType
    json_schema: JsonSchema | None = None
    schema: SchemaField | UnsetType = UNSET
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    lark: str | None = None
    grammar: str | None = None
    """llama.cpp's GBNF."""
    structures: ListField | UnsetType = UNSET
    triggers: ListField | UnsetType = UNSET
    format: Annotated[Raw, Meta(extra_json_schema={"type": ["object", "null"]})] | UnsetType = UNSET
    whitespace: Whitespace | None = None
    """Extension: `compact` (the default), `minimal` or `pretty`."""
    close_at_limit: bool | None = None
    """Extension: whether a document that its limit would cut off is closed before, with the shortest values. If true,
    its finish reason is then `stop`; if only the settings say so, `length`."""

    def given(self) -> dict[str, Any]:
        """The fields that are set, for the reply."""
        return {name: value for name in self.__struct_fields__ if is_given(value := getattr(self, name))}

    def structure(self, path: str) -> Structure | None:
        """None for plain text. `path`: of this format. Raises `InvalidParameter`."""
        for name in self.__struct_fields__[1:]:
            if name not in _FIELDS_OF[self.type] and is_given(getattr(self, name)):
                where = f"{path}.{name}"
                raise InvalidParameter(f"{where} cannot be combined with type {self.type!r}; leave it out", param=where)
        if self.type == "text":
            return None
        if self.type in ("json_object", "json_schema"):
            return self._json(path)
        if self.type == "structural_tag":
            return self._structural_tag(path)
        where = f"{path}.{self.type}"
        source = getattr(self, self.type)
        if not source:
            raise missing(where)
        if self.type == "choice":
            return _choice(source, where)
        kind: StructureKind = "gbnf" if self.type == "grammar" else self.type
        return Structure(kind=kind, source=source, param=where)

    def _json(self, path: str) -> Structure:
        wrapper = self.json_schema
        if wrapper is not None and is_given(self.schema):
            where = f"{path}.schema"
            raise exclusive(where, f"{path}.json_schema", param=where)
        if self.type == "json_schema" and wrapper is None and not is_given(self.schema):
            raise missing(f"{path}.json_schema")
        schema, where = self.schema, f"{path}.schema"
        if wrapper is not None:
            schema, where = wrapper.schema, f"{path}.json_schema.schema"
        whitespace = self.whitespace or (wrapper and wrapper.whitespace) or "compact"
        found = _json(schema, where) or Structure(kind="json_object", param=path)
        closes = self.close_at_limit if wrapper is None or self.close_at_limit is not None else wrapper.close_at_limit
        found = msgspec.structs.replace(found, whitespace=whitespace, close_at_limit=closes)
        strict = self.strict if wrapper is None else wrapper.strict
        is_loose = strict is False and found.kind == "json_schema"
        return msgspec.structs.replace(found, is_strict=False) if is_loose else found

    def _structural_tag(self, path: str) -> Structure:
        parts = {
            name: raw
            for name in ("structures", "triggers", "format")
            if isinstance(raw := getattr(self, name), Raw) and is_given(raw)
        }
        for name, raw in parts.items():
            if bytes(raw).lstrip()[:1] != (b"{" if name == "format" else b"["):
                where, kind = f"{path}.{name}", "object" if name == "format" else "array"
                raise InvalidParameter(f"{where} must be an {kind}", param=where)
        if not parts:
            where = f"{path}.format"
            raise InvalidParameter(f"{where} is missing (or structures and triggers)", param=where)
        source = msgspec.json.encode({"type": self.type, **parts})
        return Structure(kind="structural_tag", source=_decoded(source, path), param=path)


class StructuredOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """vLLM's: exactly one of the first six fields."""

    json: SchemaOrText | UnsetType = UNSET
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    """GBNF or Lark."""
    json_object: bool | None = None
    structural_tag: Annotated[Raw, Meta(extra_json_schema={"type": ["object", "string", "null"]})] | UnsetType = UNSET
    whitespace_pattern: str | None = None
    disable_any_whitespace: bool | None = None
    """True: minimal whitespace. Mutually exclusive with a pattern."""
    disable_additional_properties: bool | None = None

    def structure(self, path: str) -> Structure:
        """Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.disable_additional_properties:
            where = f"{path}.disable_additional_properties"
            raise UnsupportedParameter(
                f"{where} is not supported; write additionalProperties: false into the schema", param=where
            )
        if self.disable_any_whitespace and self.whitespace_pattern:
            where = f"{path}.whitespace_pattern"
            raise InvalidParameter(f"{where} and {path}.disable_any_whitespace are mutually exclusive", param=where)
        asked = _under_vllms_names(
            {
                f"{path}.json": self.json,
                f"{path}.regex": self.regex,
                f"{path}.choice": self.choice,
                f"{path}.grammar": self.grammar,
                f"{path}.structural_tag": self.structural_tag,
            }
        )
        if self.json_object:
            where = f"{path}.json_object"
            asked.append(RequestedStructure(where, Structure(kind="json_object", param=where)))
        structure = only(asked)
        if structure is None:
            raise InvalidParameter(
                f"{path} is empty; it takes one of json, regex, choice, grammar, json_object, structural_tag",
                param=path,
            )
        if self.disable_any_whitespace:
            return msgspec.structs.replace(structure, whitespace="minimal")
        return _spaced(structure, self.whitespace_pattern, f"{path}.whitespace_pattern")


class StructureFields(SamplingFields, frozen=True, kw_only=True):
    """Fields of chat and plain completions."""

    nested: ClassVar[Nested] = ("response_format", "structured_outputs")

    response_format: ResponseFormat | None = None
    # Extensions, llama-server's:
    json_schema: SchemaOrText | UnsetType = UNSET
    grammar: str | None = None
    """GBNF."""
    # vLLM's:
    guided_json: SchemaOrText | UnsetType = UNSET
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    """GBNF or Lark."""
    guided_whitespace_pattern: str | None = None
    structural_tag: Annotated[Raw, Meta(extra_json_schema={"type": ["object", "string", "null"]})] | UnsetType = UNSET
    structured_outputs: StructuredOutputs | None = None

    def asked_structures(self) -> list[RequestedStructure]:
        """All requested structures, each with its field. Raises `InvalidParameter`, `UnsupportedParameter`."""
        asked: list[RequestedStructure] = []
        if self.response_format is not None:
            structure = self.response_format.structure("response_format")
            asked += [RequestedStructure("response_format", structure)] if structure is not None else []
        if is_given(self.json_schema):
            structure = _json(self.json_schema, "json_schema", may_be_text=True)
            asked.append(
                RequestedStructure("json_schema", structure or Structure(kind="json_object", param="json_schema"))
            )
        if self.grammar:
            asked.append(RequestedStructure("grammar", Structure(kind="gbnf", source=self.grammar, param="grammar")))
        asked += _under_vllms_names(
            {
                "guided_json": self.guided_json,
                "guided_regex": self.guided_regex,
                "guided_choice": self.guided_choice,
                "guided_grammar": self.guided_grammar,
                "structural_tag": self.structural_tag,
            }
        )
        if self.structured_outputs is not None:
            asked.append(
                RequestedStructure("structured_outputs", self.structured_outputs.structure("structured_outputs"))
            )
        return asked

    def structure(self) -> Structure | None:
        """The structure of the answer; None: free text. Raises `InvalidParameter`, `UnsupportedParameter`."""
        structure, pattern = only(self.asked_structures()), "guided_whitespace_pattern"
        if structure is None and self.guided_whitespace_pattern:
            raise InvalidParameter(f"{pattern} requires a JSON structure", param=pattern)
        return structure and _spaced(structure, self.guided_whitespace_pattern, pattern)


class RequestedStructure(NamedTuple):
    """A structure and the field that requests it."""

    field: str
    structure: Structure


def only(asked: list[RequestedStructure]) -> Structure | None:
    """The requested structure, if any. Raises `InvalidParameter` naming two fields if there are several."""
    if len(asked) > 1:
        first, second, *_ = (each.field for each in asked)
        raise InvalidParameter(f"{first} and {second} each ask for a structure; send one of them", param=second)
    return asked[0].structure if asked else None


def schema_structure(schema: Raw | UnsetType, path: str) -> Structure:
    """The structure of the schema at `path`; absent or `{}` means any object. Raises `InvalidParameter`."""
    return _json(schema, path) or Structure(kind="json_object", param=path)


def _under_vllms_names(given: dict[str, Any]) -> list[RequestedStructure]:
    """`given`: path -> value; the last word of the path is the type."""
    asked: list[RequestedStructure] = []
    for path, value in given.items():
        if not is_given(value) or value in ("", []):
            continue
        word = path.rpartition(".")[2].removeprefix("guided_")
        if word == "json":
            structure = _json(value, path, may_be_text=True) or Structure(kind="json_object", param=path)
        elif word == "choice":
            structure = _choice(value, path)
        elif word == "regex":
            structure = Structure(kind="regex", source=value, param=path)
        elif word == "grammar":  # vLLM accepts both and distinguishes them this way
            structure = Structure(kind="gbnf" if "::=" in value else "lark", source=value, param=path)
        else:
            text = _json_text(value, path, may_be_text=True)
            structure = Structure(kind="structural_tag", source=text, param=path)
        asked.append(RequestedStructure(path, structure))
    return asked


def _json(schema: Raw | UnsetType, path: str, *, may_be_text: bool = False) -> Structure | None:
    """None for an absent or empty schema, which in llama-server means any object."""
    if not isinstance(schema, Raw) or not is_given(schema):
        return None
    text = _json_text(schema, path, may_be_text=may_be_text)
    if text.startswith("{") and not text[1:-1].strip():
        return None
    return Structure(kind="json_schema", source=text, param=path)


def _json_text(value: Raw, path: str, *, may_be_text: bool) -> str:
    """The JSON of an object (or a boolean, which is a schema too) as sent. Raises `InvalidParameter`."""
    text = _decoded(bytes(value), path)
    if may_be_text and text.startswith('"'):
        try:
            text = msgspec.json.decode(text, type=str).strip()
            msgspec.json.decode(text, type=Raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidParameter(f"{path} is a string without valid JSON: {error}", param=path) from error
    if not text.startswith(("{", "true", "false")):
        raise InvalidParameter(f"{path} must be a JSON object", param=path)
    return text


def _decoded(source: bytes, path: str) -> str:
    try:
        return source.decode().strip()
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{path} is not valid UTF-8: {error.reason}", param=path) from error


def _choice(texts: list[str], path: str) -> Structure:
    return Structure(kind="choice", source=msgspec.json.encode(texts).decode(), param=path)


def _spaced(structure: Structure, pattern: str | None, path: str) -> Structure:
    """Applies the client's whitespace pattern. Raises `InvalidParameter` if the structure is not JSON."""
    if not pattern:
        return structure
    if structure.kind not in ("json_object", "json_schema"):
        raise InvalidParameter(f"{path} requires a JSON structure", param=path)
    if not _WHITESPACE.fullmatch(pattern):
        raise InvalidParameter(
            f"{path} must match JSON whitespace only: blanks, \\n, \\t and \\r with [ ] ( ) | * + ? {{}}",
            param=path,
        )
    return msgspec.structs.replace(structure, whitespace_pattern=pattern)


_WHITESPACE = re.compile(r"(?:[ \t\n\r]|\\[ntr]|\\x20|\(\?:|[\[\]()*+?|]|\{[0-9]+(?:,[0-9]*)?\})*")
"""Regular expressions that match only JSON whitespace: these characters, grouped and repeated."""


def is_given(value: Any) -> bool:
    """Whether a field is set (null is not)."""
    if isinstance(value, Raw):
        return bytes(value).strip() != b"null"
    return value is not None and value is not UNSET
