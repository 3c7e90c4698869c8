"""Chats that keep themselves: a file for each in the data directory, which its owner can read, in the form of `saved`.

A chat without a name of its own is called by the time it began; only the last `MAX_UNNAMED` of these stay. Knows no
terminal and no model.
"""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import NamedTuple

from localllm.cli.chat.kept import saved
from localllm.cli.chat.kept.saved import SavedChat
from localllm.errors import InvalidParameter, LocalLLMError, sentence_of

MAX_UNNAMED, MAX_UNNAMED_BYTES = 100, 256 * 1024 * 1024
"""The oldest unnamed chats beyond these are removed."""
_NAME = re.compile(r"\w[\w .+-]{0,63}")
_UNNAMED = re.compile(r"chat-\d{4}-\d\d-\d\d-\d{6}(-\d+)?")


class Session(NamedTuple):
    """A chat on disk."""

    name: str
    path: Path
    changed_unix_s: float
    size_bytes: int

    @property
    def stays(self) -> bool:
        """However many others there are."""
        return is_named(self.name)


def is_named(name: str) -> bool:
    """Whether the user gave a session this name."""
    return _UNNAMED.fullmatch(name) is None


class Sessions:
    """The chats of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "sessions"

    def listed(self) -> list[Session]:
        """The last changed ones first."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder.glob("*.json"):
                with contextlib.suppress(OSError):  # removed meanwhile
                    status = path.stat()
                    found.append(Session(path.stem, path, status.st_mtime, status.st_size))
        return sorted(found, key=lambda each: (each.changed_unix_s, each.name), reverse=True)

    def last(self) -> Session:
        """The last changed one. Raises `InvalidParameter` if there is none."""
        found = self.listed()
        if not found:
            raise InvalidParameter("there is no chat to continue: none was kept on this machine", param="continue")
        return found[0]

    def path(self, name: str) -> Path:
        """Of the chat with that name, whether there is one or not. Raises `InvalidParameter`."""
        if _NAME.fullmatch(name) is None or name != name.strip():
            raise InvalidParameter(
                f"{name!r} cannot be a session's name: at most 64 letters, digits, blanks and . _ + -, "
                "the first a letter or digit",
                param="session",
            )
        return self._folder / f"{name}.json"

    def new_name(self) -> str:
        """Of a chat that begins now."""
        stem = time.strftime("chat-%Y-%m-%d-%H%M%S")
        names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
        return next((name for name in names if not self.path(name).exists()), stem)

    def load(self, name: str) -> SavedChat:
        """Raises `InvalidParameter` if there is none of that name, or it is damaged."""
        path = self.path(name)
        if not path.is_file():
            raise InvalidParameter(f"there is no session {name!r}; `localllm sessions` lists them", param="session")
        return saved.load(path)

    def save(self, name: str, chat: SavedChat) -> None:
        """Replace it, then remove the oldest unnamed ones that are too many. Raises `LocalLLMError`."""
        path = self.path(name)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise LocalLLMError(sentence_of(error)) from error
        is_new = not path.exists()
        saved.save(path, chat, replace=True)
        if is_new:
            self._bound(name)

    def remove(self, name: str) -> bool:
        """Whether there was one of that name. Raises `InvalidParameter`, `OSError`."""
        path = self.path(name)
        if not path.is_file():
            return False
        path.unlink()
        return True

    def _bound(self, newest: str) -> None:
        kept_bytes = num_kept = 0
        for each in self.listed():
            if each.stays or each.name == newest:
                continue
            num_kept, kept_bytes = num_kept + 1, kept_bytes + each.size_bytes
            if num_kept >= MAX_UNNAMED or kept_bytes > MAX_UNNAMED_BYTES:
                each.path.unlink(missing_ok=True)
