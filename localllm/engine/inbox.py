"""What enters the engine's thread and what leaves it: requests, cancels, calls; deltas and failures of a step.

Knows nothing of what is done with them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from localllm.engine.requests.sequence import Sequence
from localllm.errors import LocalLLMError
from localllm.types import Delta
from localllm.types.states import EngineStatus


class StepOutput(NamedTuple):
    """All that one step produced: (request id, delta or error)."""

    step: int
    deltas: list[tuple[int, Delta]]
    failures: list[tuple[int, LocalLLMError]]


class Cancel(NamedTuple):
    id: int


class Inspect(NamedTuple):
    callback: Callable[[EngineStatus], None]


class Call(NamedTuple):
    work: Callable[[], None]


class RowsReady(NamedTuple):
    """Media rows have come, or have failed."""


class Stop(NamedTuple):
    pass


Item = Sequence | Cancel | Inspect | Call | RowsReady | Stop


class Inbox:
    """Items from any thread for one. Each arrival is announced, and taking items withdraws their announcements in the
    same step: no announcement is lost, and none refers to an item already taken."""

    def __init__(self, announce: Callable[[Item], None], take_back: Callable[[], None]) -> None:
        """`announce` is called on the thread that puts an item, `take_back` on the one that takes all items."""
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._announce = announce
        self._take_back = take_back
        self._lock = threading.Lock()

    def put(self, item: Item) -> None:
        with self._lock:
            self._items.put(item)
            self._announce(item)

    def wake(self) -> None:
        """From any thread: the next step begins now, if the engine waits."""
        self.put(Call(lambda: None))

    def rows_ready(self) -> None:
        """From any thread: a sequence may have the media rows now for which it waits."""
        self.put(RowsReady())

    def take_all(self) -> list[Item]:
        """Everything that has arrived, in order."""
        with self._lock:
            self._take_back()
            return [self._items.get_nowait() for _ in range(self._items.qsize())]

    def wait(self, timeout_s: float | None) -> Item:
        """The next item. Raises `queue.Empty` after `timeout_s`."""
        return self._items.get(timeout=timeout_s)

    def empty(self) -> bool:
        return self._items.empty()
