"""`/set` and `/system`: show and change the settings of a conversation. Knows no terminal and no HTTP."""

from __future__ import annotations

import difflib
import re

from localllm.cli.chat import parameters, thinking
from localllm.cli.chat.conversation import Conversation
from localllm.cli.chat.parameters import unquoted
from localllm.cli.shared import report
from localllm.errors import InvalidParameter

DETAILS = """\
/set                      show all parameters
/set temperature          show one
/set temperature 0.2      set it
/set temperature default  use the model's default again
/set stop "END" "\\n\\n"    several strings; JSON works too
/set system TEXT          same as /system
/set think on|hide|off    think and show it, show only a note, or do not think
/set think 500            think with at most 500 tokens
/set markdown on|off      render Markdown, or show its source
/set stats on|off         show a line of figures after each answer"""


def set_(chat: Conversation, argument: str) -> None:
    """`/set [NAME [VALUE]]`. Raises `InvalidParameter`."""
    name, value = re.fullmatch(r"(\S*?)\s*(?:[=\s]\s*(.*))?", argument, re.DOTALL).groups(default="")  # type: ignore[union-attr]
    if not name:
        _list_settings(chat)
    elif name == "system":
        system(chat, value)
    elif name == "think":
        _think(chat, value)
    elif name in parameters.SWITCHES:
        _switch_setting(chat, name, value)
    elif name not in parameters.parameter_names():
        near = difflib.get_close_matches(name, parameters.parameter_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidParameter(f"unknown parameter {name}{hint} (/set lists all)", param=name)
    elif not value:
        report.say(
            f"{name} is {parameters.shown(chat.talk.params, name)}; it takes {parameters.kind(name)}, or default"
        )
    else:
        chat.talk.params = parameters.with_parameter(chat.talk.params, name, value)
        report.say(f"{name} is {parameters.shown(chat.talk.params, name)}")


def _list_settings(chat: Conversation) -> None:
    params = chat.talk.params
    rows = [
        (name, parameters.shown(params, name))
        for name in parameters.parameter_names()
        if name not in parameters.SWITCHES
    ]
    rows += [(name, _switch_value(chat, name)) for name in parameters.SWITCHES]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {value:12}  {parameters.kind(name)}" for name, value in rows]
    report.say("\n".join([*lines, "default: the model's value, or localllm's. /system shows the system message."]))


def _switch_value(chat: Conversation, name: str) -> str:
    if name == "think":
        return str(chat.talk.think)
    return "on" if {"markdown": chat.markdown, "stats": chat.stats}[name] else "off"


def _switch_setting(chat: Conversation, name: str, value: str) -> None:
    if not value:
        report.say(f"{name} is {_switch_value(chat, name)}; it takes {parameters.kind(name)}")
        return
    if value not in parameters.SWITCHES[name]:
        raise InvalidParameter(f"{name} takes {parameters.kind(name)}, not {value!r}", param=name)
    if name == "stats":
        chat.stats = value == "on"
    else:
        chat.markdown = value == "on"
    report.say(f"{name} is {value}")


def _think(chat: Conversation, value: str) -> None:
    if not value:
        report.say(f"think is {chat.talk.think}; it takes {thinking.TAKES}")
        return
    chat.talk.think = chat.talk.think.with_value(value)
    report.say(chat.talk.think.described())


def system(chat: Conversation, argument: str) -> None:
    """`/system [TEXT]`."""
    if chat.talk.raw:
        report.say("a model without a chat template takes no system message")
        return
    if not argument:
        report.say(chat.system if chat.system is not None else "no system message; /system TEXT sets one")
        return
    chat.system = unquoted(argument) or None
    chat.is_saved = chat.is_saved and not chat.turns
    done = "the system message is set" if chat.system is not None else "the system message is removed"
    continues = "; the conversation continues, /clear starts a new one" if chat.turns else ""
    report.say(done + continues)
