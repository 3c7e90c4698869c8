"""`/save` and `/load`, and how a saved chat becomes a conversation again. Knows no terminal and no HTTP."""

from __future__ import annotations

import time
from pathlib import Path

from localllm.cli.chat import tools
from localllm.cli.chat.conversation import Conversation
from localllm.cli.chat.kept import saved
from localllm.cli.chat.kept.saved import SavedChat
from localllm.cli.chat.parameters import unquoted
from localllm.cli.chat.tools import Tools
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, UnsupportedParameter

EXCERPT_CHARS = 60


def save(chat: Conversation, argument: str) -> None:
    """Raises `InvalidParameter`, `LocalLLMError`."""
    force, argument = forced(argument)
    if not chat.turns and chat.system is None:
        report.say("there is nothing to save yet")
        return
    if argument:
        path = Path(unquoted(argument)).expanduser()
        path = path if path.suffix else path.with_suffix(".json")
    else:
        path = chat.file or Path(time.strftime("chat-%Y-%m-%d-%H%M%S.json"))
    saved.save(path, content_of(chat), replace=force or path == chat.file)
    chat.file, chat.is_saved = path, True
    report.say(f"saved {count(len(chat.turns))} to {path}")


def load(chat: Conversation, argument: str) -> None:
    """Raises `InvalidParameter`, `UnsupportedParameter`."""
    force, argument = forced(argument)
    if not argument:
        raise InvalidParameter("which file? /load FILE", param="file")
    if chat.turns and not chat.is_saved and not force:
        raise InvalidParameter(
            f"{count(len(chat.turns))} would be lost: /save them first, or discard them with /load! FILE", param="file"
        )
    path = Path(unquoted(argument)).expanduser()
    path = path.with_suffix(".json") if not path.suffix and not path.exists() else path
    found = saved.load(path)
    take_up(chat, found, path)
    chat.file, chat.is_saved = path, True
    other_model = f"; the model was {found.model}" if found.model not in ("", chat.talk.model_id) else ""
    report.say(f"loaded {count(len(chat.turns))}{other_model}")
    restore_files(chat)
    show_end(chat)


def content_of(chat: Conversation, model: str | None = None) -> SavedChat:
    """What a file keeps of it. `model`: its name; None: the server's. Tools of MCP servers are not kept."""
    return SavedChat(
        localllm_chat=saved.VERSION,
        model=chat.talk.model_id if model is None else model,
        system=chat.system,
        parameters=chat.talk.params,
        messages=tuple(chat.turns),
        tools=tuple(chat.talk.tools.entries) if isinstance(chat.talk.tools, Tools) else (),
    )


def take_up(chat: Conversation, found: SavedChat, path: Path) -> None:
    """Make it the conversation, without its files. Raises `UnsupportedParameter` if the model cannot."""
    if chat.talk.raw and found.messages:
        raise UnsupportedParameter(
            f"{chat.talk.model_id} has no chat template and cannot continue a chat", param="file"
        )
    chat.turns, chat.system, chat.cleared, chat.unanswered = list(found.messages), found.system, [], None
    chat.pending = []
    chat.talk.params = found.parameters
    if found.tools or isinstance(chat.talk.tools, Tools):  # MCP servers stay with the chat
        chat.talk.tools = Tools(list(found.tools), path) if found.tools else None
    chat.restore_thoughts()


def restore_files(chat: Conversation) -> None:
    """Read the files of its messages again; a line on stderr names each that is not as it was."""
    for attachment in (each for turn in chat.turns for each in turn.attached):
        if why := chat.talk.attachments.restore(attachment):
            report.say(f"{attachment.path} {why}; the model reads a note in its place")


def show_end(chat: Conversation) -> None:
    """The beginnings of the last two messages."""
    for turn in chat.turns[-2:]:
        called = " ".join(f"calls {tools.shown(call)}" for call in turn.calls)
        report.say(f"{turn.role}: {excerpt(f'{turn.shown} {called}')}")


def forced(argument: str) -> tuple[bool, str]:
    return (True, argument[1:].strip()) if argument.startswith("!") else (False, argument)


def count(messages: int) -> str:
    """`1 message`, `2 messages`."""
    return "1 message" if messages == 1 else f"{messages} messages"


def excerpt(text: str) -> str:
    """The beginning of a message, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT_CHARS else line[: EXCERPT_CHARS - 1] + "…"
