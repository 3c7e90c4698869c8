"""The slash commands of the chat: names, help and effects on a conversation. Knows no terminal and no HTTP."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localllm.cli.chat import attach_commands, saved, set_command, tools
from localllm.cli.chat.conversation import Conversation, Leave
from localllm.cli.chat.parameters import unquoted
from localllm.cli.chat.saved import SavedChat
from localllm.cli.chat.tools import Tools
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.types import RANDOM_SEED

EXCERPT_CHARS = 60


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


def _model(chat: Conversation, argument: str) -> None:
    if not argument:
        names = chat.talk.model_names()
        report.say("\n".join(f"{'*' if name == chat.talk.model_id else ' '} {name}" for name in names))
        return
    if chat.switch is None:
        raise UnsupportedParameter(
            "this chat cannot switch models; start another one with `localllm run`", param="model"
        )
    talk = chat.switch(argument)
    talk.params, talk.think, talk.tools = chat.talk.params, chat.talk.think, chat.talk.tools
    talk.attachments = chat.talk.attachments
    chat.talk = talk
    continues = "; the conversation continues" if chat.turns and not talk.raw else ""
    report.say(f"switched to {talk.model_id}{continues}")
    if talk.raw:
        report.say(f"{talk.model_id} has no chat template: it continues each line, without the conversation")


def _save(chat: Conversation, argument: str) -> None:
    force, argument = _forced(argument)
    if not chat.turns and chat.system is None:
        report.say("there is nothing to save yet")
        return
    if argument:
        path = Path(unquoted(argument)).expanduser()
        path = path if path.suffix else path.with_suffix(".json")
    else:
        path = chat.file or Path(time.strftime("chat-%Y-%m-%d-%H%M%S.json"))
    content = SavedChat(
        localllm_chat=saved.VERSION,
        model=chat.talk.model_id,
        system=chat.system,
        parameters=chat.talk.params,
        messages=tuple(chat.turns),
        tools=tuple(chat.talk.tools.entries) if isinstance(chat.talk.tools, Tools) else (),  # MCP tools are not saved
    )
    saved.save(path, content, replace=force or path == chat.file)
    chat.file, chat.is_saved = path, True
    report.say(f"saved {_count(len(chat.turns))} to {path}")


def _load(chat: Conversation, argument: str) -> None:
    force, argument = _forced(argument)
    if not argument:
        raise InvalidParameter("which file? /load FILE", param="file")
    if chat.turns and not chat.is_saved and not force:
        raise InvalidParameter(
            f"{_count(len(chat.turns))} would be lost: /save them first, or discard them with /load! FILE", param="file"
        )
    path = Path(unquoted(argument)).expanduser()
    path = path.with_suffix(".json") if not path.suffix and not path.exists() else path
    found = saved.load(path)
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
    chat.file, chat.is_saved = path, True
    other_model = f"; the model was {found.model}" if found.model not in ("", chat.talk.model_id) else ""
    report.say(f"loaded {_count(len(chat.turns))}{other_model}")
    for attachment in (each for turn in chat.turns for each in turn.attached):
        if why := chat.talk.attachments.restore(attachment):
            report.say(f"{attachment.path} {why}; the model reads a note in its place")
    for turn in chat.turns[-2:]:
        called = " ".join(f"calls {tools.shown(call)}" for call in turn.calls)
        report.say(f"{turn.role}: {excerpt(f'{turn.shown} {called}')}")


def _regen(chat: Conversation, _: str) -> None:
    if chat.unanswered is not None:
        chat.ask(chat.unanswered)
        return
    place = _last_question(chat)
    if place is None:
        report.say("there is no message to answer again")
        return
    removed, chat.turns = chat.turns[place:], chat.turns[:place]
    num_before = len(chat.turns)
    ends_with_result = removed[-1].role == "tool" and not removed[-1].interrupted  # the answer to it is missing
    params = chat.talk.params
    if not ends_with_result and (params.seed not in (None, RANDOM_SEED) or params.temperature == 0):
        why = "temperature is 0" if params.temperature == 0 else f"seed is {params.seed}"
        report.say(f"the answer will likely be the same: {why}")
    try:
        chat.resume(removed if ends_with_result else removed[:1])
    finally:
        if len(chat.turns) == num_before:  # no new answer, so the old one stays
            chat.turns += removed


def _undo(chat: Conversation, _: str) -> None:
    place = _last_question(chat)
    if chat.pending:
        report.say(f"took back: {' '.join(each.shown for each in chat.pending)}")
        chat.pending = []
    elif place is not None:
        report.say(f"took back: {excerpt(chat.turns[place].shown)}")
        del chat.turns[place:]
        chat.is_saved = False
    elif chat.cleared:
        chat.turns, chat.cleared = chat.cleared, []
        report.say(f"restored {_count(len(chat.turns))}")
    else:
        report.say("there is nothing to take back")


def _clear(chat: Conversation, _: str) -> None:
    if chat.turns:
        chat.cleared, chat.turns = chat.turns, []
    chat.unanswered, chat.pending = None, []
    report.say("new conversation; /undo restores the old one" if chat.cleared else "new conversation")


def _stats(chat: Conversation, _: str) -> None:
    report.say("\n".join(chat.totals.lines(chat.talk.model_id, chat.talk.ctx)))


def _bye(_chat: Conversation, _: str) -> None:
    raise Leave


def _last_question(chat: Conversation) -> int | None:
    """The index in `turns` where the last exchange begins."""
    places = [place for place, turn in enumerate(chat.turns) if turn.role == "user"]
    return places[-1] if places else None


def _forced(argument: str) -> tuple[bool, str]:
    return (True, argument[1:].strip()) if argument.startswith("!") else (False, argument)


def _count(messages: int) -> str:
    return "1 message" if messages == 1 else f"{messages} messages"


def excerpt(text: str) -> str:
    """The beginning of a message, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT_CHARS else line[: EXCERPT_CHARS - 1] + "…"


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
        Command("/model [NAME]", "list models, or switch to another", _model),
        Command(
            "/save [FILE]",
            "save the chat as JSON",
            _save,
            "Without FILE: the file of the last /save or /load, or a new one here. /save! overwrites another file.",
        ),
        Command("/load FILE", "continue a saved chat", _load, "/load! discards an unsaved conversation."),
        Command("/regen", "answer the last message again", _regen, "Also resends a message that got no answer."),
        Command("/undo", "take back the last exchange", _undo, "After /clear: restores the conversation."),
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
