"""The generation requests of a session that have not ended: how many may come, and who waits until one leaves.

Knows neither the worker nor what is asked.
"""

from __future__ import annotations

import asyncio

from localllm.supervisor.pending import Pending
from localllm.supervisor.waiting import QueueTimes


class OpenRequests(dict[int, Pending]):
    """By their ids in the messages to the worker. Belongs to one event loop."""

    def __init__(self, max_waiting: int, times: QueueTimes) -> None:
        """`max_waiting`: requests beyond those in slots."""
        super().__init__()
        self._max_waiting = max_waiting
        self._times = times
        self._left = asyncio.Event()

    @property
    def num_batch(self) -> int:
        """How many are of the batch class."""
        return sum(pending.request.batch for pending in self.values())

    def take(self, id: int) -> Pending | None:
        """Remove it; None if it is not there."""
        found = self.pop(id, None)
        if found is not None:
            self._wake()
        return found

    def take_all(self) -> list[Pending]:
        """Remove all."""
        found = list(self.values())
        self.clear()
        self._wake()
        return found

    def check_room(self, num_requests: int, slots: int, *, is_batch: bool) -> None:
        """Raises `QueueFull` if there is no room for that many more. Requests of the batch class take no room from
        others, which are served before them."""
        num_before = self._num_before(is_batch=is_batch)
        if num_before + num_requests > slots + self._max_waiting:
            waiting = max(0, num_before - slots)
            raise self._times.full(
                num_waiting=waiting, max_waiting=self._max_waiting, slots=slots, num_asked=num_requests
            )

    def has_room(self, slots: int, *, is_batch: bool) -> bool:
        """Whether `check_room` lets one more pass."""
        return self._num_before(is_batch=is_batch) < slots + self._max_waiting

    async def one_left(self) -> None:
        """Waits until one was removed."""
        await self._left.wait()

    def _num_before(self, *, is_batch: bool) -> int:
        return len(self) if is_batch else sum(not pending.request.batch for pending in self.values())

    def _wake(self) -> None:
        self._left.set()
        self._left = asyncio.Event()
