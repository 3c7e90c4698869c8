"""What holds for every answer: what is written is read again, nothing is lost, no text waits, time is linear."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localllm.chat.formats.known import DESCRIBED
from localllm.chat.formats.reader import reader_of
from localllm.chat.formats.writer import written
from localllm.types.conversation import ToolCall
from localllm.types.formats import ChatFormat, JsonArguments, PatternCall, TaggedArguments
from tests.unit.chat.formats.answers import (
    COHERE,
    DSML,
    FORMATS,
    FUNCTIONS,
    HERMES,
    LLAMA,
    QWEN_CODER,
    Answer,
    read,
    without_ids,
)

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<[{"), max_size=30)
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | strings
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3), max_leaves=6
)
keys = st.text(st.characters(categories=["L", "N"], include_characters="_"), min_size=1, max_size=8)
KNOWN = [format for format in DESCRIBED if format.calls is not None]
JSON_OR_TAGGED = [
    each for each in KNOWN if each.calls and isinstance(each.calls.arguments, JsonArguments | TaggedArguments)
]
every_known = pytest.mark.parametrize("format", KNOWN, ids=lambda format: format.name)
every_format = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)


def arguments_for(format: ChatFormat) -> st.SearchStrategy[dict[str, object]]:
    assert format.calls is not None
    kind = format.calls.arguments
    if not isinstance(kind, TaggedArguments):
        return st.dictionaries(strings, values, max_size=4)
    # A text is told from JSON by its schema, and ends with the literal behind it. Unknown arguments may be anything.
    texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=20)
    others = values.filter(lambda value: not isinstance(value, str) and kind.after.strip() not in json.dumps(value))
    known = {"city": texts, "days": st.integers()}
    return st.builds(
        lambda first, rest: {**rest, **first},
        st.fixed_dictionaries({}, optional=known),
        st.dictionaries(keys.filter(lambda key: key not in ("city", "days", "either")), others, max_size=3),
    )


def json_for(name: str, arguments: dict[str, object]) -> str:
    """Without texts that no schema tells from JSON."""
    is_known = name == "get_weather"
    return json.dumps({key: each for key, each in arguments.items() if is_known or key != "city"}, ensure_ascii=False)


@st.composite
def answers(draw: st.DrawFn, format: ChatFormat) -> tuple[str, str, list[ToolCall]]:
    thought = draw(words).strip() if format.thought is not None else ""
    text = draw(words).strip()
    is_bare = format.calls is not None and format.calls.is_bare
    names = st.sampled_from([each.name for each in FUNCTIONS])
    made = draw(
        st.lists(
            st.builds(
                lambda name, arguments: ToolCall(name=name, arguments=json_for(name, arguments)),
                names,
                arguments_for(format),
            ),
            max_size=3,
        )
    )
    begin = format.calls.begin.strip()[:1] if format.calls is not None else ""
    if made and ((begin and text.endswith(begin)) or (is_bare and text.endswith((",", ":")))):
        text += "."  # nobody can tell where the mark begins in what would follow: `>` and `>>>`
    return thought, text, made


def cut(raw: str, cuts: list[int]) -> list[str]:
    cuts = sorted(each % (len(raw) + 1) for each in cuts)
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


some_cuts = st.lists(st.integers(0, 10_000), max_size=12)


@every_format
@settings(max_examples=25)
@given(data=st.data())
def test_what_is_written_is_read_again_however_it_is_cut(format: ChatFormat, data: st.DataObject) -> None:
    thought, text, made = data.draw(answers(format))
    raw = written(format, thought, text, made)
    expected = Answer(thought, text, tuple((each.name, json.loads(each.arguments)) for each in made))
    for pieces in ([raw], cut(raw, data.draw(some_cuts)), list(raw)):
        assert without_ids(read(format, pieces)) == expected


def bits(format: ChatFormat) -> list[str]:
    """What answers of a format are made of, whole and in parts."""
    assert format.calls is not None
    found = [*format.literals, '{"', '"name"', ": ", "{", "}", '"', "\\", "[", "]", ",", '{"name": "other"', " ", "\n"]
    found += ["other", "get_weather", "nope", "city", '{"name": "other", "arguments": {', '"arguments": ', "null", "x"]
    found += [each.strip() for each in format.literals]
    if isinstance(format.calls.call, PatternCall):
        slots = format.calls.call.slots
        found += [format.calls.opening + "other" + slots[0].behind, "0" + slots[-2].behind]
    found += ["a=", "(", ")", "'", "<a>", "</a>", ":", "=", "<"]
    return found


@pytest.mark.parametrize("format", JSON_OR_TAGGED, ids=lambda format: format.name)
@settings(max_examples=10)
@given(data=st.data())
def test_what_is_written_in_a_known_format_is_read_again(format: ChatFormat, data: st.DataObject) -> None:
    _, text, made = data.draw(answers(format))
    raw = written(format, "", text, made)
    expected = Answer("", text, tuple((each.name, json.loads(each.arguments)) for each in made))
    for pieces in ([raw], cut(raw, data.draw(some_cuts)), list(raw)):
        assert without_ids(read(format, pieces)) == expected


@every_known
@settings(max_examples=25)
@given(data=st.data())
def test_no_answer_in_a_known_format_is_lost_or_depends_on_its_pieces(format: ChatFormat, data: st.DataObject) -> None:
    parts = st.sampled_from(bits(format)) | st.text(max_size=3)
    raw = "".join(data.draw(st.lists(parts, max_size=25)))
    flags: dict[str, Any] = {
        each: data.draw(st.booleans()) for each in ("in_thought", "splits_thoughts", "reads_calls")
    }
    whole = without_ids(read(format, [raw], **flags))
    for pieces in (cut(raw, data.draw(some_cuts)), list(raw)):
        assert without_ids(read(format, pieces, **flags)) == whole
    if not format.text and not format.ignored and not whole.calls and not flags["splits_thoughts"]:
        assert whole.text == raw


MADE = ("{}", '{"city": "Ulm"}', '{"city": "Ulm", "days": 3}')
MARKUP = r'(?:type|string)="[^"]*{word}|"(?:id|tool_call_id)": "[^"]*{word}'
"""Places of a format's own where a text says nothing: a type mark, an id."""


@pytest.mark.parametrize(
    "format", [one for one in KNOWN if one.protocol not in ("harmony", "muse")], ids=lambda f: f.name
)
def test_every_word_that_a_model_writes_anywhere_is_in_the_text_the_thought_a_call_or_a_note(
    format: ChatFormat,
) -> None:
    """Whole and damaged calls, markers in any order, with words at any place. Headers of messages are no text."""
    for seed in range(40):
        rng = random.Random(f"{format.name} {seed}")
        parts = [rng.choice(bits(format)) for _ in range(rng.randint(1, 12))]
        if seed % 2:
            calls = [ToolCall(rng.choice(["get_weather", "nope"]), rng.choice(MADE), "abcdefghi")] * rng.randint(1, 2)
            raw = written(format, "", rng.choice(["", "Hi "]), calls)
            parts = cut(raw, [rng.randrange(10_000) for _ in range(5)])
            del parts[rng.randrange(len(parts) if seed % 3 else 1)]
        raw, words = "", []
        for number, part in enumerate(parts):
            raw += part
            if rng.random() < 0.4:
                words.append(f"w{number}q")
                raw += rng.choice(["", " "]) + words[-1] + rng.choice(["", " "])
        whole, ids = shown(format, [raw])
        assert shown(format, list(raw))[0] == whole, raw
        lost = [word for word in words if word not in " ".join((*whole, ids))]
        assert not [word for word in lost if not re.search(MARKUP.format(word=word), raw)], raw


def shown(format: ChatFormat, pieces: list[str]) -> tuple[list[str], str]:
    """Text, thought, calls and notes as read, and ids, some of which are drawn."""
    reader = reader_of(format, FUNCTIONS)
    found = [*map(reader.feed, pieces), reader.flush()]
    calls = [call for one in found for call in one.calls]
    texts = ["".join(one.text for one in found), "".join(one.thought for one in found)]
    called = "".join(call.name + call.arguments for call in calls)
    return [*texts, called, *(note for one in found for note in one.notes)], " ".join(call.id for call in calls)


@every_format
@settings(max_examples=30)
@given(data=st.data())
def test_whatever_is_no_call_is_text_and_nothing_is_lost(format: ChatFormat, data: st.DataObject) -> None:
    parts = st.sampled_from(bits(format)) | st.text(max_size=3)
    some = st.lists(parts, max_size=25) | st.lists(st.builds(lambda part: part * 300, parts) | parts, max_size=4)
    raw = "".join(data.draw(some))
    whole = read(format, [raw], splits_thoughts=False)
    for pieces in (cut(raw, data.draw(some_cuts)), list(raw)):
        assert without_ids(read(format, pieces, splits_thoughts=False)) == without_ids(whole)
    assert without_ids(read(format, raw)) == without_ids(read(format, [raw]))
    assert is_within(whole.text.replace("\n", ""), raw.replace("\n", ""))
    if format is not COHERE and not whole.calls:
        assert whole.text == raw
    assert whole.calls or whole.text or not raw.strip() or format is COHERE


def is_within(some: str, other: str) -> bool:
    rest: Iterator[str] = iter(other)
    return all(char in rest for char in some)


@every_format
@settings(max_examples=25)
@given(data=st.data())
def test_an_answer_that_is_cut_anywhere_keeps_what_was_read_of_it(format: ChatFormat, data: st.DataObject) -> None:
    thought, text, made = data.draw(answers(format))
    raw = written(format, thought, text, made)
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    found = read(format, list(raw))
    assert without_ids(found) == without_ids(read(format, [raw]))
    assert thought.startswith(found.thought) or found.thought.startswith(thought)  # with some of what closes it
    assert found.text.startswith(text) or text.startswith(found.text) or not found.calls
    assert [name for name, _ in found.calls] == [each.name for each in made[: len(found.calls)]]
    assert all(call == (one.name, json.loads(one.arguments)) for call, one in zip(found.calls[:-1], made, strict=False))


@every_format
@given(text=st.text(st.sampled_from("ab \n<[{|t_"), max_size=40))
@example("a < b\n<tool_")
def test_text_waits_only_while_its_end_may_become_a_marker(format: ChatFormat, text: str) -> None:
    assert format.calls is not None
    markers = [part for each in (*format.literals, format.calls.opening, "{") for part in (each.strip(), *each.split())]
    reader = reader_of(format, FUNCTIONS)
    shown = ""
    for at, char in enumerate(text, 1):
        shown += reader.feed(char).text
        held = text[:at].removeprefix(shown).strip()
        assert text.startswith(shown)
        assert any(each.startswith(held) for each in markers) or held.startswith("{"), held


def pieces_of(raw: str) -> list[str]:
    return [raw[at : at + 3] for at in range(0, len(raw), 3)]


@pytest.mark.parametrize(
    ("format", "opening", "repeated", "times"),
    [
        (HERMES, "", "Hello. ", 100_000),
        (HERMES, '<tool_call>\n{"name": "other", "arguments": {"a": "', "some\\n", 100_000),
        (HERMES, "<think>", "Well. \n", 60_000),
        (HERMES, "", "<tool_call", 40_000),
        (HERMES, "", " \n", 200_000),
        (HERMES, "", '<tool_call>{"a":[', 20_000),
        (HERMES, "", '<tool_call>{"name": "nope", "arguments": {}}</tool_call> ', 6_000),
        (HERMES, "", '<tool_call>{"name": "other", "arguments": {}}</tool_call>', 6_000),
        (HERMES, '<tool_call>{"name": "other", "arguments": {"a": ', "[", 400_000),
        (HERMES, '<tool_call>{"arguments": {"a": "', "abcdef", 60_000),
        (HERMES, '<tool_call>{"name": "', "abcdef", 60_000),
        (QWEN_CODER, "<tool_call><function=other><parameter=city>", "</para\n", 60_000),
        (QWEN_CODER, "<tool_call><function=get_weather><parameter=city>", "</para\n", 60_000),
        (QWEN_CODER, "<tool_call><function=", "abcdef", 60_000),
        (DSML, "<｜DSML｜function_calls>", "<｜DSML｜invoke", 20_000),
        (LLAMA, "", '{"parameters": {"a": ', 20_000),
    ],
)
@pytest.mark.parametrize("cuts", [True, False])
def test_reading_takes_linear_time(cuts: bool, format: ChatFormat, opening: str, repeated: str, times: int) -> None:
    """Four times the text may take ten times the time: quadratic reading would take sixteen times."""

    def took(times: int) -> float:
        raw = opening + repeated * times
        pieces = pieces_of(raw) if cuts else [raw]
        start = time.process_time()
        reader = reader_of(format, FUNCTIONS)
        for piece in pieces:
            reader.feed(piece)
        reader.flush()
        return time.process_time() - start

    few = took(times // 4)
    assert took(times) < 10 * few + 0.5
