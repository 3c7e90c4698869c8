"""Tools and conversations as Python programs give them: what the model is told, and what is refused by its place."""

from __future__ import annotations

import enum
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np
import pytest
from PIL import Image

from localllm.errors import InvalidParameter
from localllm.llm.messages import to_conversation
from localllm.llm.tools import toolbox
from localllm.types import (
    CallDelta,
    Calling,
    Chat,
    Finish,
    Media,
    MediaFile,
    Message,
    Timings,
    ToolCall,
    Usage,
    whole_calls,
)
from tests.picture_forms import shapes
from tests.pictures import SMALL, WAV, data_url


class Unit(enum.Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


@dataclass
class Place:
    city: str
    country: str = "DE"


def get_weather(
    place: Place, days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 1, *, unit: Unit = Unit.CELSIUS, note: Any = None
) -> str:
    """The weather of a place.

    Not told to the model.
    """
    return f"{place} {days} {unit} {note}"


def ping() -> None:
    pass


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_a_function_is_told_by_its_hints_and_the_first_line_of_its_docstring() -> None:
    box = toolbox([get_weather, ping])
    first, second = json.loads(box.definitions)
    assert first["type"] == "function"
    assert first["function"]["name"] == "get_weather"
    assert first["function"]["description"] == "The weather of a place."
    schema = first["function"]["parameters"]
    assert schema["type"] == "object"
    assert [*schema["properties"]] == ["place", "days", "unit", "note"]
    assert schema["required"] == ["place"]
    assert schema["properties"]["days"] == {"type": "integer", "minimum": 1, "maximum": 7}
    assert schema["properties"]["unit"] == {"enum": ["C", "F"]} or "$ref" in schema["properties"]["unit"]
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert second["function"] == {
        "name": "ping",
        "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    }
    assert box.calling is not None
    declared = box.calling.functions[0]
    assert declared.is_strict
    assert json.loads(declared.parameters) == schema
    assert declared.param == "tools[0].function.parameters"


def test_a_dict_is_handed_on_as_it_is() -> None:
    box = toolbox([WEATHER], "required", parallel=False)
    assert json.loads(box.definitions) == [WEATHER]
    assert box.calling is not None
    (declared,) = box.calling.functions
    assert (declared.name, declared.is_strict) == ("weather", False)
    assert (box.calling.choice, box.calling.parallel) == ("required", False)


def test_a_named_tool_is_the_only_one_to_call_and_all_are_shown() -> None:
    box = toolbox([WEATHER, ping], "ping")
    assert box.calling is not None
    assert ([each.name for each in box.calling.functions], box.calling.choice) == (["ping"], "required")
    assert len(json.loads(box.definitions)) == 2


def test_without_tools_there_is_nothing_to_call() -> None:
    assert toolbox(None) == toolbox([]) == (None, "")


class Movable(TypedDict):
    x: int


def spread(*numbers: int) -> int:
    return sum(numbers)


def odd(value: complex) -> None:
    del value


def unknown(value: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821  that is the point
    del value


@pytest.mark.parametrize(
    ("tools", "choice", "param"),
    [
        ("weather", "auto", "tools"),
        (WEATHER, "auto", "tools"),
        ([7], "auto", "tools[0]"),
        ([{"type": "web_search"}], "auto", "tools[0]"),
        ([WEATHER, {"type": "function", "function": {}}], "auto", "tools[1].function.name"),
        ([{"type": "function", "function": {"name": "f", "parameters": []}}], "auto", "tools[0].function.parameters"),
        ([{"type": "function", "function": {"name": "f", "parameters": {"x": {1}}}}], "auto", "tools[0]"),
        ([WEATHER, WEATHER], "auto", "tools[1]"),
        ([lambda: None], "auto", "tools[0]"),
        ([spread], "auto", "tools[0]"),
        ([odd], "auto", "tools[0]"),
        ([unknown], "auto", "tools[0]"),
        ([WEATHER], "wether", "tool_choice"),
        ([WEATHER], None, "tool_choice"),
        ([], "required", "tool_choice"),
    ],
)
def test_what_is_no_tool_is_refused_by_its_place(tools: Any, choice: Any, param: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        toolbox(tools, choice)
    assert refused.value.param == param


CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}}


def test_a_conversation_with_calls_and_results_is_taken_as_openai_has_it() -> None:
    turns, notes, _ = to_conversation(
        [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}, {"type": "image_url"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "Look it up.", "x": None},
            {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "Rain"},
        ]
    )
    image = "[image omitted: it cannot be read]"
    broken = "a part of type image_url needs a text: a data URL or base64"
    assert notes == (f"messages[0].content[1]: image omitted: {broken}",)
    assert turns == (
        Message("user", f"Weather?\n{image}", parts=("Weather?", image)),
        Message("assistant", "", thought="Look it up.", tool_calls=(ToolCall("weather", '{"city": "Ulm"}', "call_1"),)),
        Message("tool", "Rain", tool_call_id="call_1", name="weather"),
    )


def test_half_a_surrogate_pair_is_replaced_and_noted() -> None:
    turns = to_conversation([{"role": "user", "content": "a"}, {"role": "user", "content": "b\ud83d"}])
    assert turns.messages == (Message("user", "a"), Message("user", "b\ufffd"))
    assert turns.notes == ("messages[1]: surrogates-replaced",)


def test_pictures_are_paths_bytes_images_and_arrays_and_equal_ones_are_one_file(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(SMALL)
    pixels = np.asarray(Image.open(io.BytesIO(SMALL)))
    given = [file, SMALL, bytearray(SMALL), {"type": "image_url", "image_url": data_url(SMALL)}]
    said = to_conversation([{"role": "user", "content": ["What?", *given, Image.fromarray(pixels), pixels, WAV]}])
    (message,) = said.messages
    assert message.content == "What?"
    assert [medium.digest for medium in message.media[:4]] == [said.files[0].digest] * 4
    assert message.media[4].digest == message.media[5].digest
    assert [medium.kind for medium in message.media] == ["image"] * 6 + ["audio"]
    assert len(said.files) == 3


def test_parts_of_mcp_servers_in_a_tools_result_are_read() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look"}}]}
    link = {"type": "resource_link", "uri": "file:///b.txt", "name": "b"}
    for shape in shapes(SMALL):
        result = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "Here:"}, shape, link]}
        conversation = to_conversation([{"role": "user", "content": "Look."}, call, result])
        first, media, last = conversation.messages[-1].parts
        assert (first, last) == ("Here:", "[a resource: b at file:///b.txt]")
        assert isinstance(media, Media)
        assert (media.kind, conversation.files) == ("image", (MediaFile(media.digest, SMALL),)), shape
        with pytest.raises(InvalidParameter, match="not valid base64"):
            to_conversation([{"role": "user", "content": [{"type": "image", "data": "no base64!"}]}])


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Path("no/such.png"), "cannot be read"),
        (b"", "is empty"),
        (np.zeros((2, 2), np.float32), "uint8"),
        (np.zeros((2, 2, 2), np.uint8), "(2, 2, 2)"),
        (7, "not int"),
        ({"type": "image_url", "image_url": "https://example.com/a.png"}, "addresses are not fetched here"),
        ({"type": "image_url"}, "needs a text"),
    ],
)
def test_what_is_no_picture_is_named_before_anything_is_sent(part: object, says: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(says)) as refused:
        to_conversation([{"role": "user", "content": ["What?", part]}])
    assert refused.value.param == "messages[0].content[1]"


@pytest.mark.parametrize("arguments", [{"city": "Ulm"}, '{"city": "Ulm"}'])
def test_arguments_may_be_an_object_or_its_text(arguments: object) -> None:
    call = {"function": {"name": "weather", "arguments": arguments}}
    (turn,) = to_conversation([{"role": "assistant", "tool_calls": [call]}]).messages
    assert json.loads(turn.tool_calls[0].arguments) == {"city": "Ulm"}


def test_an_answer_is_the_next_message_as_it_is() -> None:
    finish = Finish("stop", Usage(1, 1), Timings(0.0, 0.0, 0.0))
    chat = Chat("", finish, thought="Look.", calls=(ToolCall("weather", "{}", "call_1"),))
    (turn,) = to_conversation([chat.message]).messages
    assert turn == Message("assistant", "", thought="Look.", tool_calls=chat.calls)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user"}, "messages[0]"),
        ({"role": "user", "content": None}, "messages[0]"),
        ({"role": "assistant", "content": None}, "messages[0]"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{"name": "weather"}]}, "messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {1}}}]},
         "messages[0].tool_calls[0].function"),
        ({"role": "tool", "content": "x", "tool_call_id": 7}, "messages[0].tool_call_id"),
        ({"role": "user", "content": "x", "color": "red"}, "messages[0]"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0]"),
    ],
)  # fmt: skip
def test_a_message_that_is_none_is_refused_by_its_place(message: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        to_conversation([message])
    assert refused.value.param == param


def test_the_pieces_of_calls_make_whole_ones() -> None:
    pieces = [
        CallDelta(0, "", "a", "1"), CallDelta(0, '{"x"'), CallDelta(1, "{}", "b", "2"), CallDelta(0, ": 1}")
    ]  # fmt: skip
    assert whole_calls(pieces) == (ToolCall("a", '{"x": 1}', "1"), ToolCall("b", "{}", "2"))
    assert whole_calls([]) == ()


def literal(word: Literal["a", "b"], numbers: list[int], options: Movable | None = None) -> None:
    del word, numbers, options


def test_ordinary_hints_have_a_schema() -> None:
    (shown,) = json.loads(toolbox([literal]).definitions)
    properties = shown["function"]["parameters"]["properties"]
    assert properties["word"] == {"enum": ["a", "b"]}
    assert properties["numbers"] == {"type": "array", "items": {"type": "integer"}}
    assert isinstance(toolbox([literal]).calling, Calling)
