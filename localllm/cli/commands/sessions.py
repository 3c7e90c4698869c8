"""`localllm sessions`: the chats that `run` has kept, listed, shown as Markdown, removed or exported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from localllm.cli.chat.kept.save_commands import excerpt
from localllm.cli.chat.kept.saved import SavedChat, Turn, save
from localllm.cli.chat.kept.sessions import Session, Sessions
from localllm.cli.render.units import ago, counted
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.settings.config import Settings

Action = Literal["list", "show", "rm", "export"]
_SPEAKERS = {"user": "You", "assistant": "Model", "system": "System", "tool": "Result"}


def manage_sessions(
    settings: Settings, action: Action, names: list[str], *, output: Path | None, every: bool, as_json: bool
) -> int:
    """Do one action; returns the exit code. Raises `InvalidParameter` for a session that does not exist."""
    sessions = Sessions(settings.data_dir)
    if output is not None and action != "export":
        raise InvalidParameter(f"--output is for export, not for {action}", param="output")
    if every and action != "rm":
        raise InvalidParameter(f"--all is for rm, not for {action}", param="all")
    if action == "list":
        return _list(sessions, as_json=as_json)
    if action == "rm":
        return _remove(sessions, names, every=every)
    if len(names) > 1:
        raise InvalidParameter(f"{action} takes one session", param="names")
    name = names[0] if names else sessions.last().name
    return _export(name, sessions.load(name), output, as_json=as_json)


def _list(sessions: Sessions, *, as_json: bool) -> int:
    found = [(each, _loaded(sessions, each)) for each in sessions.listed()]
    if as_json:
        report.write_json(msgspec.json.encode([_as_object(each, chat) for each, chat in found]))
    elif found:
        head = ("NAME", "MODEL", "MESSAGES", "CHANGED", "BEGINS")
        report.write_table(head, [_row(each, chat) for each, chat in found])
    else:
        report.say("localllm: no chat is kept; localllm run keeps each one, unless --private is given")
    return report.OK


def _loaded(sessions: Sessions, session: Session) -> SavedChat | str:
    """The chat, or why it cannot be read."""
    try:
        return sessions.load(session.name)
    except LocalLLMError as error:
        return error.message


def _row(session: Session, chat: SavedChat | str) -> tuple[str, ...]:
    changed = ago(int(session.changed_unix_s))
    if isinstance(chat, str):
        return session.name, "?", "?", changed, f"damaged: {chat}"
    return session.name, Path(chat.model).name, str(len(chat.messages)), changed, _begins(chat)


def _begins(chat: SavedChat) -> str:
    return next((excerpt(turn.shown) for turn in chat.messages if turn.role == "user"), "")


def _as_object(session: Session, chat: SavedChat | str) -> dict[str, object]:
    shown: dict[str, object] = {
        "name": session.name,
        "file": str(session.path),
        "changed_unix_s": int(session.changed_unix_s),
        "size_bytes": session.size_bytes,
    }
    if isinstance(chat, str):
        return {**shown, "error": chat}
    return {**shown, "model": chat.model, "messages": len(chat.messages), "begins": _begins(chat), "error": None}


def _remove(sessions: Sessions, names: list[str], *, every: bool) -> int:
    if bool(names) == every:
        raise InvalidParameter("name the sessions to remove, or --all", param="names")
    code = report.OK
    for name in [each.name for each in sessions.listed()] if every else names:
        if sessions.remove(name):
            report.say(f"localllm: removed {name}")
        else:
            report.say(f"localllm: there is no session {name!r}")
            code = report.NOT_FOUND
    return code


def _export(name: str, chat: SavedChat, output: Path | None, *, as_json: bool) -> int:
    as_json = as_json or (output is not None and output.suffix == ".json")
    if output is not None and as_json:
        save(output, chat, replace=False)
    elif as_json:
        report.write_json(msgspec.json.encode(chat))
    elif output is None:
        report.write_text(markdown(name, chat))
    else:
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(markdown(name, chat))
        except FileExistsError as error:
            raise InvalidParameter(f"{output} exists; name another file", param="output") from error
    if output is not None:
        report.say(f"localllm: wrote {counted(len(chat.messages), 'message')} to {output}")
    return report.OK


def markdown(name: str, chat: SavedChat) -> str:
    """The chat for people; thoughts are left out."""
    return "\n".join(_parts(name, chat)).rstrip("\n") + "\n"


def _parts(name: str, chat: SavedChat) -> Iterator[str]:
    yield f"# {name}\n"
    if chat.model:
        yield f"{Path(chat.model).name}\n"
    if chat.system is not None:
        yield f"## System\n\n{chat.system}\n"
    for turn in chat.messages:
        yield f"## {_SPEAKERS[turn.role]}\n"
        yield f"{_said(turn)}\n"


def _said(turn: Turn) -> str:
    calls = [f"`{call.name}({call.arguments})`" for call in turn.calls]
    files = [each.shown for each in turn.attached]
    return "\n\n".join(part for part in (*files, turn.content, *calls, "*(stopped)*" * turn.interrupted) if part)
