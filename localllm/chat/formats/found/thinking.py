"""Finds out by rendering whether a model thinks before it answers, and how its template marks reasoning and turn ends.

If no rendering shows reasoning, the tags in `THOUGHTS` are searched in the difference between prompts with and without
thinking, and finally in the template's source text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from localllm.chat.formats.found.building import common_end, common_start
from localllm.chat.formats.found.rendering import (
    LATER,
    NAME,
    NOT_THINKING,
    ONE,
    TEXT,
    THINKING,
    THOUGHT,
    USER,
    Answer,
    Renderings,
)
from localllm.types.conversation import Message
from localllm.types.formats import ChatFormat, Thinking
from localllm.types.structures import THOUGHTS, Tags

_EFFORTS = ("low", "medium", "high")
_OPENED = re.compile(r"<([^<>/\s]+)>\s*$")
_MARKER = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")


class Switch(msgspec.Struct, frozen=True):
    """Variables that may enable and disable thinking in a template."""

    on: dict[str, Any]
    off: dict[str, Any]


SWITCHES = (
    Switch(THINKING, NOT_THINKING),
    Switch({**THINKING, "thinking_mode": "enabled"}, {**NOT_THINKING, "thinking_mode": "disabled"}),
    Switch({**THINKING, "reasoning_effort": "high"}, {**NOT_THINKING, "reasoning_effort": "no_think"}),
    Switch(THINKING, {**NOT_THINKING, "thinking_budget": 0}),
)
"""Of most templates; of MiniMax M3; of Hunyuan 3; of Seed-OSS."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a template other than its calls. See `ChatFormat`."""

    thought: Tags | None = None
    behind_thought: str = ChatFormat().behind_thought
    text: Tags | None = None
    turn_end: str = ""
    switch: Switch | None = None
    """Variables that switch thinking, if any do."""
    prompts: tuple[str, str, str] = ("", "", "")
    """Prompts with thinking, without it, and by default."""
    efforts: bool = False
    thought_by_effort: tuple[tuple[str, Tags], ...] = ()
    shows_tools: bool = False
    omits_messages: bool = False

    @property
    def words(self) -> tuple[str, str]:
        """The switch as a format stores it; empty for the common one."""
        switch = self.switch
        if switch is None or switch == SWITCHES[0]:
            return "", ""
        return json.dumps(switch.on), json.dumps(switch.off)

    def thinking(self, thought: Tags | None) -> Thinking:
        """Whether a model with these tags thinks."""
        return "never" if thought is None else "switchable" if self.switch else "always"

    def begins(self, thought: Tags | None) -> bool:
        """Whether prompts end inside the reasoning if thinking is enabled.

        By default, the model may decide for itself (MiniMax M3).
        """
        if thought is None:
            return False
        on, off, unsaid = self.prompts
        opens = [each.rstrip().endswith(thought.opening.rstrip()) for each in (on, unsaid)]
        return opens[0] and (opens[1] or unsaid == off)


def facts_of(made: Renderings) -> Facts:
    """The facts that renderings reveal."""
    switch = _switch(made)
    used = switch or SWITCHES[0]
    thought, behind = _thought(made, used)
    text = _text_tags(made, thought)
    efforts = _takes_efforts(made)
    prompts = [prompt for tools in (True, False) if (prompt := made.prompt(tools=tools)) is not None]
    return Facts(
        thought=thought,
        behind_thought=behind,
        text=text,
        turn_end=_turn_end(made, text),
        switch=switch,
        prompts=_three(made, used),
        efforts=efforts,
        thought_by_effort=tuple(_by_effort(made)) if efforts else (),
        shows_tools=made.shows_tools and NAME in (made.prompt() or ""),
        omits_messages=bool(prompts) and all(USER not in prompt for prompt in prompts),
    )


def _thought(made: Renderings, switch: Switch) -> tuple[Tags | None, str]:
    """The tags around reasoning, and the text after it."""
    for variables in (switch.on, {}):
        for text, calls in ((TEXT, ()), (TEXT, (ONE,)), ("", (ONE,))):
            answer = made.answer(*calls, text=text, thought=THOUGHT, variables=variables)
            found = _around(made, answer) if answer is not None and answer.thought else None
            if found is not None:
                return found
    for shown in (*_endings(made, switch), *_differences(made, switch)):
        named = _named(shown)
        if named is not None:
            return named, _behind(made, named)
    return _named_whole(made.template), ChatFormat().behind_thought


def _around(made: Renderings, answer: Answer) -> tuple[Tags, str] | None:
    """The tags around an answer's reasoning, and the blanks after them."""
    before, _, after = answer.rendered.rpartition(THOUGHT)
    before = before.rstrip()
    marker = _MARKER.match(after.lstrip())
    for closing in (marker[0],) if marker else ():
        for opening in _mirrored(closing):
            if before.endswith(opening):
                between = after.partition(closing)[2]
                return Tags(opening, closing), between[: len(between) - len(between.lstrip())]
    between, is_text, _ = after.partition(TEXT)
    plain = made.answer(text=TEXT)
    if not is_text or answer.calls or plain is None or not between.strip():
        return None
    header = _whole_markers(common_start(plain.rendered, before))
    if USER not in header or header == before:
        return None
    return Tags(before[len(header) :], between.strip()), between[len(between.rstrip()) :]


def _behind(made: Renderings, thought: Tags) -> str:
    """The blanks between the end of empty reasoning and a text."""
    answer = made.answer(text=TEXT)
    before = answer.rendered.rpartition(TEXT)[0] if answer is not None else ""
    is_written = before.rstrip().endswith(thought.closing)
    return before[len(before.rstrip()) :] if is_written else ChatFormat().behind_thought


def _whole_markers(text: str) -> str:
    """The text without an incomplete marker at its end."""
    return re.sub(r"<[^<>]*$", "", text)


def _mirrored(closing: str) -> Iterator[str]:
    """Candidates for the opening of a closing tag: `<x>` for `</x>`, `<|START_X|>` for `<|END_X|>`."""
    yield from (each.opening for each in THOUGHTS if each.closing == closing)
    if "/" in closing:
        yield closing.replace("/", "", 1)
    for word, opposite in (("END", "START"), ("end", "begin"), ("end", "start"), ("close", "open")):
        if word in closing:
            yield closing.replace(word, opposite)


def _switch(made: Renderings) -> Switch | None:
    """The first switch that changes prompts, and whose value for no thinking the template knows."""
    for each in SWITCHES:
        if all(on == off for on, off in _prompts(made, each)):
            continue
        word = next((value for name, value in each.off.items() if name not in NOT_THINKING), None)
        unknown: Any = 98765 if word == 0 else "qzword"
        with_unknown = {name: unknown if value is word else value for name, value in each.off.items()}
        other = made.prompt(with_unknown) or ""
        if word is None or other.replace(str(unknown), str(word)) != made.prompt(each.off):
            return each
    return None


def _three(made: Renderings, switch: Switch) -> tuple[str, str, str]:
    on, off, unsaid = (
        made.prompt(each) or made.prompt(each, tools=False) or "" for each in (switch.on, switch.off, {})
    )
    return on, off, unsaid


def _prompts(made: Renderings, switch: Switch) -> Iterator[tuple[str, str]]:
    for tools in (True, False):
        thinking, not_thinking = made.prompt(switch.on, tools=tools), made.prompt(switch.off, tools=tools)
        if thinking is not None and not_thinking is not None:
            yield thinking, not_thinking


def _endings(made: Renderings, switch: Switch) -> Iterator[str]:
    """The ends of prompts: the text after the user's message."""
    for prompts in _prompts(made, switch):
        yield from (prompt.rpartition(USER)[2] for prompt in prompts)


def _differences(made: Renderings, switch: Switch) -> Iterator[str]:
    """Text of prompts that differs between thinking and not thinking."""
    for thinking, not_thinking in _prompts(made, switch):
        start = len(common_start(thinking, not_thinking))
        end = len(common_end(thinking[start:], not_thinking[start:]))
        yield thinking[max(0, start - 20) : len(thinking) - end + 20] if thinking != not_thinking else ""


def _named(text: str) -> Tags | None:
    """The first tags of which the text contains one."""
    return next((each for each in THOUGHTS if each.opening in text or each.closing in text), None)


def _named_whole(template: str) -> Tags | None:
    """The first tags that both occur in the template's source text: the last resort."""
    return next((each for each in THOUGHTS if each.opening in template and each.closing in template), None)


def _takes_efforts(made: Renderings) -> bool:
    low, _, high = (made.prompt({**THINKING, "reasoning_effort": each}) for each in _EFFORTS)
    return low is not None and high is not None and low != high


def _by_effort(made: Renderings) -> Iterator[tuple[str, Tags]]:
    """The tags that prompts of an effort open, where these are not those of every effort."""
    opened = {each: _OPENED.search(made.prompt({**THINKING, "reasoning_effort": each}) or "") for each in _EFFORTS}
    if len({found and found[1] for found in opened.values()}) > 1:
        yield from ((each, Tags(f"<{found[1]}>", f"</{found[1]}>")) for each, found in opened.items() if found)


def _text_tags(made: Renderings, thought: Tags | None) -> Tags | None:
    """The tags around text."""
    answer = made.answer(text=TEXT)
    if answer is None or not answer.text:
        return None
    header = without_thought(answer.prompt, thought)
    before, _, after = answer.rendered.rpartition(TEXT)
    if not before.startswith(header):
        return None
    opening = before[len(header) :].strip()
    for each in (thought.opening, thought.closing) if thought else ():
        opening = opening.removeprefix(each).lstrip()
    marker = _MARKER.match(after.lstrip())
    return Tags(opening, marker[0]) if marker and opening and opening in _mirrored(marker[0]) else None


def without_thought(prompt: str, thought: Tags | None) -> str:
    """The prompt without reasoning tags at its end."""
    for tag in (thought.closing, thought.opening) if thought else ():
        end = prompt.rstrip()
        prompt = end.removesuffix(tag.strip()) if end.endswith(tag.strip()) else prompt
    return prompt


def _turn_end(made: Renderings, text: Tags | None) -> str:
    """The text after an answer both at the end of a conversation and within one."""
    user, answer = Message("user", USER), Message("assistant", TEXT)
    last = made.turns(user, answer)
    between = made.turns(user, answer, Message("user", LATER))
    if last is None or between is None or TEXT not in last or not re.search(f"{TEXT}.*{LATER}", between, re.DOTALL):
        return ""
    ends = (last[last.rindex(TEXT) + len(TEXT) :], between[between.rindex(TEXT) + len(TEXT) : between.rindex(LATER)])
    end = _whole_markers(common_start(*ends)).removeprefix(text.closing if text else "")
    first = _MARKER.search((made.turns(user) or "").removeprefix(made.bos_token))
    return end.partition(first[0])[0] if first else end
