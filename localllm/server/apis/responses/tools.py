"""A request's tools converted to functions for the model, and function names back to tools.

Tools of a namespace are named `NAMESPACE__NAME`. Hosted tools (web search ...) are omitted, or refused with
`--hosted-tools refuse`. Raises `RequestError`s that name the field at fault. Knows nothing of answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.apis.responses.client_tools import CLIENT_TOOLS, ClientKind
from localllm.server.requests.field_rules import Fates, RefusedField, known_fields
from localllm.server.requests.parse import Fields, small
from localllm.server.requests.structures import SchemaField
from localllm.server.requests.tool_choice import ToolChoice, Tooling, ToolReference, tooling
from localllm.server.requests.tools import (
    CustomFormat,
    CustomTool,
    DeclaredTool,
    FunctionTool,
    ToolName,
    declared_custom,
    declared_function,
)
from localllm.server.requests.values import needed

HostedTools = Literal["ignore", "refuse"]
DEFAULT_NAMESPACE = "functions"
"""OpenAI's name for no namespace: names of such tools are unchanged."""
_CALLED = ("function", "custom")
_CHOSEN = (*_CALLED, "namespace", "mcp")
"""Types of tools in a choice; all others are hosted."""


class NamespacedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as sent. Hosted tools have other fields."""

    fates: ClassVar[Fates] = Fates(
        ignored={
            "allowed_callers": "it concerns the vendor's hosted tools",
            "async": "the client runs it, with its own timing",
            "defer_loading": "every tool is offered immediately",
            "output_schema": "chat templates have no place for it",
        }
    )

    type: str
    name: ToolName | None = None
    description: str | None = None
    parameters: SchemaField | UnsetType = UNSET
    """For functions; absent or `{}` means any object."""
    strict: bool | None = None
    """True: a schema that cannot be enforced is an error; otherwise it causes a warning."""
    format: CustomFormat | None = None
    """The format of a custom tool's text."""
    environment: dict[str, Any] | None = None
    """Where a `shell` runs: `local` or absent, on the client's machine; others are hosted."""

    @property
    def runs_at_vendor(self) -> bool:
        return self.environment is not None and self.environment.get("type") != "local"

    def named(self, path: str) -> str:
        """Raises `InvalidParameter`."""
        return needed(self.name, f"{path}.name")


class ToolFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some tools of an MCP server, by name or by its read-only annotation."""

    tool_names: list[str] | None = None
    read_only: bool | None = None

    def takes(self, name: str, *, read_only: bool) -> bool:
        """If both are given, both must match."""
        is_named = self.tool_names is None or name in self.tool_names
        return is_named and (self.read_only is None or self.read_only == read_only)


class ApprovalRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tools need approval and which do not."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


_ELSEWHERE = RefusedField(
    "this server does not connect to MCP servers described in a request; name a configured one by server_label"
)


class ResponseTool(NamespacedTool, frozen=True, kw_only=True, omit_defaults=True):
    """A tool, a namespace of tools, or all tools of an MCP server."""

    fates: ClassVar[Fates] = Fates(
        refused=dict.fromkeys(("server_url", "connector_id", "tunnel_id", "authorization", "headers"), _ELSEWHERE),
        ignored=NamespacedTool.fates.ignored,
    )

    tools: list[NamespacedTool] | None = None
    server_label: str | None = None
    """The label of an MCP server in the settings."""
    allowed_tools: list[str] | ToolFilter | None = None
    """Its allowed tools; None: all."""
    require_approval: Literal["always", "never"] | ApprovalRule | None = None
    """None: always."""
    server_description: str | None = None
    """Shown to the model."""
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None

    @classmethod
    def known_in(cls, given: Fields) -> frozenset[str] | None:
        """Hosted tools are omitted as a whole."""
        kind = small(given.get("type"))
        if kind in _CALLED:
            return known_fields(NamespacedTool)
        return known_fields(cls) if kind in ("namespace", "mcp") else None


class McpFunction(NamedTuple):
    """An MCP tool for a request."""

    label: str
    tool: str
    """Its name on the server."""
    name: str
    """Its name for models and the hub."""
    description: str
    parameters: dict[str, Any]
    needs_approval: bool


class Origin(NamedTuple):
    """The tool behind a function."""

    kind: Literal["function", "custom", "mcp"] | ClientKind
    name: str
    namespace: str | None = None
    """The server's label, for MCP tools."""
    hub_name: str = ""
    """The hub's name of an MCP tool."""
    needs_approval: bool = False

    @property
    def label(self) -> str:
        return self.namespace or ""


class OfferedTools(NamedTuple):
    """The tools offered to the model."""

    declared: tuple[DeclaredTool, ...] = ()
    origins: Mapping[str, Origin] = {}
    """Function name -> tool."""
    names: Mapping[tuple[str | None, str], str] = {}
    """Namespace and tool name -> function name."""
    ignored: tuple[str, ...] = ()
    """Omitted hosted tools: path and type of each."""
    notes: tuple[str, ...] = ()

    def choosing(self, choice: str | ToolChoice | None) -> OfferedTools:
        """The same for a request with this choice, which is omitted if only hosted tools could meet it."""
        if not self._needs_hosted(choice):
            return self
        note = "tool_choice: it requires a hosted tool, which is omitted, so the model decides"
        return self._replace(ignored=(*self.ignored, "tool_choice"), notes=(*self.notes, note))

    def _needs_hosted(self, choice: str | ToolChoice | None) -> bool:
        if not self.ignored or choice is None:
            return False
        if isinstance(choice, str):
            return choice == "required" and not self.declared
        allowed = choice.allowed("tool_choice")
        wanted = [choice] if allowed is None else allowed.tools
        return bool(wanted) and not any(each.type in _CHOSEN or self._has_clients(each.type) for each in wanted)

    def _has_clients(self, kind: str) -> bool:
        """Whether a tool of this type is offered that the client runs."""
        return kind in CLIENT_TOOLS and kind in self.origins

    def named(self, namespace: str | None, name: str) -> str:
        """The function name of a tool, even if it is no longer offered."""
        known = self.names.get((namespace, name))
        return known or (name if namespace is None else flat_name(namespace, name))

    def tooling(self, choice: str | ToolChoice | None, *, parallel: bool | None) -> Tooling:
        """The tools for the template, and the callable ones. Raises `InvalidParameter`, `UnsupportedParameter`."""
        known = None if self._needs_hosted(choice) else self._known(choice)
        return tooling(self.declared, known, parallel=parallel)

    def _known(self, choice: str | ToolChoice | None) -> str | ToolChoice | None:
        """The same choice with function names; hosted tools cannot be called anyway."""
        if not isinstance(choice, ToolChoice):
            return choice
        allowed = choice.allowed("tool_choice")
        if allowed is None and choice.type != "namespace":
            known = self._named_known(choice, self._by_own_name())
            return ToolChoice(type=known.type, name=known.tool_name("tool_choice"))
        mode: Literal["auto", "required"] = "required" if allowed is None else allowed.mode
        references = [choice] if allowed is None else dict.fromkeys(allowed.tools)
        return ToolChoice(type="allowed_tools", mode=mode, tools=list(self._all_known(references)))

    def _all_known(self, references: Iterable[ToolReference]) -> Iterator[ToolReference]:
        by_own_name = self._by_own_name()
        in_namespace: dict[str | None, list[ToolReference]] = {}
        for flat, origin in self.origins.items():
            if origin.kind != "mcp":
                kind = "custom" if origin.kind == "custom" else "function"
                in_namespace.setdefault(origin.namespace, []).append(ToolReference(type=kind, name=flat))
        for reference in references:
            if reference.type == "namespace":
                yield from in_namespace.get(reference.name, ())
            elif reference.type in _CALLED or self._has_clients(reference.type):
                yield self._named_known(reference, by_own_name)

    def _by_own_name(self) -> dict[str, list[str]]:
        """Function names by the tool's own name."""
        found: dict[str, list[str]] = {}
        for flat, origin in self.origins.items():
            found.setdefault(origin.name, []).append(flat)
        return found

    def _named_known(self, reference: ToolReference, by_own_name: Mapping[str, list[str]]) -> ToolReference:
        """A tool in a namespace may be chosen by its own name if that is unique, a client's by its type alone."""
        if reference.type in CLIENT_TOOLS:
            return ToolReference(type="function", name=reference.type)
        if reference.name is None or reference.name in self.origins:
            return reference
        flat_names = by_own_name.get(reference.name, ())
        return ToolReference(type=reference.type, name=flat_names[0]) if len(flat_names) == 1 else reference


def flat_name(namespace: str, name: str) -> str:
    """Joins namespace and name as MCP clients do."""
    if namespace == DEFAULT_NAMESPACE:
        return name
    is_joined = namespace.endswith("__") or name.startswith("__")
    return f"{namespace}{name}" if is_joined else f"{namespace}__{name}"


def offered_tools(
    found: Iterable[tuple[str, Sequence[ResponseTool]]],
    hosted: HostedTools,
    mcp: Mapping[str, Sequence[McpFunction]] = {},
) -> OfferedTools:
    """`found`: tools with their paths. `mcp`: the tools of MCP servers.

    Raises `InvalidParameter`, `UnsupportedParameter`.
    """
    offer = _Offer(hosted)
    for where, tools in found:
        for index, tool in enumerate(tools):
            path = f"{where}[{index}]"
            if tool.type == "namespace":
                offer.add_namespace(tool, path)
            elif path in mcp:
                offer.add_mcp(mcp[path], path, tool.server_description)
            else:
                offer.add(tool, path)
    return offer.offered()


class _Offer:
    """The tools collected so far."""

    def __init__(self, hosted: HostedTools) -> None:
        self._hosted = hosted
        self._declared: list[DeclaredTool] = []
        self._origins: dict[str, Origin] = {}
        self._ignored: list[str] = []
        self._notes: list[str] = []

    def add_namespace(self, tool: ResponseTool, path: str) -> None:
        name = tool.named(path)
        about = f"[{name}: {tool.description}]" if tool.description else ""
        for index, inner in enumerate(tool.tools or ()):
            self.add(inner, f"{path}.tools[{index}]", namespace=name, about=about)
            about = ""  # a duplicate

    def add_mcp(self, functions: Sequence[McpFunction], path: str, about: str | None) -> None:
        about = f"[{functions[0].label}: {about}]" if about and functions else ""
        for each in functions:
            origin = Origin("mcp", each.tool, each.label, each.name, each.needs_approval)
            name = self._free(origin, path, each.name)
            self._origins[name] = origin
            description = " ".join(filter(None, [about, each.description])) or None
            parameters = Raw(msgspec.json.encode(each.parameters))
            function = FunctionTool(name=name, description=description, parameters=parameters)
            self._declared.append(declared_function(function, path))
            about = ""

    def add(self, tool: NamespacedTool, path: str, *, namespace: str | None = None, about: str = "") -> None:
        if tool.type in CLIENT_TOOLS and not tool.runs_at_vendor:
            self._add_clients(tool, path)
            return
        if tool.type not in _CALLED:
            self._leave_out(tool, path)
            return
        origin = Origin("custom" if tool.type == "custom" else "function", tool.named(path), namespace)
        name = self._free(origin, path)
        self._origins[name] = origin
        description = " ".join(filter(None, [about, tool.description or ""])) or None
        if origin.kind == "custom":
            custom = CustomTool(name=name, description=description, format=tool.format)
            self._declared.append(declared_custom(custom, path))
        else:
            function = FunctionTool(name=name, description=description, parameters=tool.parameters, strict=tool.strict)
            self._declared.append(declared_function(function, path))
        self._notes += filter(None, [self._declared[-1].note])

    def _add_clients(self, tool: NamespacedTool, path: str) -> None:
        kind: Any = tool.type
        name, known = self._free(Origin(kind, tool.type), path), CLIENT_TOOLS[tool.type]
        self._origins[name] = Origin(kind, tool.type)
        parameters = Raw(msgspec.json.encode(known.schema))
        function = FunctionTool(name=name, description=known.description, parameters=parameters)
        self._declared.append(declared_function(function, path))

    def _free(self, origin: Origin, path: str, name: str | None = None) -> str:
        """Make the name unique: different namespaces may produce the same one."""
        if name is None:
            name = origin.name if origin.namespace is None else flat_name(origin.namespace, origin.name)
        number, free = 1, name
        while free in self._origins:
            if self._origins[free][1:] == origin[1:]:
                where = f"{path}.name"
                raise InvalidParameter(f"{where}: {clipped(origin.name)!r} is declared twice", param=where)
            number += 1
            free = f"{name}_{number}"
        return free

    def _leave_out(self, tool: NamespacedTool, path: str) -> None:
        kind = clipped(tool.type)
        if self._hosted == "refuse":
            raise UnsupportedParameter(
                f"{path}: hosted tools of type {kind!r} are not supported; leave it out, or start the "
                "server with --hosted-tools ignore",
                param=f"{path}.type",
            )
        self._ignored.append(f"{path}:{kind}")
        self._notes.append(f"{path}: hosted tools of type {kind!r} are not supported, so it is omitted")

    def offered(self) -> OfferedTools:
        names = {(origin.namespace, origin.name): name for name, origin in self._origins.items()}
        return OfferedTools(tuple(self._declared), self._origins, names, tuple(self._ignored), tuple(self._notes))
