"""The slash commands of the chat: names, help and effects on a conversation. Knows no terminal and no HTTP."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localllm.cli.chat import answer_again, attach_commands, copying, set_command, tools
from localllm.cli.chat.conversation import Conversation, Leave
from localllm.cli.chat.kept import save_commands
from localllm.cli.chat.parameters import unquoted
from localllm.cli.shared import report
from localllm.errors import InvalidParameter


class Command(NamedTuple):
    """One command."""

    usage: str
    summary: str
    run: Callable[[Conversation, str], None]
    details: str = ""
    takes_lines: bool = False
    """Whether the argument may span several lines."""

    @property
    def name(self) -> str:
        return self.usage.split()[0]


def is_command(text: str) -> bool:
    """Whether it is a command, or a mistyped one. `/usr/bin is ...` and lines with a leading space are messages."""
    if not text.startswith("/"):
        return False
    word = text.split(maxsplit=1)[0]
    if (command := _find(word)) is not None:
        return "\n" not in text.strip() or command.takes_lines
    return "/" not in word[1:] and "\n" not in text.strip() and len(word) > 1


def execute(chat: Conversation, text: str) -> None:
    """Raises `LocalLLMError`s, `Leave`."""
    word, *rest = text.split(maxsplit=1)
    argument = rest[0] if rest else ""
    command = _find(word)
    if command is None:
        near = difflib.get_close_matches(word, [*COMMANDS, *ALIASES], n=1)
        report.say(f"unknown command {word}" + (f"; did you mean {near[0]}?" if near else "; /help lists all commands"))
        return
    command.run(chat, f"! {argument}" if word.endswith("!") else argument)


def _find(word: str) -> Command | None:
    word = ALIASES.get(word, word)
    if word.endswith("!") and word[:-1] in _FORCIBLE:
        word = word[:-1]
    return COMMANDS.get(word)


def _help(_chat: Conversation, argument: str) -> None:
    if not argument:
        width = max(len(command.usage) for command in COMMANDS.values())
        lines = [f"{command.usage:{width}}  {command.summary}" for command in COMMANDS.values()]
        report.say("\n".join([*lines, "", KEYS]))
        return
    name = argument.split()[0]
    command = _find(name if name.startswith("/") else f"/{name}")
    if command is None:
        report.say(f"unknown command {name}; /help lists all commands")
        return
    report.say(f"{command.usage}\n{command.summary}" + (f"\n\n{command.details}" if command.details else ""))


def _thoughts(chat: Conversation, argument: str) -> None:
    if argument not in ("", "all") and not (argument.isdecimal() and int(argument) > 0):
        raise InvalidParameter("/thoughts takes a number of answers, all, or no argument", param="thoughts")
    if not chat.thoughts:
        report.say("no thoughts yet; /set think on requests them, if the model can think")
    most = len(chat.thoughts) if argument == "all" else int(argument or 1)
    for thought in chat.thoughts[-most:]:
        size = f", {thought.num_tokens} tokens" if thought.num_tokens else ""
        report.say(f"[thought{f' for {thought.seconds:.1f} s' if thought.seconds else ''}{size}]")
        report.say(thought.text)


def _tools(chat: Conversation, argument: str) -> None:
    current = chat.talk.tools
    if not argument and current is None:
        report.say("no tools; /tools FILE loads some")
    elif not argument and current is not None:
        report.say("\n".join(current.lines()))
    elif argument == "off":
        chat.talk.tools = None
        report.say("the tools are removed")
    elif chat.talk.raw:
        report.say("a model without a chat template cannot use tools")
    elif chat.talk.document is not None:
        raise InvalidParameter("tools cannot be combined with --schema or --json; leave one of them out", param="tools")
    else:
        chat.talk.tools = loaded = tools.load_tools(Path(unquoted(argument)).expanduser())
        report.say("\n".join(loaded.lines()))
        report.say("you will be asked for the result of each call; /tools off removes the tools")


def _clear(chat: Conversation, _: str) -> None:
    if chat.turns:
        chat.cleared, chat.turns = chat.turns, []
    chat.unanswered, chat.pending = None, []
    report.say("new conversation; /undo restores the old one" if chat.cleared else "new conversation")


def _stats(chat: Conversation, _: str) -> None:
    report.say("\n".join(chat.totals.lines(chat.talk.model_id, chat.talk.ctx)))


def _bye(_chat: Conversation, _: str) -> None:
    raise Leave


_TOOLS_DETAILS = """\
FILE is JSON: an array of OpenAI's tools, or {"tools": [...]}. When the model calls one, the call
is shown and you enter its result: one line, or several between triple quotes; an empty line means
null. Ctrl-C gives no result and returns to the chat."""

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("/help [COMMAND]", "show this help, or the details of a command", _help),
        Command(
            "/set [NAME [VALUE]]", "show or set parameters", set_command.set_, set_command.DETAILS, takes_lines=True
        ),
        Command(
            "/system [TEXT]",
            "show or set the system message",
            set_command.system,
            'The conversation continues. /system "" removes the message.',
            takes_lines=True,
        ),
        Command("/model [NAME]", "list models, or switch to another", answer_again.model),
        Command(
            "/save [FILE]",
            "save the chat as JSON",
            save_commands.save,
            "Without FILE: the file of the last /save or /load, or a new one here. /save! overwrites another file.",
        ),
        Command("/load FILE", "continue a saved chat", save_commands.load, "/load! discards an unsaved conversation."),
        Command(
            "/regen", "answer the last message again", answer_again.regen, "Also resends a message that got no answer."
        ),
        Command(
            "/retry MODEL",
            "answer the last message again with another model",
            answer_again.retry,
            "The chat goes on with that model; /model NAME switches back.",
        ),
        Command(
            "/edit [TEXT]",
            "edit the last message in $EDITOR, and send it in its place",
            answer_again.edit,
            "With TEXT, or at the beginning of a chat: a new message. Nothing is sent if nothing is changed.",
        ),
        Command("/copy [code]", "copy the last answer, or its last block of code", copying.copy, copying.DETAILS),
        Command("/undo", "take back the last exchange", answer_again.undo, "After /clear: restores the conversation."),
        Command("/clear", "start a new conversation", _clear, "The system message and the parameters stay."),
        Command("/thoughts [N|all]", "show the thoughts before the last answer, or the last N", _thoughts),
        Command("/tools [FILE|off]", "show, load or remove tools that the model may call", _tools, _TOOLS_DETAILS),
        Command("/image FILE", "send a picture with the next message", attach_commands.image, attach_commands.DETAILS),
        Command(
            "/file FILE", "send a document with the next message", attach_commands.file, attach_commands.FILE_DETAILS
        ),
        Command("/audio FILE", "send a sound with the next message", attach_commands.audio, attach_commands.DETAILS),
        Command("/stats", "show tokens, speed and context", _stats),
        Command("/bye", "leave, like Ctrl-D", _bye),
    )
}
ALIASES = {"/exit": "/bye", "/quit": "/bye", "/?": "/help"}
_FORCIBLE = ("/save", "/load")
KEYS = '''\
"""             start and end a message of several lines; pasted lines are one message
Alt+Enter       new line
Up, Down        earlier messages; Ctrl-R searches them
/ ...           a command; with a leading space, an ordinary message
Tab             complete commands, parameters, models and files
Ctrl-X Ctrl-E   edit in $EDITOR
Ctrl-C          stop the answer'''
