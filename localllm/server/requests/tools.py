"""Tool declarations of several APIs: what the template gets, and what a call must look like.

A function's schema stays the client's JSON. Inward from here, a custom tool is a function with one text argument.
Knows nothing of tool choice, or of how a model writes calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.requests.field_rules import Nested
from localllm.server.requests.parse import fields_of
from localllm.server.requests.structures import SchemaField, is_given, schema_structure
from localllm.server.requests.values import missing
from localllm.types import Function

ToolName = Annotated[str, Meta(min_length=1, max_length=256)]
INPUT = "input"
"""The one argument of a custom tool."""

_TYPE_KEYWORDS = frozenset({"type", "$ref", "allOf", "anyOf", "const", "enum", "oneOf"})
"""Keywords that determine a schema's type; a schema of arguments without any of them gets `"type": "object"`."""
NO_ARGUMENTS = Raw(b'{"type":"object","properties":{}}')


class FunctionTool(msgspec.Struct, frozen=True, kw_only=True):
    """A function declaration."""

    name: ToolName
    description: str | None = None
    parameters: SchemaField | UnsetType = UNSET
    """Absent or `{}`: any object."""
    strict: bool | None = None
    """Whether a schema that cannot be enforced is refused; otherwise it causes a warning."""


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    syntax: str
    """`regex` is enforced; `lark` is only shown to the model."""
    definition: str


class CustomFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`text`, or `grammar` with a grammar in an object of its own (the chat API) or beside the type (Responses)."""

    type: str
    grammar: Grammar | None = None
    syntax: str | None = None
    definition: str | None = None

    def rule(self, path: str) -> Grammar | None:
        """None for any text. Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.type == "text":
            return None
        if self.type != "grammar":
            raise UnsupportedParameter(
                f"{path}.type must be text or grammar, got {clipped(self.type)!r}", param=f"{path}.type"
            )
        found, where = self.grammar, f"{path}.grammar"
        if found is None and self.syntax is not None and self.definition is not None:
            found, where = Grammar(syntax=self.syntax, definition=self.definition), path
        if found is None:
            raise missing(where)
        if found.syntax not in ("regex", "lark"):
            raise UnsupportedParameter(
                f"{where}.syntax must be regex or lark, got {clipped(found.syntax)!r}", param=f"{where}.syntax"
            )
        return found


class CustomTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that takes one text."""

    name: ToolName
    description: str | None = None
    format: CustomFormat | None = None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """`type` is `function` or `custom`."""

    nested: ClassVar[Nested] = ("custom", "function")

    type: str
    function: FunctionTool | None = None
    custom: CustomTool | None = None

    def declared(self, path: str) -> DeclaredTool:
        """Raises `InvalidParameter`, `UnsupportedParameter`; `path`: of the tool."""
        if self.type not in ("function", "custom"):
            raise UnsupportedParameter(
                f"a tool of type {clipped(self.type)!r} is not supported; leave it out, or declare a function",
                param=f"{path}.type",
            )
        where = f"{path}.{self.type}"
        if self.type == "function" and self.function is not None:
            return declared_function(self.function, where)
        if self.type == "custom" and self.custom is not None:
            return declared_custom(self.custom, where)
        raise missing(where)


class DeclaredTool(NamedTuple):
    """One tool."""

    function: Function
    """The structure of its calls."""
    path: str
    """Its path in the request."""
    description: str
    parameters: Raw
    """The JSON Schema shown to the model."""
    is_custom: bool = False
    """Whether its calls are returned as text."""
    note: str = ""
    """Says which part of it is not enforced."""

    @property
    def name(self) -> str:
        return self.function.name

    def told(self) -> dict[str, Any]:
        """The tool for the template, with keys in the order used in training."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def declared_function(tool: FunctionTool, path: str) -> DeclaredTool:
    """Raises `InvalidParameter`."""
    where = f"{path}.parameters"
    schema = _arguments(tool.parameters, where)
    function = Function(name=tool.name, parameters=schema, is_strict=tool.strict is True, param=where)
    parameters = tool.parameters if schema and isinstance(tool.parameters, Raw) else NO_ARGUMENTS
    return DeclaredTool(function, path, tool.description or "", parameters)


def declared_custom(tool: CustomTool, path: str) -> DeclaredTool:
    """Raises `InvalidParameter`, `UnsupportedParameter`."""
    where = f"{path}.format"
    rule = tool.format and tool.format.rule(where)
    description, note, value = tool.description or "", "", {"type": "string"}
    if rule is not None and rule.syntax == "regex":
        value["pattern"] = f"^(?:{rule.definition})$"
    elif rule is not None:
        description = f"{description}\n\nThe input must follow this Lark grammar:\n{rule.definition}".lstrip()
        note = f"{where}: the Lark grammar is shown to the model but not enforced"
    schema = msgspec.json.encode({"type": "object", "properties": {INPUT: value}, "required": [INPUT]})
    function = Function(name=tool.name, parameters=schema.decode(), param=where)
    return DeclaredTool(function, path, description, Raw(schema), is_custom=True, note=note)


def told_tools(declared: Sequence[DeclaredTool]) -> str:
    """The tools as `Rendering.tools`."""
    return msgspec.json.encode([tool.told() for tool in declared]).decode() if declared else ""


def check_names(declared: Sequence[DeclaredTool]) -> None:
    """Raises `InvalidParameter` if two tools have the same name."""
    first: dict[str, str] = {}
    for tool in declared:
        other = first.setdefault(tool.name, tool.path)
        if other != tool.path:
            where = f"{tool.path}.name"
            raise InvalidParameter(f"{where}: {other} is called {clipped(tool.name)!r} too", param=where)


def _arguments(schema: Raw | UnsetType, path: str) -> str:
    """The arguments' schema, always that of an object; absent means any object."""
    structure = schema_structure(schema, path)
    if structure.source in ("true", "false"):
        raise InvalidParameter(f"{path} must be a JSON object", param=path)
    if structure.kind == "json_object" or not is_given(schema):
        return ""
    return of_objects(structure.source)


def of_objects(schema: str) -> str:
    """The schema of arguments, an object in JSON, so that it takes objects only; empty if it takes any object."""
    if schema[1:-1].strip() and _TYPE_KEYWORDS.isdisjoint(fields_of(Raw(schema.encode()))):
        return '{"type":"object",' + schema[1:]
    return schema if schema[1:-1].strip() else ""
