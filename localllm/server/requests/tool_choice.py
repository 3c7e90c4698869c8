"""`tool_choice` of the chat and Responses APIs: which tools may or must be called.

Knows nothing of how tools are declared, or of what a call looks like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.requests.tools import (
    DeclaredTool,
    FunctionTool,
    ToolName,
    check_names,
    declared_function,
    told_tools,
)
from localllm.server.requests.values import missing, needed
from localllm.types import Calling

_WORDS = ("none", "auto", "required")


class NamedTool(msgspec.Struct, frozen=True, kw_only=True):
    name: ToolName


class ToolReference(msgspec.Struct, frozen=True, kw_only=True):
    """A tool by its type and name: the name in an object of its own (the chat API) or beside the type (Responses)."""

    type: str
    name: ToolName | None = None
    function: NamedTool | None = None
    custom: NamedTool | None = None

    def tool_name(self, path: str) -> str:
        """Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.type not in ("function", "custom"):
            raise UnsupportedParameter(
                f"{path}.type must be function, custom or allowed_tools, got {clipped(self.type)!r}",
                param=f"{path}.type",
            )
        wrapped = self.function if self.type == "function" else self.custom
        name = self.name if wrapped is None else wrapped.name
        return needed(name, f"{path}.{self.type}")


class AllowedTools(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the tools. The prompt still contains all of them, so that it stays cached."""

    mode: Literal["auto", "required"] = "auto"
    tools: list[ToolReference]


class ToolChoice(ToolReference, frozen=True, kw_only=True):
    """One tool, or with type `allowed_tools` several, in an object of their own or beside the type."""

    allowed_tools: AllowedTools | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[ToolReference] | None = None

    def allowed(self, path: str) -> AllowedTools | None:
        """None if it names one tool. Raises `InvalidParameter`."""
        if self.type != "allowed_tools":
            return None
        if self.allowed_tools is not None:
            return self.allowed_tools
        if self.tools is None:
            raise missing(f"{path}.allowed_tools")
        return AllowedTools(mode=self.mode or "auto", tools=self.tools)


class LegacyChoice(NamedTool, frozen=True, kw_only=True):
    """`function_call` as an object."""


class Tooling(NamedTuple):
    """A request's tools and tool choice."""

    declared: tuple[DeclaredTool, ...] = ()
    calling: Calling | None = None
    is_named: bool = False
    """Whether the request names the one tool to call."""
    is_legacy: bool = False
    """Whether the request uses the deprecated `functions`."""

    @property
    def told(self) -> str:
        """The tools for the template."""
        return told_tools(self.declared)

    @property
    def customs(self) -> frozenset[str]:
        """The names of custom tools."""
        return frozenset(tool.name for tool in self.declared if tool.is_custom)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(tool.note for tool in self.declared if tool.note)


def tooling(
    declared: Sequence[DeclaredTool],
    choice: str | ToolChoice | None,
    *,
    parallel: bool | None = None,
    field: str = "tool_choice",
) -> Tooling:
    """Combines the tools and the choice, which is in `field`. Raises `InvalidParameter`, `UnsupportedParameter`."""
    check_names(declared)
    if isinstance(choice, str) and choice not in _WORDS:
        raise InvalidParameter(
            f"{field} must be none, auto, required or name a tool, got {clipped(choice)!r}", param=field
        )
    if not declared:
        if choice in (None, "none", "auto"):
            return Tooling()
        tools = "functions" if field == "function_call" else "tools"
        raise InvalidParameter(f"{field} requires {tools}", param=field)
    how, names, is_named = _chosen(choice, field)
    called = _named(declared, names, field) if names else declared
    functions = tuple(dict.fromkeys(tool.function for tool in called))
    calling = Calling(functions=functions, choice=how, parallel=parallel is not False and not is_named)
    return Tooling(tuple(declared), calling, is_named)


def legacy_tooling(functions: Sequence[FunctionTool], choice: str | LegacyChoice | None) -> Tooling:
    """The deprecated `functions` and `function_call`. Raises `InvalidParameter`."""
    if isinstance(choice, str) and choice not in ("none", "auto"):
        raise InvalidParameter(
            f"function_call must be none, auto or name a function, got {clipped(choice)!r}", param="function_call"
        )
    declared = [declared_function(function, f"functions[{index}]") for index, function in enumerate(functions)]
    named = ToolChoice(type="function", name=choice.name) if isinstance(choice, LegacyChoice) else choice
    return tooling(declared, named, parallel=False, field="function_call")._replace(is_legacy=True)


def _chosen(choice: str | ToolChoice | None, field: str) -> tuple[Literal["none", "auto", "required"], list[str], bool]:
    """The mode, the allowed tools (empty: all), and whether a single tool is named."""
    if choice is None or choice == "auto":
        return "auto", [], False
    if isinstance(choice, str):
        return ("none" if choice == "none" else "required"), [], False
    allowed = choice.allowed(field)
    if allowed is None:
        return "required", [choice.tool_name(field)], True
    where = f"{field}.tools" if choice.allowed_tools is None else f"{field}.allowed_tools.tools"
    names = [each.tool_name(f"{where}[{number}]") for number, each in enumerate(allowed.tools)]
    if not names:
        raise InvalidParameter(f"{where} must not be empty; send tool_choice none instead", param=where)
    return allowed.mode, names, False


def _named(declared: Sequence[DeclaredTool], names: Sequence[str], field: str) -> list[DeclaredTool]:
    there = {tool.name: tool for tool in declared}
    for name in names:
        if name not in there:
            raise InvalidParameter(f"{field}: none of the tools is called {clipped(name)!r}", param=field)
    return [there[name] for name in names]
