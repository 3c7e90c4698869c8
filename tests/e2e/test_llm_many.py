"""Many requests of a program that owns its model: they wait for room, and an iterator is answered in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localllm import LLM, AsyncLLM, Chat, ContextLengthExceeded, Settings

NUM_CHATS = 60


def test_more_chats_at_once_than_may_wait_are_all_answered(tiny_chat_model: Path) -> None:
    async def main() -> list[Chat]:
        settings = Settings(max_waiting=3)
        async with AsyncLLM(tiny_chat_model, slots=2, threads=1, settings=settings) as llm:
            return await asyncio.gather(
                *(llm.chat([{"role": "user", "content": f"{n}"}], max_tokens=2) for n in range(NUM_CHATS))
            )

    assert all(chat.finish.usage.completion_tokens for chat in asyncio.run(main()))


def test_an_iterator_is_answered_in_order_with_errors_in_their_places(tiny_chat_model: Path) -> None:
    taken = 0

    def prompts() -> Iterator[str]:
        nonlocal taken
        for number in range(NUM_CHATS):
            taken += 1
            yield "x " * 5000 if number == 7 else f"{number} "

    with LLM(tiny_chat_model, slots=2, threads=1) as llm:
        expected = llm.complete("20 ", max_tokens=4, temperature=0).text
        found: list[Any] = []
        for one in llm.generate(prompts(), max_tokens=4, temperature=0, errors="return"):
            assert taken <= len(found) + 16
            found.append(one)
        assert len(found) == NUM_CHATS
        assert isinstance(found[7], ContextLengthExceeded)
        assert found[20].text == expected
        parsed = llm.generate([[{"role": "user", "content": "Hi"}]] * 3, schema=bool)
        assert [type(each.parsed) for each in parsed] == [bool] * 3
