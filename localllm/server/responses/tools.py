"""The tools of a request, on to functions that a model can call, and the names of these back to the tools.

Functions are taken as they are. Custom tools become functions of one text, `input`. Those of a namespace are called
`NAMESPACE__NAME`. Tools that run elsewhere (web search ...) are left out, or refused if the server is told to. Raises
`RequestError`s that name the field at fault. Knows nothing of answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.openai.structures import SchemaField, is_given
from localllm.server.parse import small
from localllm.types import Calling, Function

_NO_EFFECT = frozenset({"allowed_callers", "async", "defer_loading", "output_schema"})
"""Of a tool, what only says how OpenAI's own machines use it. A tool that may be deferred is offered at once."""
_Name = Annotated[str, Meta(min_length=1, max_length=256)]
HostedTools = Literal["ignore", "refuse"]
MAX_TOOLS = 1024
"""With those in namespaces: agents bring those of all their MCP servers."""


class InputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """Of a custom tool's input: any text, or one of a grammar."""

    type: str
    syntax: str | None = None
    """`lark` or `regex`."""
    definition: str | None = None


class NamespacedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the client wrote it. Those that run elsewhere have fields of their own."""

    type: str
    name: _Name | None = None
    description: str | None = None
    parameters: SchemaField | UnsetType = UNSET
    strict: bool | None = None
    """True: a schema that cannot be kept is an error."""
    format: InputFormat | None = None


class ResponseTool(NamespacedTool, frozen=True, kw_only=True):
    """A tool, or a namespace of several."""

    tools: list[NamespacedTool] | None = None


class ChosenTool(msgspec.Struct, frozen=True, kw_only=True):
    """One of those that are allowed."""

    type: str
    name: str | None = None
    namespace: str | None = None


class ResponseToolChoice(ChosenTool, frozen=True, kw_only=True):
    """A tool by its name, or `allowed_tools`."""

    mode: Literal["auto", "required"] | None = None
    tools: list[ChosenTool] | None = None


class Origin(NamedTuple):
    """Of a function: the tool that it stands for."""

    kind: Literal["function", "custom"]
    name: str
    namespace: str | None = None


class Offered(NamedTuple):
    """What a model is offered."""

    functions: tuple[Function, ...] = ()
    origins: Mapping[str, Origin] = {}
    """Of each function by its name."""
    rendered: str = ""
    """JSON array, as the chat API has tools: what the template gets."""
    ignored: tuple[str, ...] = ()
    """The tools that run elsewhere, each as where it stands and what it is."""
    notes: tuple[str, ...] = ()

    def named(self, namespace: str | None, name: str) -> str:
        """The name under which the model knows a tool, also one that is not offered any more."""
        for flat, origin in self.origins.items():
            if (origin.namespace, origin.name) == (namespace, name):
                return flat
        return name if namespace is None else flat_name(namespace, name)


def flat_name(namespace: str, name: str) -> str:
    """One name of two, as MCP's clients write them."""
    is_joined = namespace.endswith("__") or name.startswith("__")
    return f"{namespace}{name}" if is_joined else f"{namespace}__{name}"


def offered_tools(tools: Sequence[ResponseTool] | None, hosted: HostedTools) -> Offered:
    """Raises `InvalidParameter`, `UnsupportedParameter`."""
    offer = _Offer(hosted)
    for index, tool in enumerate(tools or ()):
        path = f"tools[{index}]"
        if tool.type == "namespace":
            offer.add_namespace(tool, path)
        else:
            offer.add(tool, path)
    return offer.offered()


class _Offer:
    """On its way."""

    def __init__(self, hosted: HostedTools) -> None:
        self._hosted = hosted
        self._functions: list[Function] = []
        self._origins: dict[str, Origin] = {}
        self._rendered: list[Any] = []
        self._ignored: list[str] = []
        self._notes: list[str] = []

    def add_namespace(self, tool: ResponseTool, path: str) -> None:
        if tool.name is None:
            raise InvalidParameter(f"{path}.name is missing", param=f"{path}.name")
        about = f"[{tool.name}: {tool.description}]" if tool.description else ""
        for index, inner in enumerate(tool.tools or ()):
            self.add(inner, f"{path}.tools[{index}]", namespace=tool.name, about=about)
            about = ""  # once is enough

    def add(self, tool: NamespacedTool, path: str, *, namespace: str | None = None, about: str = "") -> None:
        if tool.type not in ("function", "custom"):
            self._leave_out(tool, path)
            return
        if tool.name is None:
            raise InvalidParameter(f"{path}.name is missing", param=f"{path}.name")
        origin = Origin("custom" if tool.type == "custom" else "function", tool.name, namespace)
        if any(each[1:] == origin[1:] for each in self._origins.values()):
            raise InvalidParameter(f"{path}.name: {clipped(tool.name)!r} is there twice", param=f"{path}.name")
        if len(self._functions) >= MAX_TOOLS:
            raise InvalidParameter(f"tools takes at most {MAX_TOOLS}", param="tools")
        name = self._free(tool.name if namespace is None else flat_name(namespace, tool.name))
        description = " ".join(filter(None, [about, tool.description or ""]))
        if tool.type == "custom":
            schema, description = self._custom(tool, path), self._described(tool, description)
        else:
            schema = _schema(tool.parameters, f"{path}.parameters")
        param = f"{path}.parameters" if tool.type == "function" else f"{path}.format.definition"
        self._origins[name] = origin
        self._functions.append(Function(name=name, parameters=schema, is_strict=bool(tool.strict), param=param))
        shown: dict[str, Any] = {"name": name}
        if description:
            shown["description"] = description
        shown["parameters"] = Raw(schema.encode() or b'{"type":"object","properties":{}}')
        self._rendered.append({"type": "function", "function": shown})

    def _free(self, name: str) -> str:
        """Two namespaces may make one name."""
        number, free = 1, name
        while free in self._origins:
            number += 1
            free = f"{name}_{number}"
        return free

    def _custom(self, tool: NamespacedTool, path: str) -> str:
        """The schema of the one argument."""
        text: dict[str, Any] = {"type": "string"}
        if tool.format is not None and tool.format.type == "grammar":
            definition = tool.format.definition
            if not definition:
                where = f"{path}.format.definition"
                raise InvalidParameter(f"{where} is missing", param=where)
            if tool.format.syntax == "regex":
                text["pattern"] = _anchored(definition)
            elif tool.format.syntax == "lark":
                self._notes.append(f"{path}.format: the model is shown this grammar, and is not held to it")
            else:
                where = f"{path}.format.syntax"
                raise InvalidParameter(f"{where} must be lark or regex", param=where)
        elif tool.format is not None and tool.format.type != "text":
            where = f"{path}.format.type"
            raise InvalidParameter(f"{where} must be text or grammar", param=where)
        schema = {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
        return json.dumps(schema, ensure_ascii=False)

    @staticmethod
    def _described(tool: NamespacedTool, description: str) -> str:
        if tool.format is None or tool.format.syntax != "lark":
            return description
        grammar = f"The input is a text of this Lark grammar:\n{tool.format.definition}"
        return "\n\n".join(filter(None, [description, grammar]))

    def _leave_out(self, tool: NamespacedTool, path: str) -> None:
        kind = clipped(tool.type)
        if self._hosted == "refuse":
            raise UnsupportedParameter(
                f"{path}: a tool of type {kind!r} runs elsewhere, and nothing here does; leave it out, or start the "
                "server with --hosted-tools ignore",
                param=f"{path}.type",
            )
        self._ignored.append(f"{path}:{kind}")
        self._notes.append(f"{path}: a tool of type {kind!r} runs elsewhere, so it is left out")

    def offered(self) -> Offered:
        rendered = msgspec.json.encode(self._rendered).decode() if self._rendered else ""
        return Offered(
            tuple(self._functions), self._origins, rendered, tuple(self._ignored), tuple(dict.fromkeys(self._notes))
        )


def _schema(given: Raw | UnsetType, path: str) -> str:
    """As it was written; nothing for any object. Raises `InvalidParameter`."""
    text = bytes(given).decode("utf-8", "replace").strip() if isinstance(given, Raw) and is_given(given) else ""
    if text and not text.startswith("{"):
        raise InvalidParameter(f"{path} must be a JSON object", param=path)
    return text if text[1:-1].strip() else ""


def _anchored(pattern: str) -> str:
    """It is of the whole text, where a schema's is of a part."""
    is_whole = pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith(r"\$") and "|" not in pattern
    return pattern if is_whole else f"^(?:{pattern})$"


def calling_of(
    offered: Offered, choice: str | ResponseToolChoice | None, *, is_parallel: bool | None
) -> Calling | None:
    """What an answer may or must call; None: nothing is offered. Raises `InvalidParameter`, `UnsupportedParameter`."""
    functions, parallel = offered.functions, is_parallel is not False
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        raise InvalidParameter(
            f"tool_choice must be none, auto, required or name a tool, got {clipped(choice)!r}", param="tool_choice"
        )
    if not functions:
        if choice in (None, "none", "auto"):
            return None
        raise InvalidParameter("tool_choice needs tools of type function or custom beside it", param="tool_choice")
    if not isinstance(choice, ResponseToolChoice):
        word = "auto" if choice is None else choice
        return Calling(functions=functions, choice=word, parallel=parallel)  # type: ignore[arg-type]
    if choice.type in ("function", "custom"):
        chosen = _chosen(offered, choice, "tool_choice")
        return Calling(functions=chosen, choice="required", parallel=False)
    if choice.type != "allowed_tools":
        raise UnsupportedParameter(
            f"tool_choice of type {clipped(choice.type)!r}: such a tool runs elsewhere, and nothing here does",
            param="tool_choice.type",
        )
    allowed: dict[str, Function] = {}
    for index, each in enumerate(choice.tools or ()):
        if each.type in ("function", "custom", "namespace"):
            allowed |= {function.name: function for function in _chosen(offered, each, f"tool_choice.tools[{index}]")}
    if not allowed:
        raise InvalidParameter("tool_choice.tools names none of the tools", param="tool_choice.tools")
    kept = tuple(function for function in functions if function.name in allowed)
    return Calling(functions=kept, choice=choice.mode or "auto", parallel=parallel)


def _chosen(offered: Offered, choice: ChosenTool, path: str) -> tuple[Function, ...]:
    """The functions that this names; a namespace is all that is in it. Raises `InvalidParameter`."""
    if choice.name is None:
        raise InvalidParameter(f"{path}.name is missing", param=f"{path}.name")

    def is_meant(function: Function) -> bool:
        origin = offered.origins[function.name]
        if choice.type == "namespace":
            return origin.namespace == choice.name
        is_named = choice.name in (origin.name, function.name)
        return is_named and origin.kind == choice.type and choice.namespace in (None, origin.namespace)

    chosen = tuple(filter(is_meant, offered.functions))
    if not chosen or (len(chosen) > 1 and choice.type != "namespace"):
        how = "none" if not chosen else f"{len(chosen)}"
        raise InvalidParameter(f"{path}.name: {how} of the tools is called {clipped(choice.name)!r}", param=path)
    return chosen


def unknown_in_tools(given: Raw | None) -> list[str]:
    """The fields of tools that are nobody's; those that run elsewhere are left out as a whole."""
    tools = None if given is None else msgspec.json.decode(given, type=list[dict[str, Raw]] | None)
    unknown: set[str] = set()
    for tool in tools or ():
        kind = small(tool["type"])
        if kind in ("function", "custom", "namespace"):
            known = ResponseTool if kind == "namespace" else NamespacedTool
            unknown |= tool.keys() - set(known.__struct_fields__) - _NO_EFFECT
    return [f"tools[].{name}" for name in sorted(unknown)]
