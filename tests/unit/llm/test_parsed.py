"""The value of an answer that has a schema: there when the document is whole, an error that says why when it is not."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, assert_type, cast

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm import IncompleteDocument, ParsedChat
from localllm.llm.parsed import AsyncParsedStream, Document
from localllm.llm.schemas import SchemaShape, to_shape
from localllm.types import Delta, Finish, FinishReason, Structure, Timings, Usage

if TYPE_CHECKING:
    from localllm import LLM, AsyncLLM, AsyncParsedStream, AsyncStream, Chat, ParsedStream, Stream


class Person(msgspec.Struct):
    name: str
    age: int


ADA = '{"name":"Ada","age":36}'


def finish(reason: FinishReason) -> Finish:
    return Finish(reason, Usage(1, 2), Timings(0.0, 0.0, 0.0))


class Scripted(AsyncIterator[Delta]):
    """An answer that comes as the test says."""

    num_prompt_tokens = 1
    notes = ()

    def __init__(self, deltas: list[Delta]) -> None:
        self._deltas = iter(deltas)

    async def __anext__(self) -> Delta:
        return next(self._deltas)

    def cancel(self) -> None:
        pass


def answered(deltas: list[Delta], schema: Any = Person, *, reads: int | None = None) -> ParsedChat[Any]:
    """What is known of it after so many deltas; None: all."""

    async def scenario() -> ParsedChat[Any]:
        shape: SchemaShape[Any] | None = to_shape(schema)
        assert shape is not None
        stream = AsyncParsedStream(None, cast("Any", Scripted(deltas)), None, shape)
        if reads is None:
            return await stream.result()
        for _ in range(reads):
            await anext(stream)
        return stream.so_far()

    return asyncio.run(scenario())


@given(cuts=st.lists(st.integers(0, len(ADA)), max_size=4))
def test_a_document_is_the_same_value_however_it_came(cuts: list[int]) -> None:
    ends = sorted({0, *cuts, len(ADA)})
    pieces = [ADA[begin:end] for begin, end in itertools.pairwise(ends)]
    chat = answered([*map(Delta, pieces), Delta(finish=finish("stop"))])
    assert chat.parsed == Person("Ada", 36)
    assert chat.parsed is chat.parsed
    assert chat.text == ADA


@pytest.mark.parametrize(
    ("reason", "word"), [("length", "max_tokens"), ("timeout", "time"), ("cancelled", "cancelled")]
)
def test_a_document_that_was_cut_has_no_value_even_where_it_looks_whole(reason: FinishReason, word: str) -> None:
    chat = answered([Delta(ADA, finish=finish(reason))])
    with pytest.raises(IncompleteDocument, match=word) as caught:
        _ = chat.parsed
    assert caught.value.details == {"reason": reason}
    assert (chat.text, chat.finish.reason) == (ADA, reason)


def test_a_stop_string_cuts_as_well() -> None:
    with pytest.raises(IncompleteDocument, match="stop string"):
        _ = answered([Delta(ADA[:-1], finish=finish("stop"))]).parsed


def test_what_was_read_so_far_is_no_document() -> None:
    chat = answered([Delta(ADA), Delta(finish=finish("stop"))], reads=1)
    with pytest.raises(IncompleteDocument, match="cancelled"):
        _ = chat.parsed


def test_a_thought_is_beside_the_document() -> None:
    chat = answered([Delta(thought="Ada, "), Delta(thought="36"), Delta(ADA), Delta(finish=finish("stop"))])
    assert (chat.thought, chat.parsed) == ("Ada, 36", Person("Ada", 36))


def test_a_dict_gives_what_json_says_and_a_structure_that_is_no_json_the_text() -> None:
    assert answered([Delta(ADA, finish=finish("stop"))], {"type": "object"}).parsed == json.loads(ADA)
    assert answered([Delta('"\\ud800"', finish=finish("stop"))], {"type": "string"}).parsed == "\ud800"
    assert answered([Delta("yes", finish=finish("stop"))], Structure.choice("yes", "no")).parsed == "yes"


def test_the_applications_own_code_runs_where_the_value_is_asked_for() -> None:
    threads: list[threading.Thread] = []

    class Watched(msgspec.Struct):
        name: str

        def __post_init__(self) -> None:
            threads.append(threading.current_thread())

    chat = answered([Delta('{"name":"x"}', finish=finish("stop"))], Watched)
    assert threads == []
    assert chat.parsed.name == "x"
    assert threads == [threading.current_thread()]
    assert repr(Document(SchemaShape(Structure.json()))) == "Document()"


if TYPE_CHECKING:

    async def types_are_inferred(llm: LLM, other: AsyncLLM) -> None:
        asked = [{"role": "user", "content": "Hello"}]
        assert_type(llm.chat(asked), Chat)
        assert_type(llm.chat(asked, stream=True), Stream)
        assert_type(llm.chat(asked, schema=Person).parsed, Person)
        assert_type(llm.chat(asked, schema=list[Person]).parsed, list[Person])
        assert_type(llm.chat(asked, schema={"type": "object"}), ParsedChat[Any])
        assert_type(llm.chat(asked, schema=pydantic.TypeAdapter(set[int])), ParsedChat[Any])
        assert_type(llm.complete("x", schema=Person, stream=True, thinking_budget=3), ParsedStream[Person])
        assert_type(llm.complete("x", schema=Person, stream=True).result().parsed, Person)
        assert_type((await other.chat(asked, schema=Person, timeout=3)).parsed, Person)
        assert_type(await other.complete("x", schema=Structure.choice("a", "b")), ParsedChat[Any])
        assert_type(await other.complete("x", stream=True), AsyncStream)
        assert_type(await other.complete("x", schema=Person, stream=True), AsyncParsedStream[Person])
