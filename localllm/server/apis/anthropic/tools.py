"""A request's tools and tool choice, converted to functions for the model.

Tools that Anthropic's servers run (web search ...) are left out, also where the choice names one, or refused with
`--hosted-tools refuse`. Knows nothing of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from localllm.errors import UnsupportedParameter, clipped
from localllm.server.apis.anthropic.client_tools import ClientTool, client_tool
from localllm.server.requests.field_rules import Fates, known_fields
from localllm.server.requests.parse import Fields, small
from localllm.server.requests.structures import SchemaField
from localllm.server.requests.tool_choice import ToolChoice, Tooling, tooling
from localllm.server.requests.tools import DeclaredTool, FunctionTool, ToolName, declared_function
from localllm.server.requests.values import needed

HostedTools = Literal["ignore", "refuse"]


class MessagesTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the client's: `type` is absent or `custom`. All others are identified by their type."""

    fates: ClassVar[Fates] = Fates(
        ignored={
            "allowed_callers": "it concerns the vendor's hosted tools",
            "cache_control": "common prefixes are always cached",
            "defer_loading": "every tool is offered immediately",
            "eager_input_streaming": "arguments are always streamed as they are generated",
            "input_examples": "chat templates have no place for them",
        }
    )

    name: ToolName
    type: str | None = None
    description: str | None = None
    input_schema: SchemaField | UnsetType = UNSET
    strict: bool | None = None
    """Whether a schema that cannot be enforced is refused; otherwise it causes a warning."""

    @classmethod
    def known_in(cls, given: Fields) -> frozenset[str] | None:
        """Tools of other types are left out as a whole."""
        return known_fields(cls) if small(given.get("type")) in (None, "custom") else None


class MessagesChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools an answer may or must call."""

    type: Literal["auto", "any", "tool", "none"]
    name: ToolName | None = None
    """With `tool`."""
    disable_parallel_tool_use: bool | None = None

    def known(self) -> str | ToolChoice:
        """The same in the type shared by all APIs. Raises `InvalidParameter`."""
        if self.type == "tool":
            return ToolChoice(type="function", name=needed(self.name, "tool_choice.name"))
        return "required" if self.type == "any" else self.type


class OfferedTools(NamedTuple):
    """The tools offered to the model."""

    tooling: Tooling
    ignored: tuple[str, ...] = ()
    """The omitted tools: path and type of each."""
    notes: tuple[str, ...] = ()


def offered_tools(tools: Sequence[MessagesTool], choice: MessagesChoice | None, hosted: HostedTools) -> OfferedTools:
    """The tools of a request that the model can call. Raises `InvalidParameter`, `UnsupportedParameter`."""
    declared: list[DeclaredTool] = []
    ignored: list[str] = []
    notes: list[str] = []
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        known = client_tool(tool.type or "")
        if tool.type in (None, "custom") or known is not None:
            declared.append(_declared(tool, path, known))
            continue
        kind = clipped(tool.type or "")
        if hosted == "refuse":
            raise UnsupportedParameter(
                f"{path}: tools of type {kind!r} are not supported; leave it out, or start the server with "
                "--hosted-tools ignore",
                param=f"{path}.type",
            )
        ignored.append(f"{path}:{kind}")
        notes.append(f"{path}: tools of type {kind!r} are not supported, so it is left out")
    parallel = None if choice is None else not choice.disable_parallel_tool_use
    if ignored and choice is not None and _needs_hosted(choice, declared):
        ignored.append("tool_choice")
        notes.append("tool_choice: it requires a tool that is left out, so the model decides")
        choice = None
    made = tooling(declared, None if choice is None else choice.known(), parallel=parallel)
    return OfferedTools(made, tuple(ignored), tuple(notes))


def _needs_hosted(choice: MessagesChoice, declared: Sequence[DeclaredTool]) -> bool:
    """Whether only a tool that was left out would do."""
    if choice.type == "tool":
        return choice.name not in {tool.name for tool in declared}
    return choice.type == "any" and not declared


def _declared(tool: MessagesTool, path: str, known: ClientTool | None) -> DeclaredTool:
    description, schema = tool.description, tool.input_schema
    if known is not None:
        description, schema = known.description, msgspec.Raw(msgspec.json.encode(known.schema))
    function = FunctionTool(name=tool.name, description=description, parameters=schema, strict=tool.strict)
    declared = declared_function(function, path)
    where = f"{path}.input_schema"
    return declared._replace(function=msgspec.structs.replace(declared.function, param=where))
