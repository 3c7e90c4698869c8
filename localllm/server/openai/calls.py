"""The call that a chat request forces: one of its functions, whose arguments are then the whole answer.

`tool_choice` names it, or is `required` beside a single tool; the older `functions` and `function_call` say the same.
All other use of tools is refused by name. Knows nothing of how a model writes calls by itself.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import replace

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.openai.structures import SchemaField, is_given, schema_structure
from localllm.server.parse import Fields, fields_of
from localllm.structures import Structure
from localllm.types import Message

_FunctionName = Annotated[str, Meta(min_length=1, max_length=256)]
_SAY_THE_TYPE = frozenset({"type", "$ref", "allOf", "anyOf", "const", "enum", "oneOf"})
MAX_TOOLS = 128
"""OpenAI's limit."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """Its arguments are held to the schema in full, whatever `strict` says."""

    name: _FunctionName
    description: str | None = None
    parameters: SchemaField | UnsetType = UNSET
    """Absent or `{}`: any object."""
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    function: Function | None = None


class FunctionName(msgspec.Struct, frozen=True, kw_only=True):
    name: _FunctionName


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Of a function by its name."""

    type: str
    function: FunctionName | None = None


class ForcedCall(NamedTuple):
    """The function that has to be called."""

    function: Function
    structure: Structure
    """Of its arguments."""
    field: str
    """That forces it."""
    is_required: bool = False
    """Some call is asked for, and there is only this one."""
    is_legacy: bool = False
    """Asked for in the words of before there were tools."""

    def told(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The conversation, with what has to be known of the function.

        It stands at the end of the system message, or, since not every template takes one, of the last of the user's.
        """
        by_user = (index for index in reversed(range(len(messages))) if messages[index].role == "user")
        index = 0 if messages[0].is_system else next(by_user, len(messages) - 1)
        told = messages[index]
        text = "\n\n".join(filter(None, [told.content, self._instruction()]))
        return (*messages[:index], replace(told, content=text, parts=()), *messages[index + 1 :])

    def _instruction(self) -> str:
        about = f": {self.function.description}" if self.function.description else ""
        schema = self.structure.source or '{"type":"object"}'
        return (
            f"Answer with a call of the function {self.function.name}{about}\n"
            f"Write only its arguments, as JSON of this schema: {_compact(schema)}"
        )


def forced_call(tools: list[Tool] | None, choice: str | ToolChoice | None) -> ForcedCall | None:
    """None where neither asks for anything. Raises `InvalidParameter`, `UnsupportedParameter`."""
    if not tools:
        if choice in (None, "none", "auto"):
            return None
        raise InvalidParameter("tool_choice needs tools beside it", param="tool_choice")
    if choice in (None, "none", "auto"):
        raise UnsupportedParameter(
            "tools is not supported yet unless a call is forced; leave it out, or name one of them in tool_choice",
            param="tools",
        )
    if len(tools) > MAX_TOOLS:
        raise InvalidParameter(f"tools takes at most {MAX_TOOLS}, got {len(tools)}", param="tools")
    functions = [_function(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    if choice == "required":
        if len(functions) > 1:
            raise UnsupportedParameter(
                "tool_choice required is not supported yet with several tools; name one of them", param="tool_choice"
            )
        return _forced(functions, functions[0].name, "tools[{}].function", "tool_choice")._replace(is_required=True)
    if isinstance(choice, str):
        raise InvalidParameter(
            f"tool_choice must be none, auto, required or name a function, got {clipped(choice)!r}", param="tool_choice"
        )
    if choice.type != "function":  # custom, allowed_tools
        raise UnsupportedParameter(
            f"tool_choice of type {clipped(choice.type)!r} is not supported yet", param="tool_choice.type"
        )
    if choice.function is None:
        raise InvalidParameter("tool_choice.function is missing", param="tool_choice.function")
    return _forced(functions, choice.function.name, "tools[{}].function", "tool_choice")


def forced_function(functions: list[Function] | None, choice: str | FunctionName | None) -> ForcedCall | None:
    """As `forced_call`, in the words of before there were tools."""
    if isinstance(choice, str) and choice not in ("none", "auto"):
        raise InvalidParameter(
            f"function_call must be none, auto or name a function, got {clipped(choice)!r}", param="function_call"
        )
    if not functions:
        if not isinstance(choice, FunctionName):
            return None
        raise InvalidParameter("function_call needs functions beside it", param="function_call")
    if not isinstance(choice, FunctionName):
        raise UnsupportedParameter(
            "functions is not supported yet unless a call is forced; leave it out, or name one in function_call",
            param="functions",
        )
    if len(functions) > MAX_TOOLS:
        raise InvalidParameter(f"functions takes at most {MAX_TOOLS}, got {len(functions)}", param="functions")
    return _forced(functions, choice.name, "functions[{}]", "function_call")._replace(is_legacy=True)


def unknown_in_tools(given: Fields) -> list[str]:
    """The fields of tools and functions that are nobody's. They have been read already."""
    unknown: set[str] = set()
    for tool in _objects(given.get("tools")):
        unknown |= {f"tools[].{name}" for name in tool.keys() - set(Tool.__struct_fields__)}
        function = fields_of(tool.get("function"))
        unknown |= {f"tools[].function.{name}" for name in function.keys() - set(Function.__struct_fields__)}
    for function in _objects(given.get("functions")):
        unknown |= {f"functions[].{name}" for name in function.keys() - set(Function.__struct_fields__)}
    return sorted(unknown)


def _objects(given: Raw | None) -> list[dict[str, Raw]]:
    return [] if given is None else msgspec.json.decode(given, type=list[dict[str, Raw]] | None) or []


def _function(tool: Tool, path: str) -> Function:
    if tool.type != "function":
        raise UnsupportedParameter(f"a tool of type {clipped(tool.type)!r} is not supported yet", param=f"{path}.type")
    if tool.function is None:
        raise InvalidParameter(f"{path}.function is missing", param=f"{path}.function")
    return tool.function


def _forced(functions: list[Function], name: str, path: str, field: str) -> ForcedCall:
    """`path`: where each stands, with a place for its number."""
    numbers = [number for number, function in enumerate(functions) if function.name == name]
    if len(numbers) != 1:
        how = "none" if not numbers else f"{len(numbers)}"
        raise InvalidParameter(f"{field}: {how} of the functions is called {clipped(name)!r}", param=field)
    function, where = functions[numbers[0]], path.format(numbers[0])
    return ForcedCall(function, _arguments(function.parameters, f"{where}.parameters"), field)


def _arguments(schema: Raw | UnsetType, path: str) -> Structure:
    """Arguments are an object, also by a schema that only names its properties."""
    structure = schema_structure(schema, path)
    if structure.source in ("true", "false"):
        raise InvalidParameter(f"{path} must be a JSON object", param=path)
    if structure.kind == "json_object" or not is_given(schema):
        return structure
    if isinstance(schema, Raw) and _SAY_THE_TYPE.isdisjoint(fields_of(schema)):
        typed = '{"type":"object",' + structure.source[1:]
        return msgspec.structs.replace(structure, source=typed)
    return structure


def _compact(schema: str) -> str:
    """Without the space between its tokens: it costs the prompt some."""
    return msgspec.json.format(schema, indent=-1)
