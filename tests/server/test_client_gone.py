"""Work for a client that may go away: it ends with the client, cleans up, and never swallows another's cancellation."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from localllm.server.edge.sse import ClientGone, unless_gone


class Client:
    """What ASGI's `receive` gives: a disconnect once the client has gone."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def _work(begun: asyncio.Event, log: list[str]) -> str:
    begun.set()
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0)  # a clean-up that takes its time
        log.append("cleaned up")
    return "never"


def test_what_ends_first_is_the_result_and_nothing_is_left_running() -> None:
    async def main() -> None:
        client = Client()

        async def work() -> str:
            await asyncio.sleep(0)
            return "answer"

        assert await unless_gone(client.receive, work()) == "answer"
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        client.gone.set()
        await asyncio.sleep(0)  # too late to matter

    asyncio.run(main())


def test_work_begins_before_anybody_else_has_a_turn() -> None:
    async def main() -> None:
        order: list[str] = []
        asyncio.get_running_loop().call_soon(order.append, "another client's token")

        async def work() -> None:
            order.append("work")
            await asyncio.sleep(0)

        await unless_gone(Client().receive, work())
        assert order == ["work", "another client's token"]

    asyncio.run(main())


def test_a_client_that_goes_ends_the_work_after_its_clean_up() -> None:
    async def main() -> None:
        client, begun, log = Client(), asyncio.Event(), list[str]()
        serving = asyncio.create_task(unless_gone(client.receive, _work(begun, log)))
        await begun.wait()
        client.gone.set()
        with pytest.raises(ClientGone):
            await serving
        assert log == ["cleaned up"]
        assert serving.cancelling() == 0

    asyncio.run(main())


@pytest.mark.parametrize("goes_too", [False, True])
def test_a_cancellation_from_outside_stays_one(goes_too: bool) -> None:
    async def main() -> None:
        client, begun, log = Client(), asyncio.Event(), list[str]()
        serving = asyncio.create_task(unless_gone(client.receive, _work(begun, log)))
        await begun.wait()
        if goes_too:
            client.gone.set()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert log == ["cleaned up"]

    asyncio.run(main())


def test_an_error_of_the_work_is_told_though_the_client_goes() -> None:
    async def main() -> None:
        client = Client()

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                raise ValueError("broken clean-up") from None

        serving = asyncio.create_task(unless_gone(client.receive, work()))
        await asyncio.sleep(0)
        client.gone.set()
        with pytest.raises(ValueError, match="broken clean-up"):
            await serving

    asyncio.run(main())
