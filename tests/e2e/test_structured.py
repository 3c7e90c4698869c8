"""Documents instead of text: from Python as values of types, from the command line as JSON; with real workers."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from localllm import LLM, AsyncLLM, IncompleteDocument, InvalidParameter, SamplingParams, Structure
from tests.e2e.conftest import Cli
from tests.later import jsonschema

ASKED = [{"role": "user", "content": "Give me JSON with name and age: Mira is 34 years old."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
NESTED = {"type": "object", "properties": {"tags": {"type": "string", "pattern": "\\bx"}}}


@dataclasses.dataclass
class Person:
    name: str
    age: int


class Payment(msgspec.Struct, tag="payment"):
    amount: Decimal
    at: dt.datetime
    how_long: dt.timedelta


class Note(msgspec.Struct, tag="note"):
    id: uuid.UUID
    day: dt.date
    clock: dt.time
    naive: Annotated[dt.datetime, msgspec.Meta(tz=False)]
    data: bytes
    counts: dict[int, bool]


class Pair(pydantic.BaseModel):
    kind: Literal["pair"] = "pair"
    both: tuple[bool, Literal["a", "b"]]
    price: Annotated[Decimal, pydantic.Field(ge=0, max_digits=5, decimal_places=2)]
    when: dt.datetime
    wait: dt.timedelta
    seen: set[Literal[1, 2]]
    host: pydantic.IPvAnyAddress


class Leaf(pydantic.BaseModel):
    kind: Literal["leaf"]
    id: pydantic.UUID4


class Tree(pydantic.BaseModel):
    of: Annotated[Pair | Leaf, pydantic.Field(discriminator="kind")]
    more: Tree | None = None


@pytest.fixture(scope="module")
def llm(tiny_chat_model: Path) -> Iterator[LLM]:
    """Random weights: it wants nonsense."""
    with LLM(tiny_chat_model, slots=2, threads=1) as llm:
        yield llm


def hot(seed: int, max_tokens: int = 300) -> SamplingParams:
    return SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=seed, max_tokens=max_tokens)


@pytest.mark.parametrize("kind", [Person, Payment, Note, Payment | Note, Pair, Leaf, Tree])
def test_whatever_a_model_wants_a_whole_answer_is_a_value_of_the_type(llm: LLM, kind: Any) -> None:
    num_whole = 0
    for seed in range(6):
        chat = llm.chat(ASKED, schema=kind, params=hot(seed))
        if chat.finish.reason == "stop":
            assert isinstance(chat.parsed, kind), chat.text
            num_whole += 1
        else:
            with pytest.raises(IncompleteDocument):
                _ = chat.parsed
    assert num_whole or kind in (Person, Note, Tree), "only what has no bounds may go on for ever"


def test_a_streamed_document_is_the_whole_one_and_its_result_has_the_value(llm: LLM, tiny_chat_model: Path) -> None:
    params = SamplingParams(temperature=0, max_tokens=200)
    whole = llm.chat(ASKED, schema=SCHEMA, params=params)
    with llm.chat(ASKED, schema=SCHEMA, params=params, stream=True) as stream:
        assert "".join(delta.text for delta in stream) == whole.text
        assert stream.result().parsed == whole.parsed
    jsonschema.validate(whole.parsed, SCHEMA)
    assert llm.complete("x", schema=Structure.choice("yes", "no"), params=hot(1)).parsed in ("yes", "no")

    async def scenario() -> None:
        async with AsyncLLM(tiny_chat_model, threads=1) as other:
            assert (await other.chat(ASKED, schema=SCHEMA, params=params)).text == whole.text
            stream = await other.complete("x", schema=Structure.regex("[ab]{3}"), params=params, stream=True)
            assert set((await stream.result()).parsed) <= set("ab")

    asyncio.run(scenario())


COLOURS = {
    "type": "object",
    "properties": {
        "few": {"type": "array", "items": {"enum": ["a", "ab", "b"]}, "uniqueItems": True, "minItems": 3},
        "some": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "uniqueItems": True},
    },
    "required": ["few", "some"],
    "additionalProperties": {"type": "null"},
    "maxProperties": 7,
}


def test_what_must_be_distinct_is_so_alone_among_others_and_streamed(tiny_chat_model: Path) -> None:
    async def scenario() -> None:
        async with AsyncLLM(tiny_chat_model, slots=4, threads=1) as llm:
            alone = [(await llm.chat(ASKED, schema=COLOURS, params=hot(seed, 250))).text for seed in range(4)]
            together = await asyncio.gather(
                *(llm.chat(ASKED, schema=COLOURS, params=hot(seed, 250)) for seed in range(4))
            )
            assert [chat.text for chat in together] == alone
            stream = await llm.chat(ASKED, schema=COLOURS, params=hot(0, 250), stream=True)
            assert "".join([delta.text async for delta in stream]) == alone[0]
            for chat in together:
                if chat.finish.reason == "stop":
                    pairs = json.loads(chat.text, object_pairs_hook=list)
                    assert len({name for name, _ in pairs}) == len(pairs)
                    jsonschema.validate(dict(pairs), COLOURS)
            assert any(chat.finish.reason == "stop" for chat in together)

    asyncio.run(scenario())


def test_a_document_is_closed_at_its_limit_alike_alone_among_others_and_streamed(tiny_chat_model: Path) -> None:
    letters = {"type": "array", "items": {"type": "string", "minLength": 2}, "minItems": 3, "uniqueItems": True}
    schema = Structure.json({"properties": {"a": letters}, "required": ["a"], "type": "object"}, close_at_limit=True)
    sizes = (70, 90, 120, 160)

    async def scenario() -> None:
        async with AsyncLLM(tiny_chat_model, slots=4, threads=1) as llm:
            alone = [await llm.chat(ASKED, schema=schema, params=hot(1, most)) for most in sizes]
            together = await asyncio.gather(*(llm.chat(ASKED, schema=schema, params=hot(1, most)) for most in sizes))
            assert [chat.text for chat in together] == [chat.text for chat in alone]
            stream = await llm.chat(ASKED, schema=schema, params=hot(1, sizes[0]), stream=True)
            assert "".join([delta.text async for delta in stream]) == alone[0].text
            for chat, most in zip(alone, sizes, strict=True):
                assert (chat.finish.reason, chat.finish.is_closed) == ("stop", True)
                assert most // 2 < chat.finish.usage.completion_tokens <= most
                assert len(set(chat.parsed["a"])) == len(chat.parsed["a"]) >= 3
            unasked = msgspec.structs.replace(schema, close_at_limit=None)
            whole = await llm.chat(ASKED, schema=unasked, params=hot(1, sizes[0]))
            assert (whole.text, whole.finish.reason, whole.finish.is_closed) == (alone[0].text, "length", True)
            with pytest.raises(IncompleteDocument, match="closed early"):
                _ = whole.parsed
            cut = msgspec.structs.replace(schema, close_at_limit=False)
            answer = await llm.chat(ASKED, schema=cut, params=hot(1, sizes[0]))
            assert (answer.finish.reason, answer.finish.is_closed) == ("length", False)

    asyncio.run(scenario())


def test_what_cannot_be_kept_is_refused_by_its_path_before_any_token(llm: LLM) -> None:
    for stream in (False, True):
        with pytest.raises(InvalidParameter) as caught:
            llm.chat(ASKED, schema=NESTED, stream=stream)
        assert caught.value.param == "schema.properties.tags.pattern"
    with pytest.raises(InvalidParameter) as caught:
        llm.complete("x", thinking_budget=3)
    assert caught.value.param == "thinking_budget"


def test_the_command_line_prints_the_document_and_nothing_else(cli: Cli, tiny_chat_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "person.json"
    file.write_text(json.dumps(SCHEMA))
    done = cli("run", tiny_chat_model, "Mira", "--schema", file, "--temperature", "0", "--threads", "1")
    assert (done.returncode, done.stderr) == (0, "")
    jsonschema.validate(json.loads(done.stdout), SCHEMA)
    assert done.stdout.count("\n") == 1
    file.write_text(json.dumps(NESTED))
    refused = cli("run", tiny_chat_model, "Mira", "--schema", file, "--threads", "1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"localllm: {file}: ")
    assert "properties.tags.pattern" in refused.stderr
