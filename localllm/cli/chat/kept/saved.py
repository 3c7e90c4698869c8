"""A chat in a file: JSON that people can read and write. Knows neither the terminal nor the model.

{"localllm_chat": 3, "model": "demo", "system": "Be brief.", "parameters": {"temperature": 0.2},
 "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]}

Pictures and sounds stand in it with path and digest, not with their bytes; those that a tool returned, in its result.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Container
from pathlib import Path
from typing import Any, Literal

import msgspec

from localllm.cli.chat.attachments import Attachment, user_message
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.system import files
from localllm.types import Message, SamplingParams, ToolCall

VERSION = 3
"""Version 1 had neither calls nor tools, version 2 no pictures and sounds."""
MAX_FILE_BYTES = 64 * 1024 * 1024
"""Larger files are not chats."""


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. The chat template decides whether the model sees its earlier thoughts again."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str
    thinking: str = ""
    interrupted: bool = False
    """For an answer: stopped by the user. For a result: the user gave none."""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    """For a result: the id of its call; `name` is the function's."""
    name: str = ""

    attached: tuple[Attachment, ...] = ()
    """For a question: the pictures and sounds before its text."""

    @property
    def shown(self) -> str:
        """For an excerpt."""
        return " ".join([*(each.shown for each in self.attached), self.content])

    def message(self, files: Container[str]) -> Message:
        """For the model. `files`: digests of those that are here."""
        if self.attached:
            return user_message(self.content, self.attached, files)
        return Message(
            self.role,
            self.content,
            thought=self.thinking,
            tool_calls=self.calls,
            tool_call_id=self.call_id,
            name=self.name,
        )


class SavedChat(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The content of the file."""

    localllm_chat: int
    """The version of the file format."""
    model: str = ""
    system: str | None = None
    parameters: SamplingParams = SamplingParams()
    messages: tuple[Turn, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()


def save(path: Path, chat: SavedChat, *, replace: bool) -> None:
    """Write atomically. Raises `InvalidParameter` if the file exists and `replace` is not set."""
    data = msgspec.json.format(msgspec.json.encode(chat), indent=2) + b"\n"
    try:
        handle, part = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)  # private, like the history
        try:
            with open(handle, "wb") as file:
                file.write(data)
            if replace:
                os.replace(part, path)
            else:
                _publish(Path(part), path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
    except FileExistsError as error:
        raise InvalidParameter(f"{path} exists; /save! replaces it", param="file") from error
    except OSError as error:
        raise LocalLLMError(f"{path} cannot be written: {error.strerror or error}") from error


def _publish(part: Path, path: Path) -> None:
    """Rename `part` to `path` without overwriting. Raises `FileExistsError`."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.replace(part, path)
        return
    part.unlink()


def load(path: Path) -> SavedChat:
    """Raises `InvalidParameter` if the file is unusable."""
    data = files.bounded_bytes(path, MAX_FILE_BYTES, param="file")
    try:
        chat = msgspec.json.decode(data, type=SavedChat)
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error.message}", param=error.param) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path} is not a saved chat: {error}", param="file") from error
    if chat.localllm_chat > VERSION:
        raise InvalidParameter(
            f"{path} has version {chat.localllm_chat}, but the latest version known here is {VERSION}; upgrade",
            param="localllm_chat",
        )
    return chat


def history_file(home: Path) -> Path | None:
    """The file of the input history, readable by its owner only; None if it cannot be written."""
    path = home / "history"
    try:
        home.mkdir(parents=True, exist_ok=True)
        files.private_file(path)
        _shorten(path)
    except OSError:
        return None
    return path


MAX_HISTORY_BYTES = 1024 * 1024


def _shorten(path: Path) -> None:
    """Drop the older half of a history that is too long. Entries begin with an empty line."""
    data = path.read_bytes()
    if len(data) <= MAX_HISTORY_BYTES:
        return
    begin = data.find(b"\n# ", len(data) - MAX_HISTORY_BYTES // 2)
    handle, part = tempfile.mkstemp(prefix=".history.", dir=path.parent)
    with open(handle, "wb") as file:
        file.write(data[begin:] if begin >= 0 else b"")
    os.replace(part, path)
