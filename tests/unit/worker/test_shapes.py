"""What a request, a format and the end of a prompt make of an answer: what it is held to, and what comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from localllm.chat.formats.odd import FUNCTIONARY_3_2
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.runtime.answer_reader import reading_for
from localllm.types import AnswerSource, Calling, ChatFormat, Delta, Function, GenerationRequest, Message, Rendering
from localllm.types.formats import Calls, ObjectCall
from localllm.types.structures import THOUGHTS, Preface, Structure, Tags
from localllm.worker.prompts.answer_shapes import control_tokens, shape_of

THINK = THOUGHTS[0]
HERMES = Calls(call=ObjectCall(), begin="<tool_call>\n", end="\n</tool_call>")
FORMAT = ChatFormat(thought=THINK, calls=HERMES, behind_thought="\n\n")
ANSWERING, THINKING, SILENT = "assistant\n", "assistant\n<think>\n", "assistant\n<think>\n\n</think>\n\n"
TOOLS = Calling(functions=(Function(name="look"),))
BITS = Structure(kind="regex", source="[01]{2}")


def asked(**fields: Any) -> GenerationRequest:
    return GenerationRequest(messages=(Message("user", "Hi"),), **fields)


def source(structure: Structure | None) -> AnswerSource:
    assert structure is not None
    assert structure.kind == "answer"
    return msgspec.json.decode(structure.source, type=AnswerSource)


def test_an_answer_of_which_nothing_is_asked_is_held_to_nothing() -> None:
    for ending in (ANSWERING, THINKING, SILENT):
        assert shape_of(asked(), FORMAT, ending)[:2] == (None, None)
    assert shape_of(asked(), FORMAT, THINKING).beginning == "thought"


def test_an_effort_with_tags_of_its_own_is_constrained_and_read_with_them() -> None:
    format = msgspec.structs.replace(FORMAT, thought_by_effort=(("low", Tags("<brief>", "</brief>")),))
    asking = asked(structure=BITS, rendering=Rendering(variables='{"reasoning_effort": "low"}'))
    for effort, opened, preface in ((asking, "<brief>\n", "<brief>"), (asked(structure=BITS), THINKING, "<think>")):
        found = shape_of(effort, format, "assistant\n" + opened)
        assert found.preface is not None
        assert found.preface.thought is not None
        assert (found.beginning, found.preface.thought.opening) == ("thought", preface)
    reading = reading_for(asking, format, "thought")
    assert reading is not None
    assert reading.read(Delta("Well</brief>", 2)).thought == "Well"


def test_tools_hold_an_answer_to_calls_of_them_behind_its_thought() -> None:
    shape = shape_of(asked(calling=TOOLS), FORMAT, THINKING)
    assert source(shape.structure) == AnswerSource(format=FORMAT, functions=TOOLS.functions)
    assert shape.preface == Preface(thought=THINK, is_open=True, behind="")
    single = msgspec.structs.replace(TOOLS, choice="none", parallel=False)
    found = source(shape_of(asked(calling=single), FORMAT, SILENT).structure)
    assert (found.choice, found.parallel) == ("none", False)
    assert shape_of(asked(calling=single), FORMAT, SILENT).preface is None


def test_a_call_that_has_to_come_follows_the_thought_as_the_model_was_taught() -> None:
    forced = msgspec.structs.replace(TOOLS, choice="required")
    shape = shape_of(asked(calling=forced), FORMAT, ANSWERING)
    assert shape.preface == Preface(thought=THINK, behind="\n\n")


def test_what_a_prompt_has_of_the_first_literal_is_not_asked_of_the_answer() -> None:
    """Functionary's prompts end with `>>>`; one that continues an answer does not."""
    forced = msgspec.structs.replace(TOOLS, choice="required")
    for ending, opening, between in (("assistant\n\n>>>", "", ">>>"), ("assistant\n\n>>>all\nHe", ">>>", "")):
        calls = source(shape_of(asked(calling=forced), FUNCTIONARY_3_2, ending).structure).format.calls
        assert calls is not None
        assert (calls.opening, calls.between) == (opening, between)
    shape = shape_of(asked(structure=BITS), FUNCTIONARY_3_2, "assistant\n\n>>>")
    assert shape.preface == Preface(text=Tags("all\n", ""))


@pytest.mark.parametrize(("ending", "is_bounded"), [(THINKING, True), (ANSWERING, True), (SILENT, False)])
def test_a_budget_alone_bounds_the_thought_of_a_free_answer(ending: str, *, is_bounded: bool) -> None:
    shape = shape_of(asked(thinking_budget=9), FORMAT, ending)
    assert (shape.structure is not None) == is_bounded
    if is_bounded:
        assert source(shape.structure).functions == ()
        assert shape.preface is not None
        assert shape.preface.budget == 9
    assert shape_of(asked(thinking_budget=9), ChatFormat(calls=HERMES), ending).structure is None


def test_a_structure_may_have_a_thought_before_it_unless_there_was_one_or_none_is_wanted() -> None:
    asking = asked(structure=BITS, thinking_budget=0)
    assert shape_of(asking, FORMAT, THINKING).preface == Preface(thought=THINK, is_open=True, budget=0)
    assert shape_of(asking, FORMAT, ANSWERING).preface is None
    assert shape_of(asked(structure=BITS), FORMAT, SILENT).preface is None
    assert shape_of(asked(structure=BITS), FORMAT, ANSWERING).preface == Preface(thought=THINK)
    started = msgspec.structs.replace(FORMAT, begins_thought=True)
    assert shape_of(asked(structure=BITS), started, ANSWERING).preface is None


def test_a_plain_prompt_is_continued_as_it_is() -> None:
    request = GenerationRequest(prompt="<think>", structure=BITS, calling=TOOLS, thinking_budget=3)
    assert shape_of(request, FORMAT, "") == (BITS, None, "text")
    assert shape_of(GenerationRequest(prompt="x", calling=TOOLS), FORMAT, "") == (None, None, "text")


def test_an_answer_is_calls_or_a_text_of_the_structure_where_both_are_asked_for() -> None:
    either = shape_of(asked(structure=BITS, calling=TOOLS), FORMAT, ANSWERING)
    assert source(either.structure).text == BITS
    assert either.preface == Preface(thought=THINK, behind="\n\n")
    silent, forced = (msgspec.structs.replace(TOOLS, choice=choice) for choice in ("none", "required"))
    assert shape_of(asked(structure=BITS, calling=silent), FORMAT, ANSWERING).structure == BITS
    assert source(shape_of(asked(structure=BITS, calling=forced), FORMAT, ANSWERING).structure).text is None


def test_a_text_that_the_prompt_has_opened_is_not_opened_again() -> None:
    said = Tags("<say>", "</say>")
    format = msgspec.structs.replace(FORMAT, text=said)
    for ending, text in ((ANSWERING, said), (f"{ANSWERING}<say>\n", None)):
        assert source(shape_of(asked(structure=BITS, calling=TOOLS), format, ending).structure).format.text == text


def test_a_format_without_calls_has_none_and_cannot_be_made_to() -> None:
    assert shape_of(asked(calling=TOOLS), ChatFormat(), ANSWERING).structure is None
    with pytest.raises(UnsupportedParameter) as refused:
        shape_of(asked(calling=msgspec.structs.replace(TOOLS, choice="required")), ChatFormat(), ANSWERING)
    assert refused.value.param == "tools"


def test_an_answer_goes_on_in_the_thought_that_it_continues() -> None:
    begun = (Message("user", "Hi"), Message("assistant", "", thought="Well,"))
    request = GenerationRequest(messages=begun, rendering=Rendering(), calling=TOOLS)
    shape = shape_of(request, FORMAT, "assistant\n<think>\nWell,")
    assert shape.beginning == "thought"
    assert shape.preface is not None
    assert shape.preface.is_open


@dataclass
class Words:
    """A vocabulary of letters, and of control tokens from 1000 on."""

    controls: tuple[str, ...]

    def tokenize_in_steps(self, text: str, **_: object) -> list[list[int]]:
        for number, control in enumerate(self.controls):
            text = text.replace(control, chr(1000 + number))
        if "\x00" in text:
            raise InvalidParameter("the model's vocabulary has no token for it")
        return [[ord(letter)] for letter in text]

    def token_bytes(self, token: int) -> bytes:
        return b"" if token >= 1000 else bytes([token])


def test_control_tokens_within_literals_are_those_of_the_format() -> None:
    vocab: Any = Words(("<tool_call>", "</tool_call>", "<|im_end|>", "<|channel|>"))
    assert control_tokens(FORMAT.literals, vocab) == {1000, 1001}
    assert control_tokens(("<|channel|>analysis", "\x00"), vocab) == {1003}
    assert control_tokens((Tags("a", "b").opening,), vocab) == frozenset()
