"""Answers for tests: some formats, and what a reader makes of a text, however it is cut."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from localllm.chat.formats.reader import reader_of
from localllm.types.conversation import Function
from localllm.types.formats import (
    Calls,
    ChatFormat,
    ObjectCall,
    PatternCall,
    Slot,
    TaggedArguments,
)
from localllm.types.structures import Tags

THINK = Tags("<think>\n", "\n</think>")
HERMES = ChatFormat(
    name="hermes",
    thought=THINK,
    calls=Calls(call=ObjectCall(before="<tool_call>\n", after="\n</tool_call>"), between="\n"),
)
QWEN_CODER = ChatFormat(
    name="qwen3-coder",
    thought=THINK,
    calls=Calls(
        call=PatternCall(
            before="<tool_call>\n<function=",
            slots=(Slot("name", ">\n"), Slot("arguments", "</function>\n</tool_call>")),
        ),
        arguments=TaggedArguments(before="<parameter=", behind_key=">\n", after="\n</parameter>\n"),
        between="\n",
    ),
)
GLM = ChatFormat(
    name="glm",
    thought=Tags("<think>", "</think>"),
    behind_thought="\n",
    calls=Calls(
        call=PatternCall(before="<tool_call>", slots=(Slot("name", "\n"), Slot("arguments", "</tool_call>"))),
        arguments=TaggedArguments(before="<arg_key>", behind_key="</arg_key>\n<arg_value>", after="</arg_value>\n"),
        between="\n",
    ),
)
MISTRAL = ChatFormat(
    name="mistral",
    thought=Tags("[THINK]", "[/THINK]"),
    behind_thought="",
    calls=Calls(
        call=PatternCall(
            before="[TOOL_CALLS]", slots=(Slot("name", "[CALL_ID]"), Slot("id", "[ARGS]"), Slot("arguments"))
        )
    ),
)
NEMO = ChatFormat(
    name="nemo",
    calls=Calls(
        call=ObjectCall(keys=(("name", "name"), ("arguments", "arguments"), ("id", "id"))),
        begin="[TOOL_CALLS][",
        between=", ",
        end="]",
    ),
)
DEEPSEEK = ChatFormat(
    name="deepseek-v3.1",
    thought=Tags("<think>", "</think>"),
    behind_thought="",
    calls=Calls(
        call=PatternCall(
            before="<｜tool▁call▁begin｜>",
            slots=(Slot("name", "<｜tool▁sep｜>"), Slot("arguments", "<｜tool▁call▁end｜>")),
        ),
        begin="<｜tool▁calls▁begin｜>",
        end="<｜tool▁calls▁end｜>",
    ),
)
DSML = ChatFormat(
    name="deepseek-v3.2",
    thought=Tags("<think>", "</think>"),
    behind_thought="",
    calls=Calls(
        call=PatternCall(
            before='<｜DSML｜invoke name="',
            slots=(Slot("name", '">\n'), Slot("arguments", "</｜DSML｜invoke>")),
        ),
        arguments=TaggedArguments(
            before='<｜DSML｜parameter name="',
            before_type='" string="',
            type_marks=(("string", "true"), ("*", "false")),
            behind_key='">',
            after="</｜DSML｜parameter>\n",
        ),
        begin="<｜DSML｜function_calls>\n",
        between="\n",
        end="\n</｜DSML｜function_calls>",
    ),
)
KIMI = ChatFormat(
    name="kimi-k2",
    calls=Calls(
        call=PatternCall(
            before="<|tool_call_begin|>functions.",
            slots=(
                Slot("name", ":"),
                Slot("number", "<|tool_call_argument_begin|>"),
                Slot("arguments", "<|tool_call_end|>"),
            ),
        ),
        begin="<|tool_calls_section_begin|>",
        end="<|tool_calls_section_end|>",
    ),
)
COHERE = ChatFormat(
    name="command-a",
    thought=Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    behind_thought="",
    text=Tags("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    calls=Calls(
        call=ObjectCall(keys=(("id", "tool_call_id"), ("name", "tool_name"), ("arguments", "parameters"))),
        begin="<|START_ACTION|>[\n    ",
        between=",\n    ",
        end="\n]<|END_ACTION|>",
    ),
)
APERTUS = ChatFormat(
    name="apertus",
    calls=Calls(call=ObjectCall(keys=()), begin="<|tools_prefix|>[", between=", ", end="]<|tools_suffix|>"),
)
LLAMA = ChatFormat(
    name="llama-3",
    calls=Calls(
        call=ObjectCall(keys=(("name", "name"), ("arguments", "parameters"))),
        is_single=True,
        also_begins=("<|python_tag|>",),
    ),
)
FORMATS = (HERMES, QWEN_CODER, GLM, MISTRAL, NEMO, DEEPSEEK, DSML, KIMI, COHERE, APERTUS, LLAMA)

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "deep": {"type": "object"},
        "either": {"type": ["string", "null"]},
        "loose": {},
    },
    "required": ["city"],
}
FUNCTIONS = (
    Function(name="get_weather", parameters=json.dumps(PARAMETERS)),
    Function(name="other"),
)


class Answer(NamedTuple):
    """What was read."""

    thought: str = ""
    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    """Names and arguments; these as text where they are no JSON."""
    notes: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


def read(format: ChatFormat, pieces: Iterable[str], functions: Sequence[Function] = FUNCTIONS, **kwargs: Any) -> Answer:
    """Reads an answer in these pieces, and checks what holds for each."""
    reader = reader_of(format, functions, **kwargs)
    thought: list[str] = []
    text: list[str] = []
    notes: list[str] = []
    calls: dict[int, list[str]] = {}
    names: list[str] = []
    ids: list[str] = []
    for found in [*map(reader.feed, pieces), reader.flush()]:
        thought.append(found.thought)
        text.append(found.text)
        notes += found.notes
        for call in found.calls:
            if call.index not in calls:
                assert call.index == len(calls)
                assert call.name
                assert call.id
                names.append(call.name)
                ids.append(call.id)
            else:
                assert not call.name
                assert not call.id
                assert call.index == len(calls) - 1
            calls.setdefault(call.index, []).append(call.arguments)
    assert len(set(ids)) == len(ids)
    each_call = zip(names, map(json_or_text, map("".join, calls.values())), strict=True)
    return Answer("".join(thought), "".join(text), tuple(each_call), tuple(notes), tuple(ids))


def json_or_text(text: str) -> Any:
    """What a JSON text says; the text, where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


SOME_CUTS = 5
MANY_CUTS = 24


def many_places(text: str, count: int = MANY_CUTS) -> list[int]:
    """Where to cut it: everywhere; if it is longer, at so many places, which depend on the text alone."""
    places = range(len(text) + 1)
    return sorted(places if len(places) <= count else random.Random(text).sample(places, count))


def at_some_cuts(format: ChatFormat, raw: str, **kwargs: Any) -> Answer:
    """Reads it whole, in two pieces at some places, and one character after the other. Always the same."""
    return _at_cuts(format, raw, many_places(raw, SOME_CUTS), **kwargs)


def at_many_cuts(format: ChatFormat, raw: str, **kwargs: Any) -> Answer:
    """The same, at many places; `test_every_cut.py` tries all."""
    return _at_cuts(format, raw, many_places(raw), **kwargs)


def at_all_cuts(format: ChatFormat, raw: str, **kwargs: Any) -> Answer:
    """The same, in two pieces at every place."""
    return _at_cuts(format, raw, range(len(raw) + 1), **kwargs)


at_cuts = pytest.mark.parametrize(
    "at_cuts",
    [
        pytest.param(at_some_cuts, id="some cuts"),
        pytest.param(at_all_cuts, id="every cut", marks=pytest.mark.exhaustive),
    ],
)
"""For texts whose every cut takes minutes in all families."""


def _at_cuts(format: ChatFormat, raw: str, places: Iterable[int], **kwargs: Any) -> Answer:
    whole = read(format, [raw], **kwargs)
    for cut in places:
        assert without_ids(read(format, [raw[:cut], raw[cut:]], **kwargs)) == without_ids(whole), raw[:cut]
    assert without_ids(read(format, raw, **kwargs)) == without_ids(whole)
    return whole


def without_ids(answer: Answer) -> Answer:
    """Ids are drawn anew each time."""
    return answer._replace(ids=())
