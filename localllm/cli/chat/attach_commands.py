"""`/image`, `/audio`, `/file`, and files in a message: how pictures, sounds and documents get into a conversation.

Knows no terminal.
"""

from __future__ import annotations

from pathlib import Path

from localllm.cli.chat import dropped
from localllm.cli.chat.attachments import is_address, without_pages
from localllm.cli.chat.conversation import Conversation
from localllm.cli.chat.parameters import unquoted
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.types import MediaKind

DETAILS = """\
FILE is a path or an http(s) address; a question may follow it. Files dropped on the line, and paths
of pictures, sounds, PDF and Office files in it, need no command. /undo takes back what is not sent yet."""
FILE_DETAILS = f"""\
PDF, Office files, HTML, text and source code; FILE#pages=1-3 takes some pages, slides or sheets.
{DETAILS}"""


def image(chat: Conversation, argument: str) -> None:
    """Raises `InvalidParameter`, `UnsupportedParameter`, and what answering raises."""
    _attach(chat, argument, "image")


def audio(chat: Conversation, argument: str) -> None:
    """Raises as `image`."""
    _attach(chat, argument, "audio")


def file(chat: Conversation, argument: str) -> None:
    """Takes pictures and sounds, too. Raises as `image`."""
    _attach(chat, argument, "document")


def send(chat: Conversation, line: str) -> None:
    """Send a message; files that its line names go with it. A line of nothing but files waits for a question.

    With a model that does not read them, paths in a sentence remain text. Raises as `image`.
    """
    found = dropped.find(line)
    try:
        chat.attach([chat.talk.attachments.open(each) for each in found.paths])
    except UnsupportedParameter as error:
        if not found.text:
            raise
        report.say(f"[only the path is sent: {error.message}]")
        found = dropped.Dropped((), line)
    if found.text.strip() or (chat.pending and not found.paths):
        chat.answer(found.text)
    elif found.paths:
        _say_pending(chat)


def _attach(chat: Conversation, argument: str, kind: MediaKind) -> None:
    if not argument:
        raise InvalidParameter(f"which file? /{'file' if kind == 'document' else kind} FILE", param=kind)
    path, question = unquoted(argument), ""
    paths: tuple[str, ...] = (path,)
    if is_address(path):
        path, _, question = path.partition(" ")
        paths = (path,)
    elif not Path(without_pages(path)[0]).expanduser().is_file():
        word, rest = dropped.first_word(argument)
        if Path(without_pages(word)[0]).expanduser().is_file():
            paths, question = (word,), rest
        elif (found := dropped.find(argument)).paths:
            paths, question = found.paths, found.text
    chat.attach([chat.talk.attachments.open(each, kind) for each in paths])
    if question.strip():
        chat.answer(question.strip())
    else:
        _say_pending(chat)


def _say_pending(chat: Conversation) -> None:
    shown = " ".join(each.shown for each in chat.pending)
    report.say(f"{shown} {'goes' if len(chat.pending) == 1 else 'go'} with the next message; Enter sends without one")
