"""Tools whose schemas Anthropic publishes and the client runs: a shell, an editor of files, a memory.

A request names them by a dated type only (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use). Knows nothing
of requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_TYPE = re.compile(r"(?P<kind>bash|text_editor|memory)_(?P<date>[0-9]{8})")
WITHOUT_UNDO = "20250429"
"""The first version of the editor without `undo_edit`; its `insert` takes `insert_text` instead of `new_str`."""


class ClientTool(NamedTuple):
    """What the model is shown of a tool."""

    description: str
    schema: Mapping[str, Any]


def client_tool(type: str) -> ClientTool | None:
    """The tool of this type; None: it is another's."""
    found = _TYPE.fullmatch(type)
    if found is None:
        return None
    if found["kind"] == "bash":
        return _BASH
    return _MEMORY if found["kind"] == "memory" else _editor(found["date"])


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _commands(*names: str) -> dict[str, Any]:
    return {"type": "string", "enum": [*names], "description": "What to do."}


_RANGE = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "For view: the first and the last line, from 1; -1 is the end of the file.",
}
_EDITS: dict[str, Any] = {
    "file_text": _text("For create: the content of the file."),
    "old_str": _text("For str_replace: the text to replace, which must occur exactly once."),
    "insert_line": {"type": "integer", "description": "For insert: the line to insert behind; 0 is the beginning."},
}

_BASH = ClientTool(
    "Run a command in a bash shell that stays open between calls.",
    {
        "type": "object",
        "properties": {
            "command": _text("The command to run. Required unless the shell is restarted."),
            "restart": {"type": "boolean", "description": "True: restart the shell."},
        },
    },
)

_MEMORY = ClientTool(
    "Keep notes for later conversations in files below /memories. Look there before you begin.",
    {
        "type": "object",
        "properties": {
            "command": _commands("view", "create", "str_replace", "insert", "delete", "rename"),
            "path": _text("The file or folder, such as /memories/notes.md; for all commands but rename."),
            "view_range": _RANGE,
            **_EDITS,
            "new_str": _text("For str_replace: the new text."),
            "insert_text": _text("For insert: the text."),
            "old_path": _text("For rename: the file or folder."),
            "new_path": _text("For rename: its new path."),
        },
        "required": ["command"],
    },
)


def _editor(date: str) -> ClientTool:
    has_undo = date < WITHOUT_UNDO
    new: dict[str, Any] = {"new_str": _text("For str_replace: the new text.")}
    if has_undo:
        new = {"new_str": _text("For str_replace: the new text. For insert: the text to insert.")}
    else:
        new["insert_text"] = _text("For insert: the text to insert.")
    return ClientTool(
        "View, create and edit text files.",
        {
            "type": "object",
            "properties": {
                "command": _commands("view", "create", "str_replace", "insert", *(["undo_edit"] if has_undo else [])),
                "path": _text("The file or folder."),
                "view_range": _RANGE,
                **_EDITS,
                **new,
            },
            "required": ["command", "path"],
        },
    )
