"""Finds the format in which a chat template's model writes answers, by rendering sentinels. The first of these matches:

1. A known format that writes the calls exactly as rendered, blanks included, and reads them back; of several, the one
   that explains most of the rendering.
2. A format derived from the rendering that passes the same test, named after the known one that reads it.
3. A known format that reads the rendering, although blanks differ.
4. If the template writes no calls: a known format whose markers occur in a prompt with tools.
5. The generic format, with a note saying why.
The template's source text is never used. Takes as long as the template does, so call it only in a process with limits.
"""

from __future__ import annotations

import functools
import re

from msgspec.structs import replace

from localllm.chat.formats.found.building import CallText, built, common_end
from localllm.chat.formats.found.checking import reads_back, writes
from localllm.chat.formats.found.rendering import (
    EMPTY,
    FUNCTIONS,
    ONE,
    SECOND,
    SENTINELS,
    SEVERAL,
    TEXT,
    THOUGHT,
    USER,
    Answer,
    Renderings,
)
from localllm.chat.formats.found.thinking import SWITCHES, Facts, facts_of, without_thought
from localllm.chat.formats.known import DESCRIBED, GENERIC, SHOWN_BY
from localllm.chat.formats.odd import ODD
from localllm.types.conversation import ToolCall
from localllm.types.formats import ChatFormat, ObjectCall

MOST_ANSWER = 2000
"""Maximum length of an answer made of sentinels, in characters."""


@functools.lru_cache(maxsize=8)
def format_of(template: str, *, bos_token: str = "", eos_token: str = "") -> ChatFormat:
    """A template's format, found by a few dozen small renderings, and cached. Never fails."""
    made = Renderings(template, bos_token, eos_token)
    facts = facts_of(made)
    samples = _samples(made, facts)
    if samples:
        return (
            _known(samples, facts)
            or _built(samples, facts)
            or _generic(facts, "the template writes calls in a way that could not be read back")
        )
    if not facts.shows_tools:
        return _generic(facts, "the template knows no tools")
    shown = made.prompt() or ""
    return _spelled_out(shown, facts) or _generic(facts, "the template shows tools, but not how to call them")


def _samples(made: Renderings, facts: Facts) -> list[Answer]:
    """Answers with calls as the template renders them, the most informative ones first."""
    found = []
    for variables in ((facts.switch or SWITCHES[0]).on, {}):
        for calls in ((ONE, SECOND), (ONE,), (SEVERAL,), (EMPTY,), ()):
            for text, thought in ((TEXT, THOUGHT), (TEXT, ""), ("", "")):
                answer = made.answer(*calls, text=text, thought=thought, variables=variables)
                if answer is not None and (calls or answer.text) and not _is_parted(answer, facts):
                    found.append(answer)
        if any(each.calls for each in found):
            return found
    return []


def _is_parted(answer: Answer, facts: Facts) -> bool:
    """Whether the template rendered the answer as two turns, which no model writes as one."""
    mark = facts.turn_end.strip()
    behind = answer.rendered[answer.rendered.rindex(USER) :]
    parts = [each for each in (answer.text, *(call.name for call in answer.calls)) if each]
    places = [behind.rindex(each) for each in parts]
    return bool(mark) and mark in behind[min(places) : max(places)]


def _known(samples: list[Answer], facts: Facts) -> ChatFormat | None:
    first = samples[0]
    fitting = [(len(writes(each, first.calls, first.rendered)), each) for each in DESCRIBED]
    fitting.sort(key=lambda each: -each[0])
    for length, each in fitting:
        format = _with(each, facts)
        if length and _reads(format, samples):
            return format
    return None


def _built(samples: list[Answer], facts: Facts) -> ChatFormat | None:
    reading = next((each for each in DESCRIBED if _reads(_with(each, facts), samples)), None)
    if reading is not None and reading in ODD:  # these need more than literals
        return _with(reading, facts)
    pairs = [each for each in samples if each.calls == (ONE, SECOND)]
    singles = [each for each in samples if each.calls == (ONE,)]
    for one in singles:
        two = next((each for each in pairs if (each.text, each.thought) == (one.text, one.thought)), None)
        calls = built(_written(one, facts), _written(two, facts) if two is not None else None)
        if calls is None or any(each in literal for literal in ChatFormat(calls=calls).literals for each in SENTINELS):
            continue
        found = _with(ChatFormat(name=reading.name if reading else "found", origin="found", calls=calls), facts)
        if writes(found, samples[0].calls, samples[0].rendered) and _reads(found, samples):
            return found
    return reading and _with(reading, facts)


def _spelled_out(shown: str, facts: Facts) -> ChatFormat | None:
    """The known format with the most literals in the prompt, if all of its call markers occur there."""
    best = max(((_spelled(each, shown), each) for each in DESCRIBED), key=lambda each: each[0])
    return _with(best[1], facts) if best[0] else None


def _spelled(format: ChatFormat, shown: str) -> int:
    if any(mark in shown for mark in SHOWN_BY.get(format.name, ())):
        return 1
    calls = format.calls
    if calls is None or calls.is_bare:
        return 0
    marks = [mark.strip() for mark in replace(format, thought=None, behind_thought="").literals if mark.strip()]
    return sum(map(len, marks)) if all(mark in shown for mark in marks) else 0


def _with(format: ChatFormat, facts: Facts) -> ChatFormat:
    """Complete a format with the facts about the template."""
    thought, text = format.thought or facts.thought, format.text or facts.text
    return replace(
        format,
        thought=thought,
        behind_thought=format.behind_thought if format.thought else facts.behind_thought,
        text=text,
        turn_end=facts.turn_end.removeprefix(text.closing if text else "") or format.turn_end,
        thinking=facts.thinking(thought),
        begins_thought=facts.begins(thought),
        switch=facts.words if thought else ("", ""),
        efforts=facts.efforts,
        thought_by_effort=facts.thought_by_effort if thought else (),
        shows_tools=facts.shows_tools,
        omits_messages=facts.omits_messages,
    )


def _generic(facts: Facts, note: str) -> ChatFormat:
    return replace(_with(GENERIC, facts), note=note)


def _reads(format: ChatFormat, samples: list[Answer]) -> bool:
    """Whether the format reads all samples. For a format made here, the first one, which contains most, is also cut at
    every place; tests do so for those of `DESCRIBED`, since it takes longer than everything else."""
    for number, each in enumerate(samples):
        if each.calls == (SEVERAL,) and not writes(format, each.calls, each.rendered):
            continue  # some templates write objects in Python syntax
        answer = answer_text(each, format)
        expected = expected_of(each, answer, format)
        if len(answer) > MOST_ANSWER:
            return False
        in_thought = is_within_thought(each, answer, format)
        everywhere = number == 0 and format.origin == "found"
        if not reads_back(format, FUNCTIONS, answer, expected, in_thought=in_thought, everywhere=everywhere):
            return False
    return True


def expected_of(answer: Answer, text: str, format: ChatFormat) -> tuple[str, str, tuple[ToolCall, ...]]:
    """The text, reasoning and calls that must be read. Text with calls may be written as reasoning (gpt-oss)."""
    before = text.partition(answer.text)[0].rstrip() if answer.text else ""
    if before and not answer.thought and format.thought and before.endswith(format.thought.opening.strip()):
        return "", answer.text, answer.calls
    return answer.text, answer.thought, answer.calls


def is_within_thought(answer: Answer, text: str, format: ChatFormat) -> bool:
    """Whether only the prompt contains the opening of the reasoning (Apriel)."""
    return bool(answer.thought and format.thought and not text.lstrip().startswith(format.thought.opening.strip()))


def answer_text(answer: Answer, format: ChatFormat) -> str:
    """The part that the model would have written: after the prompt and before the end of the turn."""
    text = answer.rendered[_start(answer, format) : len(answer.rendered) - len(_tail(answer))]
    if format.thought is not None and not answer.thought:
        text = text.lstrip().removeprefix(format.thought.opening).lstrip().removeprefix(format.thought.closing)
    made = writes(format, answer.calls, text) or (_closing(format) if answer.calls else "")
    if made and made in text:
        end = text.rfind(made) + len(made)
        if answer.text and answer.text in text[end:]:  # Gemma's template writes text after the calls
            end = text.rindex(answer.text) + len(answer.text)
        return text[:end]
    mark = format.turn_end if format.turn_end in text else format.turn_end.strip()
    where = text.rfind(mark) if mark else -1
    parts = [each for each in (answer.text, answer.thought) if each]
    return text if where < 0 or any(each in text[where:] for each in parts) else text[:where]


def _closing(format: ChatFormat) -> str:
    """The literal at the end of the last call."""
    calls = format.calls
    if calls is None:
        return ""
    call = calls.call
    return (calls.end or (call.after if isinstance(call, ObjectCall) else call.slots[-1].behind)).strip()


def _start(answer: Answer, format: ChatFormat) -> int:
    """Offset of the answer: after the header in the prompt, or else after the header of a text answer."""
    prompt = without_thought(answer.prompt, format.thought)
    before_text = answer.before_text.removesuffix(format.text.opening if format.text else "")
    for header in (prompt, prompt.rstrip(), before_text):
        if USER in header and answer.rendered.startswith(header):
            return len(header)
    return answer.rendered.rindex(USER) + len(USER)


def _tail(answer: Answer) -> str:
    """The text at the end of every conversation, limited to whole markers."""
    tail = common_end(answer.rendered, answer.without)
    return re.sub(r"^[^<>]*>", "", tail) if "<" in tail or ">" in tail else tail


def _written(answer: Answer, facts: Facts) -> CallText:
    """The part of the answer that contains the calls."""
    text = answer_text(answer, ChatFormat(thought=facts.thought, turn_end=facts.turn_end))
    for mark in (answer.thought, facts.thought.closing if answer.thought and facts.thought else "", answer.text):
        text = text.rpartition(mark)[2] if mark else text
    return CallText(text, answer.calls)
