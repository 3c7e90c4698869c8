"""Tools whose schemas OpenAI publishes and the client runs: shells, and an editor of files by patches.

A request names them by their type only (https://platform.openai.com/docs/guides/tools). The model calls a function of
that name; the client gets an item of the tool's own. Knows nothing of requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

ClientKind = Literal["local_shell", "shell", "apply_patch"]
CallStatus = Literal["in_progress", "completed", "incomplete"]


class LocalShellCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="local_shell_call"):
    """A call of `local_shell`."""

    id: str
    call_id: str
    action: dict[str, Any]
    status: CallStatus = "completed"


class ShellCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="shell_call"):
    """A call of `shell`."""

    id: str
    call_id: str
    action: dict[str, Any]
    environment: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "local"})
    status: CallStatus = "completed"


class ApplyPatchCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="apply_patch_call"):
    """A call of `apply_patch`."""

    id: str
    call_id: str
    operation: dict[str, Any]
    status: CallStatus = "completed"


ClientCall = LocalShellCall | ShellCall | ApplyPatchCall


class ClientTool(NamedTuple):
    """What the model is shown of a tool."""

    description: str
    schema: Mapping[str, Any]


def _tool(description: str, required: tuple[str, ...], **properties: Mapping[str, Any]) -> ClientTool:
    schema = {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}
    return ClientTool(description, schema)


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description}


_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_TIMEOUT = _number("Milliseconds that it may take.")

CLIENT_TOOLS: Mapping[str, ClientTool] = {
    "local_shell": _tool(
        "Run a command on the user's machine.",
        ("command",),
        command=_TEXTS | {"description": 'The program and its arguments, such as ["bash", "-lc", "ls"].'},
        working_directory=_text("The folder to run it in."),
        timeout_ms=_TIMEOUT,
        env={"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables."},
    ),
    "shell": _tool(
        "Run shell commands on the user's machine.",
        ("commands",),
        commands=_TEXTS | {"description": "The commands, run in this order."},
        timeout_ms=_TIMEOUT,
        max_output_length=_number("Characters of output to return of each command."),
    ),
    "apply_patch": _tool(
        "Create, update or delete one file.",
        ("type", "path", "diff"),
        type=_text("What to do.", enum=["create_file", "update_file", "delete_file"]),
        path=_text("The file."),
        diff=_text("For create_file and update_file: the diff to apply; else empty."),
    ),
}
"""Type of a tool -> what it is for the model, whose function has the same name."""


def call_of(kind: ClientKind, id: str, call_id: str, arguments: str, status: CallStatus) -> ClientCall:
    """The client's item; what a truncated call does not say is empty."""
    given = _object(arguments)
    if kind == "local_shell":
        action = {"type": "exec", "command": [], "env": {}, **given}
        return LocalShellCall(id=id, call_id=call_id, action=action, status=status)
    if kind == "shell":
        return ShellCall(id=id, call_id=call_id, action={"commands": [], **given}, status=status)
    if given.get("type") == "delete_file":
        given.pop("diff", None)
    return ApplyPatchCall(id=id, call_id=call_id, operation=given, status=status)


def kind_of(call: ClientCall) -> ClientKind:
    """The tool that was called."""
    if isinstance(call, LocalShellCall):
        return "local_shell"
    return "shell" if isinstance(call, ShellCall) else "apply_patch"


def arguments_of(kind: str, action: str) -> str:
    """A call's arguments as the model writes them, from the JSON of the action or operation in the client's item."""
    given = {name: value for name, value in _object(action).items() if value is not None}
    if kind == "local_shell":
        given.pop("type", None)
        given = {name: value for name, value in given.items() if name != "env" or value}
    elif kind == "apply_patch":
        given.setdefault("diff", "")
    return msgspec.json.encode(given).decode()


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
