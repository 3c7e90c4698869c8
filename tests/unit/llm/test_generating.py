"""Many prompts: answers in order, never more taken than the window, and a slow reader slows everything down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import pytest

from localllm.errors import InvalidParameter
from localllm.llm.generating import check, in_order, in_order_blocking

WINDOW = 8


class Counted:
    """Prompts without an end, counted as they are taken."""

    def __init__(self) -> None:
        self.num_taken = 0

    def __iter__(self) -> Iterator[str]:
        while True:
            self.num_taken += 1
            yield str(self.num_taken - 1)

    async def each(self) -> AsyncIterator[str]:
        for prompt in self:
            yield prompt


async def answer(prompt: str) -> Any:
    """Later ones are often ready before earlier ones."""
    for _ in range(int(prompt) * 7 % 5):
        await asyncio.sleep(0)
    if prompt == "5":
        raise InvalidParameter("five")
    return prompt


def shown(one: object) -> str:
    return str(one)


@pytest.mark.parametrize("is_async", [False, True])
def test_answers_come_in_order_and_an_error_in_its_place(is_async: bool) -> None:
    prompts = Counted()

    async def main() -> list[str]:
        found: list[str] = []
        answers = in_order(prompts.each() if is_async else prompts, answer, WINDOW, "return")
        async for one in answers:
            assert prompts.num_taken <= len(found) + WINDOW
            found.append(shown(one))
            if len(found) == 50:
                break
        await answers.aclose()
        return found

    assert asyncio.run(main()) == ["five" if n == 5 else str(n) for n in range(50)]


def test_leaving_cancels_what_is_under_way_and_so_does_an_error() -> None:
    under_way: set[str] = set()

    async def hang(prompt: str) -> Any:
        under_way.add(prompt)
        try:
            if prompt == "0":
                return prompt
            await asyncio.sleep(1000)
        finally:
            under_way.discard(prompt)

    async def main() -> None:
        answers = in_order(Counted(), hang, WINDOW, "raise")
        assert await anext(answers) == "0"
        assert len(under_way) == WINDOW - 1
        await answers.aclose()
        assert not under_way
        with pytest.raises(InvalidParameter, match="five"):
            async for _ in in_order(Counted(), answer, WINDOW, "raise"):
                pass

    asyncio.run(main())


class Now:
    """Work that is done when it begins."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._result = asyncio.run(work)

    def result(self) -> Any:
        return self._result

    def cancel(self) -> None:
        """Nothing is under way."""


def test_a_blocking_caller_takes_no_more_either() -> None:
    prompts, found = Counted(), list[str]()
    for one in in_order_blocking(prompts, answer, Now, WINDOW, "return"):
        assert prompts.num_taken <= len(found) + WINDOW
        found.append(shown(one))
        if len(found) == 20:
            break
    assert found == ["five" if n == 5 else str(n) for n in range(20)]


@pytest.mark.parametrize(
    ("prompts", "errors", "concurrency", "param"),
    [
        ("one", "raise", None, "prompts"), (7, "raise", None, "prompts"), ([], "hide", None, "errors"),
        ([], "raise", 0, "concurrency"), ([], "raise", True, "concurrency"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(prompts: Any, errors: str, concurrency: Any, param: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        check(prompts, errors, concurrency)
    assert caught.value.param == param
