"""MCP tools in a request: which are offered, which need approval, and running approved calls.

Only servers of the settings are used, by label: this server never connects to an address from a request. Raises
`RequestError`s that name the field at fault. Knows nothing of answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.mcp.outcome import Outcome
from localllm.server.apis.responses.items import (
    AnyItem,
    ListedTool,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    call_error,
    new_id,
)
from localllm.server.apis.responses.tools import ApprovalRule, McpFunction, ResponseTool, ToolFilter
from localllm.server.mcp import McpHubs
from localllm.server.requests.values import needed


class McpOffer(NamedTuple):
    """The tools of the servers that a request names."""

    functions: Mapping[str, Sequence[McpFunction]] = {}
    """By the path of the request's tool, such as `tools[0]`."""
    items: tuple[McpListTools, ...] = ()
    """Tool lists not yet in the conversation."""

    def find(self, label: str, name: str) -> McpFunction | None:
        """Finds a server's tool by its own name."""
        every = (each for some in self.functions.values() for each in some)
        return next((each for each in every if each.label == label and each.tool == name), None)


async def mcp_offer(hubs: McpHubs, tools: Sequence[ResponseTool], conversation: Sequence[AnyItem]) -> McpOffer:
    """Get the servers' tools. An unusable server becomes a list with an error and no tools."""
    functions: dict[str, list[McpFunction]] = {}
    items: list[McpListTools] = []
    known = {item.server_label for item in conversation if isinstance(item, McpListTools) and item.error is None}
    labels: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.type != "mcp" or not hubs.is_on:
            continue
        path = f"tools[{index}]"
        label = _label(tool, path, hubs)
        if label in labels:
            raise InvalidParameter(f"{path}.server_label: {label!r} is used twice", param=f"{path}.server_label")
        labels.add(label)
        hub = await hubs.hub(label)
        failure = hub.failure(label)
        functions[path] = [
            McpFunction(
                label=label,
                tool=each.tool,
                name=each.name,
                description=each.description,
                parameters=each.parameters,
                needs_approval=_needs_approval(tool.require_approval, each.tool, read_only=each.is_read_only),
            )
            for each in hub.tools
            if failure is None and _is_allowed(tool.allowed_tools, each.tool, read_only=each.is_read_only)
        ]
        if label not in known:
            listed = [ListedTool(each.tool, each.description, each.parameters) for each in functions[path]]
            items.append(McpListTools(id=new_id("mcpl"), server_label=label, tools=listed, error=failure))
    return McpOffer(functions, tuple(items))


async def approved_calls(
    hubs: McpHubs, offer: McpOffer, conversation: Sequence[AnyItem], said: Sequence[AnyItem]
) -> list[McpCall]:
    """Run the calls that new items of a conversation approve, once. Raises `InvalidParameter`."""
    requests = {item.id: item for item in conversation if isinstance(item, McpApprovalRequest)}
    done = {item.approval_request_id for item in conversation if isinstance(item, McpCall)}
    calls = []
    for item in said:
        if not isinstance(item, McpApprovalResponse):
            continue
        asked = requests.get(item.approval_request_id)
        if asked is None:
            raise InvalidParameter(
                f"approval_request_id: the conversation has no approval request {clipped(item.approval_request_id)!r}",
                param="input",
            )
        if item.approve and asked.id not in done:
            done.add(asked.id)
            calls.append(await _approved(hubs, offer, asked))
    return calls


async def _approved(hubs: McpHubs, offer: McpOffer, asked: McpApprovalRequest) -> McpCall:
    known = offer.find(asked.server_label, asked.name)
    if known is None:
        raise InvalidParameter(
            f"the approved call of {clipped(asked.name)!r} needs the MCP server {clipped(asked.server_label)!r}, which "
            "is not among the request's tools; send the tools again with the approval",
            param="tools",
        )
    call = McpCall(
        id=new_id("mcp"),
        server_label=asked.server_label,
        name=asked.name,
        arguments=asked.arguments,
        approval_request_id=asked.id,
    )
    hub = await hubs.hub(asked.server_label)
    return ended_call(call, await hub.call(known.name, asked.arguments))


def ended_call(call: McpCall, outcome: Outcome) -> McpCall:
    """The call with its result."""
    return msgspec.structs.replace(
        call,
        output=None if outcome.is_error else outcome.whole,
        error=call_error(outcome.text) if outcome.is_error else None,
        status="failed" if outcome.is_error else "completed",
    )


def _label(tool: ResponseTool, path: str, hubs: McpHubs) -> str:
    for field, refused in ResponseTool.fates.refused.items():
        if getattr(tool, field):
            raise UnsupportedParameter(
                f"{path}.{field} is not supported: {refused.why}: {', '.join(hubs.labels)}", param=f"{path}.{field}"
            )
    label = needed(tool.server_label, f"{path}.server_label")
    if label not in hubs.labels:
        raise InvalidParameter(
            f"{path}.server_label: unknown MCP server {clipped(label)!r}; available: "
            f"{', '.join(hubs.labels)}; --mcp-servers configures them",
            param=f"{path}.server_label",
        )
    return label


def _is_allowed(allowed: list[str] | ToolFilter | None, name: str, *, read_only: bool) -> bool:
    if allowed is None:
        return True
    return name in allowed if isinstance(allowed, list) else allowed.takes(name, read_only=read_only)


def _needs_approval(rule: str | ApprovalRule | None, name: str, *, read_only: bool) -> bool:
    """Approval is required by default, as at OpenAI."""
    if not isinstance(rule, ApprovalRule):
        return rule != "never"
    if rule.always is not None and rule.always.takes(name, read_only=read_only):
        return True
    return rule.never is None or not rule.never.takes(name, read_only=read_only)
