"""Short calls to a worker that it has not answered yet. Lives on one event loop; knows nothing of processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from localllm.errors import LocalLLMError, from_info
from localllm.supervisor.waiting import check_calls
from localllm.types import MediaFile
from localllm.worker.messages import Reply

TEXT_METHODS = frozenset({"tokenize", "pieces", "render", "count"})
"""Methods of `Call` that run on the worker's preparer; up to `max_waiting` of them may wait, and as many others."""


class OpenCalls:
    """Those of one session."""

    def __init__(self, max_waiting: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_waiting = max_waiting
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._files: dict[int, tuple[MediaFile, ...]] = {}
        self._counts = {True: 0, False: 0}
        """True counts those in `TEXT_METHODS`, False the others."""

    def __len__(self) -> int:
        return len(self._answers)

    @contextmanager
    def opened(self, id: int, method: str, files: tuple[MediaFile, ...]) -> Iterator[asyncio.Future[Any]]:
        """A call's answer. `files`: the pictures and sounds in it. Raises `QueueFull`."""
        is_text = method in TEXT_METHODS
        check_calls(self._counts[is_text], self._max_waiting)
        answer = self._answers[id] = self._loop.create_future()
        self._files[id] = files
        self._counts[is_text] += 1
        try:
            yield answer
        finally:
            self._counts[is_text] -= 1
            del self._answers[id], self._files[id]

    def files_of(self, id: int) -> tuple[MediaFile, ...]:
        """The pictures and sounds of an open call."""
        return self._files.get(id, ())

    def reply(self, message: Reply) -> None:
        """The worker's answer."""
        if message.error is not None:
            self.fail(message.id, from_info(message.error))
        elif (answer := self._answers.get(message.id)) is not None and not answer.done():
            answer.set_result(message.result)

    def fail(self, id: int, error: LocalLLMError) -> None:
        """It gets no answer."""
        if (answer := self._answers.get(id)) is not None and not answer.done():
            answer.set_exception(error)

    def fail_all(self, error: LocalLLMError) -> None:
        """None gets an answer."""
        for id in self._answers:
            self.fail(id, error)
