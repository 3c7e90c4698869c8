"""Keeps a conversation as a session after each message, and takes up one that was kept. Knows no terminal."""

from __future__ import annotations

import msgspec

from localllm.cli.chat.conversation import Conversation
from localllm.cli.chat.kept.save_commands import content_of, count, restore_files, show_end, take_up
from localllm.cli.chat.kept.saved import SavedChat
from localllm.cli.chat.kept.sessions import Sessions, is_named
from localllm.cli.shared import report
from localllm.errors import LocalLLMError
from localllm.types import SamplingParams


class Keeper:
    """The session of one conversation."""

    def __init__(self, sessions: Sessions, name: str | None, found: SavedChat | None = None) -> None:
        """`name`: None: the chat has none of its own. `found`: what is continued."""
        self._sessions = sessions
        self._name = name or sessions.new_name()
        self._is_named = is_named(self._name)
        self._found = found
        self._kept = found
        self._has_failed = False
        self.model = "" if found is None else found.model
        """As a command line names the model."""

    def take_up(self, chat: Conversation, *, shows: bool = False) -> None:
        """Continue what was found; what the command line gave wins over it. Raises `UnsupportedParameter`."""
        if self._found is None:
            return
        system, params = chat.system, chat.talk.params
        take_up(chat, self._found, self._sessions.path(self._name))
        chat.system = chat.system if system is None else system
        chat.talk.params = _over(chat.talk.params, params)
        restore_files(chat)
        if shows:
            report.say(f"continues {self._name}: {count(len(chat.turns))}")
            show_end(chat)

    @property
    def found(self) -> SavedChat | None:
        """What it continues."""
        return self._found

    def keep(self, chat: Conversation) -> None:
        """Write it if it has changed. A chat goes on without that; a line on stderr says once why it is not kept."""
        content = content_of(chat, self.model)
        if chat.talk.raw or content == self._kept:
            return
        try:
            self._write(chat, content)
        except (LocalLLMError, OSError) as error:
            if not self._has_failed:
                report.say(f"[the chat is not kept: {error}]")
            self._has_failed = True

    def _write(self, chat: Conversation, content: SavedChat) -> None:
        if not content.messages:
            if self._kept is not None and not chat.cleared and not self._is_named:
                self._sessions.remove(self._name)  # the user took back all of it
                self._kept = None
            return
        is_another = self._kept is not None and self._kept.messages[:1] != content.messages[:1]
        if is_another and not self._is_named:  # after /clear or /load
            self._name = self._sessions.new_name()
        self._sessions.save(self._name, content)
        self._kept = content


def _over(kept: SamplingParams, given: SamplingParams) -> SamplingParams:
    """`kept`, with what was given."""
    nothing = SamplingParams()
    names = [field for field in given.__struct_fields__ if getattr(given, field) != getattr(nothing, field)]
    return msgspec.structs.replace(kept, **{name: getattr(given, name) for name in names})


def opened(sessions: Sessions, name: str | None, *, continues: bool) -> Keeper:
    """For a new chat, or one that is continued: that of this name, or the last one. Raises `InvalidParameter`."""
    if name is not None:
        found = sessions.load(name) if sessions.path(name).is_file() else None
        return Keeper(sessions, name, found)
    if not continues:
        return Keeper(sessions, None)
    last = sessions.last()
    return Keeper(sessions, last.name, sessions.load(last.name))
