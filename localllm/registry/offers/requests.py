"""Searches Hugging Face and inspects repositories at clients' requests, bounded in number and time.

Belongs to one event loop; the work is done on threads. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from localllm.errors import InvalidParameter, PullFailed
from localllm.settings.config import Settings
from localllm.system.worker_threads import Threads

if TYPE_CHECKING:
    from localllm.registry.offers.rating import RatedModel
    from localllm.registry.sources.hugging_face import HubHit

T = TypeVar("T")
MOST_AT_A_TIME = 2
MOST_WAITING = 16
SEARCH_TIMEOUT_S = 20.0
OFFERS_TIMEOUT_S = 120.0
"""A header takes megabytes, and a repository may contain several models."""
MAX_WORDS_CHARS = 200


class Asking:
    """The searches of one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        full = ": too many searches at a time; try again when one has ended"
        self._threads = Threads("offers", MOST_AT_A_TIME, max_waiting=MOST_WAITING, full=full)

    async def search(self, words: str, limit: int) -> list[HubHit]:
        """Repositories with GGUF files, the most downloaded first.

        Raises `InvalidParameter`, `PullFailed`s, `QueueFull`.
        """
        if len(words) > MAX_WORDS_CHARS:
            raise InvalidParameter(
                f"query has {len(words):,} characters; at most {MAX_WORDS_CHARS} are allowed", param="query"
            )

        def work(cancel: threading.Event) -> list[HubHit]:
            from localllm.registry.pull import Puller  # on that thread, since the first import takes 0.2 s

            with Puller(self._settings, named_by_user=False) as puller:
                return puller.search(words, limit, cancel)

        return await self._run(work, SEARCH_TIMEOUT_S)

    async def offers(self, name: str, *, may_measure: bool) -> tuple[list[RatedModel], str | None]:
        """Every model that the name may mean, and why only the CPU was considered, if so.

        Raises `InvalidParameter`, `ModelNotFound`, `PullFailed`s, `QueueFull`.
        """
        settings = self._settings

        def work(cancel: threading.Event) -> tuple[list[RatedModel], str | None]:
            from localllm.planning.memory_fit import measure
            from localllm.registry.offers.machine import seen_of
            from localllm.registry.offers.rating import rated
            from localllm.registry.pull import Puller

            with Puller(settings, named_by_user=False, measure=measure(settings.load_options())) as puller:
                offers = puller.offers(name, cancel)
            seen = seen_of(settings)
            return rated(settings, offers, seen.devices, may_measure=may_measure), seen.problem

        return await self._run(work, OFFERS_TIMEOUT_S)

    async def _run(self, work: Callable[[threading.Event], T], timeout_s: float) -> T:
        cancel = threading.Event()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._threads.run(work, cancel)
        except TimeoutError:
            raise PullFailed(f"no answer came from Hugging Face within {timeout_s:g} s; try again later") from None
        finally:
            cancel.set()  # its thread ends soon
