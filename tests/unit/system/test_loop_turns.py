"""What is looked at once in a turn of the event loop."""

from __future__ import annotations

import asyncio

from localllm.system.loop_turns import LoopTurn


def test_something_is_done_once_in_a_turn_of_a_loop_and_always_without_one() -> None:
    turn = LoopTurn()

    async def looks() -> list[bool]:
        found = [turn.is_new(), turn.is_new()]
        await asyncio.sleep(0)
        return [*found, turn.is_new(), turn.is_new()]

    async def ends_at_once() -> bool:
        return turn.is_new()

    assert [turn.is_new(), turn.is_new()] == [True, True]
    assert asyncio.run(looks()) == [True, False, True, False]
    assert asyncio.run(ends_at_once()), "the last loop ended in a turn in which it was done"
    assert turn.is_new()
