"""Routes: read from the settings or refused in words; the next model is asked before a first token, and never after."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from localllm.errors import ContextLengthExceeded, InvalidParameter, LoadFailed, LocalLLMError, QueueFull
from localllm.runtime.routing import answers_of
from localllm.settings import sections
from localllm.settings.routes import Route
from localllm.types import GenerationRequest, Message

FIRST, SECOND = "big:8b", "small:4b"


def parsed(**tables: dict[str, Any]) -> dict[str, Route]:
    found = sections.parse(tables, "config.toml", lambda _: None)
    return {section.name: section.route for section in found if section.route is not None}


def route(**table: Any) -> Route:
    return parsed(chat={"route": [FIRST, SECOND], **table})["chat"]


def request(text: str = "Hi", salt: str = "", *more: str) -> GenerationRequest:
    said = tuple(Message("user" if n % 2 == 0 else "assistant", each) for n, each in enumerate((text, *more)))
    return GenerationRequest(messages=said, cache_salt=salt)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"a": {"route": ["b"]}, "b": {"route": ["c"]}, "c": {"route": ["a"]}}, "the routes a -> b -> c -> a lead in"),
        ({"a": {"route": ["x"], "mirror": "b"}, "b": {"route": ["a"]}}, "the routes a -> b -> a lead in a circle"),
        ({"a": {"route": ["a"]}}, "the routes a -> a lead in a circle"),
        ({"a": {"route": []}}, "route names models"),
        ({"a": {"route": ["b", "b"]}}, "names a model twice"),
        ({"a": {"route": ["b"], "ctx": 5}}, r'\[models."a"\]: a route has only route, when, split, mirror'),
        ({"a*": {"route": ["b"]}}, "not a pattern"),
        ({"a": {"route": ["b"], "when": ["busy"]}}, "'busy' is no condition; known are queue_full"),
        ({"a": {"split": {"b": 0}}}, "split gives each model its weight"),
        ({"a": {"route": ["b"], "split": {"c": 1}}}, "split names 'c', which is not in route"),
    ],
)
def test_a_route_that_cannot_be_is_refused_with_its_section(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        parsed(**tables)


def test_conditions_are_read() -> None:
    assert route().causes == {"queue_full", "too_long", "load_failed"}
    assert route(when=["wait > 5s"]).wait_s == 5
    assert route(when=["wait>250ms", "too_long"]) == route(when=["too_long", "wait > 0.25 s"])


class FakeAnswer:
    def __init__(self, model: str, *, begins: bool) -> None:
        self.model, self.routed, self.is_cancelled = model, None, False
        self._begins = begins

    async def begun(self) -> None:
        if not self._begins:
            await asyncio.sleep(1000)

    def cancel(self) -> None:
        self.is_cancelled = True


def ask(chosen: Route, **behaviour: LocalLLMError | bool) -> tuple[Any, list[FakeAnswer]]:
    """`behaviour`: by the beginning of the model's name, the error it raises, or whether it begins."""
    made: list[FakeAnswer] = []

    async def submit(model: str, _: Sequence[GenerationRequest]) -> Any:
        outcome = behaviour[model.partition(":")[0]]
        if isinstance(outcome, LocalLLMError):
            raise outcome
        made.append(FakeAnswer(model, begins=outcome))
        return [made[-1]]

    (answer,) = asyncio.run(answers_of(chosen, [request()], submit))
    return answer, made


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (QueueFull("full"), "queue_full"),
        (ContextLengthExceeded("long"), "too_long"),
        (LoadFailed("gone"), "load_failed"),
    ],
)
def test_the_next_model_answers_and_the_answer_says_why(error: LocalLLMError, reason: str) -> None:
    answer, _ = ask(route(), big=error, small=True)
    assert answer.routed == ("chat", SECOND, reason)
    with pytest.raises(type(error)):
        ask(route(when=["wait > 1s"]), big=error, small=True)
    with pytest.raises(type(error)):  # of the first, whatever the second says
        ask(route(), big=error, small=InvalidParameter("it sees no pictures"))


def test_a_model_that_does_not_begin_in_time_is_left_only_for_one_that_takes_the_request() -> None:
    waits = route(when=["wait > 1ms"])
    answer, made = ask(waits, big=False, small=True)
    assert answer.routed == ("chat", SECOND, "wait")
    assert [each.is_cancelled for each in made] == [True, False]
    answer, made = ask(waits, big=False, small=ContextLengthExceeded("long"))
    assert (answer.routed, made[0].is_cancelled) == (("chat", FIRST, "first"), False)


def test_a_conversation_stays_with_its_model_and_the_shares_are_kept() -> None:
    split = route(split={FIRST: 90, SECOND: 10})

    def chosen(asked: GenerationRequest) -> str:
        async def submit(model: str, _: Sequence[GenerationRequest]) -> Any:
            return [FakeAnswer(model, begins=True)]

        (answer,) = asyncio.run(answers_of(split, [asked], submit))
        assert answer.routed is not None
        assert answer.routed.reason == "split"
        return answer.routed.model

    counts = Counter(chosen(request(f"Question {n}")) for n in range(400))
    assert 15 <= counts[SECOND] <= 70  # 40 are expected; fewer or more come once in a million times
    for number in range(20):
        turns = [request(f"Question {number}", "key", *["answer", "more"] * depth) for depth in range(3)]
        assert len({chosen(turn) for turn in turns}) == 1
