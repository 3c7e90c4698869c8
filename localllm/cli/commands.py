"""The commands of the chat: names, help, and what they do to a conversation. Knows no terminal and no HTTP."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localllm.cli import report, saved, set_command, tools
from localllm.cli.conversation import Conversation, Leave
from localllm.cli.saved import SavedChat
from localllm.cli.settings import unquoted
from localllm.cli.tools import Tools
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
    """Whether its argument may have several lines."""

    @property
    def name(self) -> str:
        return self.usage.split()[0]


def is_command(text: str) -> bool:
    """Whether it is one, or a mistyped one; `/usr/bin is ...` is a message, as is what begins with a space."""
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
        report.say(f"there is no {word}" + (f"; did you mean {near[0]}?" if near else "; /help lists what there is"))
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
        report.say(f"there is no {name}; /help lists what there is")
        return
    report.say(f"{command.usage}\n{command.summary}" + (f"\n\n{command.details}" if command.details else ""))


def _thoughts(chat: Conversation, argument: str) -> None:
    if argument not in ("", "all") and not (argument.isdecimal() and int(argument) > 0):
        raise InvalidParameter("/thoughts takes nothing, a number of answers, or all", param="thoughts")
    if not chat.thoughts:
        report.say("there are no thoughts yet; /set think on asks for some, where the model can think")
    most = len(chat.thoughts) if argument == "all" else int(argument or 1)
    for thought in chat.thoughts[-most:]:
        size = f", {thought.num_tokens} tokens" if thought.num_tokens else ""
        report.say(f"[thought{f' for {thought.seconds:.1f} s' if thought.seconds else ''}{size}]")
        report.say(thought.text)


def _tools(chat: Conversation, argument: str) -> None:
    given = chat.talk.tools
    if not argument and given is None:
        report.say("there are no tools; /tools FILE loads some")
    elif not argument and given is not None:
        report.say("\n".join(given.lines()))
    elif argument == "off":
        chat.talk.tools = None
        report.say("there are no tools any more")
    elif chat.talk.raw:
        report.say("a model without chat template takes no tools")
    elif chat.talk.document is not None:
        raise InvalidParameter("answers are documents here, which call nothing", param="tools")
    else:
        chat.talk.tools = loaded = tools.load_tools(Path(unquoted(argument)).expanduser())
        report.say("\n".join(loaded.lines()))
        report.say("when one is called, you are asked for its result; /tools off takes them away")


def _model(chat: Conversation, argument: str) -> None:
    if not argument:
        names = chat.talk.model_names()
        report.say("\n".join(f"{'*' if name == chat.talk.model_id else ' '} {name}" for name in names))
        return
    if chat.switch is None:
        raise UnsupportedParameter(
            "this chat cannot change its model; start another with `localllm run`", param="model"
        )
    talk = chat.switch(argument)
    talk.params, talk.think, talk.tools = chat.talk.params, chat.talk.think, chat.talk.tools
    chat.talk = talk
    goes_on = "; the conversation goes on" if chat.turns and not talk.raw else ""
    report.say(f"{talk.model_id} answers now{goes_on}")
    if talk.raw:
        report.say(f"{talk.model_id} has no chat template: each line is continued, and the conversation waits")


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
        tools=tuple(chat.talk.tools.entries) if isinstance(chat.talk.tools, Tools) else (),  # servers' are not a file's
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
            f"{_count(len(chat.turns))} would be lost: /save them first, or /load! FILE drops them", param="file"
        )
    path = Path(unquoted(argument)).expanduser()
    path = path.with_suffix(".json") if not path.suffix and not path.exists() else path
    found = saved.load(path)
    if chat.talk.raw and found.messages:
        raise UnsupportedParameter(
            f"{chat.talk.model_id} has no chat template and cannot go on with a chat", param="file"
        )
    chat.turns, chat.system, chat.cleared, chat.unanswered = list(found.messages), found.system, [], None
    chat.talk.params = found.parameters
    if found.tools or isinstance(chat.talk.tools, Tools):  # MCP servers stay with the chat
        chat.talk.tools = Tools(list(found.tools), path) if found.tools else None
    chat.restore_thoughts()
    chat.file, chat.is_saved = path, True
    other = f"; it was with {found.model}" if found.model not in ("", chat.talk.model_id) else ""
    report.say(f"loaded {_count(len(chat.turns))}{other}")
    for turn in chat.turns[-2:]:
        called = " ".join(f"calls {tools.shown(call)}" for call in turn.calls)
        report.say(f"{turn.role}: {excerpt(f'{turn.content} {called}')}")


def _regen(chat: Conversation, _: str) -> None:
    if chat.unanswered is not None:
        chat.answer(chat.unanswered)
        return
    place = _last_question(chat)
    if place is None:
        report.say("there is nothing to answer again")
        return
    taken, chat.turns = chat.turns[place:], chat.turns[:place]
    kept = len(chat.turns)
    waits = taken[-1].role == "tool" and not taken[-1].interrupted  # for the answer to a result
    params = chat.talk.params
    if not waits and (params.seed not in (None, RANDOM_SEED) or params.temperature == 0):
        why = "temperature is 0" if params.temperature == 0 else f"seed is {params.seed}"
        report.say(f"the same answer is likely: {why}")
    try:
        chat.resume(taken if waits else taken[:1])
    finally:
        if len(chat.turns) == kept:  # the old answer is better than none
            chat.turns += taken


def _undo(chat: Conversation, _: str) -> None:
    place = _last_question(chat)
    if place is not None:
        report.say(f"took back: {excerpt(chat.turns[place].content)}")
        del chat.turns[place:]
        chat.is_saved = False
    elif chat.cleared:
        chat.turns, chat.cleared = chat.cleared, []
        report.say(f"{_count(len(chat.turns))} are back")
    else:
        report.say("there is nothing to take back")


def _clear(chat: Conversation, _: str) -> None:
    if chat.turns:
        chat.cleared, chat.turns = chat.turns, []
    chat.unanswered = None
    report.say("a new conversation; /undo brings the old one back" if chat.cleared else "a new conversation")


def _stats(chat: Conversation, _: str) -> None:
    report.say("\n".join(chat.totals.lines(chat.talk.model_id, chat.talk.ctx)))


def _bye(_chat: Conversation, _: str) -> None:
    raise Leave


def _last_question(chat: Conversation) -> int | None:
    """Where the last exchange begins."""
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
FILE is JSON: an array of OpenAI's tools, or {"tools": [...]}. When the model calls one, you are
shown the call and asked for its result: a line, or several between triple quotes; an empty line
is null. Ctrl-C gives none, and the chat goes on."""

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("/help [COMMAND]", "this, or more about a command", _help),
        Command(
            "/set [NAME [VALUE]]", "show or set parameters", set_command.set_, set_command.DETAILS, takes_lines=True
        ),
        Command(
            "/system [TEXT]",
            "show or set the system message",
            set_command.system,
            'The conversation goes on. /system "" removes the message.',
            takes_lines=True,
        ),
        Command("/model [NAME]", "list models, or go on with another", _model),
        Command(
            "/save [FILE]",
            "save the chat as JSON",
            _save,
            "Without FILE: where it was saved or loaded, else a new file here. /save! replaces a file of another chat.",
        ),
        Command("/load FILE", "go on with a saved chat", _load, "/load! drops a conversation that is not saved."),
        Command("/regen", "answer the last message again", _regen, "Also sends a message that could not be answered."),
        Command("/undo", "take back the last exchange", _undo, "After /clear: brings the conversation back."),
        Command("/clear", "begin a new conversation", _clear, "The system message and the parameters stay."),
        Command("/thoughts [N|all]", "what was thought before the last answer, or before the last N", _thoughts),
        Command("/tools [FILE|off]", "show, load or drop tools that the model may call", _tools, _TOOLS_DETAILS),
        Command("/stats", "tokens, speed and context", _stats),
        Command("/bye", "leave, as does Ctrl-D", _bye),
    )
}
ALIASES = {"/exit": "/bye", "/quit": "/bye", "/?": "/help"}
_FORCIBLE = ("/save", "/load")
KEYS = '''\
"""             begin and end a message of several lines; pasted lines are one message
Alt+Enter       a new line
Up, Down        earlier messages; Ctrl-R searches them
/ ...           a command; with a space before it, a message like any other
Tab             complete commands, parameters, models and files
Ctrl-X Ctrl-E   write in $EDITOR
Ctrl-C          stop the answer'''
