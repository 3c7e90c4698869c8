"""Models created on this machine for clients, from uploaded files and from models that are here.

Belongs to one event loop; the work is done on threads. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from localllm.system.worker_threads import Threads
from localllm.types.states import AvailableModel, MakeState, NewModel

WRITTEN_BYTES = 1024 * 1024
"""Bytes of an upload that are written at a time."""
MAX_WAITING = 16


class Making:
    """For one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._writes = Threads("upload", 4)
        self._makes = Threads(
            "make", 2, max_waiting=MAX_WAITING, full=": no more models are made; try again when one has ended"
        )

    async def has(self, digest: str) -> bool:
        """Whether a file with that content is here. Raises `InvalidParameter` for an invalid digest."""
        return await self._writes.run(_has, self._data_dir, digest)

    async def receive(self, digest: str, pieces: AsyncIterator[bytes], size_bytes: int | None) -> None:
        """Store uploaded content; an incomplete upload leaves nothing. `size_bytes`: the announced size, if known.

        Raises `InvalidParameter` if it does not match its digest, `DiskFull`, and what `pieces` raises.
        """
        from localllm.registry.listing import store_of
        from localllm.registry.names.digest import Digest

        store, expected = store_of(self._data_dir), Digest.parse(digest)
        if size_bytes is not None:
            await self._writes.run(store.require_room, size_bytes)
        uploading = store.upload()
        upload = await self._writes.run(uploading.__enter__)
        try:
            waiting = bytearray()
            async for piece in pieces:
                waiting += piece
                if len(waiting) >= WRITTEN_BYTES:
                    await self._writes.run(upload.write, waiting)
                    waiting = bytearray()
            await self._writes.run(upload.write, waiting)
            await self._writes.run(upload.finish, expected)
        finally:
            await asyncio.shield(self._writes.run(uploading.__exit__, None, None, None))

    async def base_in(self, modelfile: str) -> str | None:
        """The name of the model in a Modelfile's FROM, as written; None: it names uploaded files, or a path, which
        `make` refuses. Raises `InvalidParameter`, `QueueFull`."""
        return await self._makes.run(_base_in, modelfile)

    async def make(self, wanted: NewModel, on_state: Callable[[MakeState], None]) -> AvailableModel:
        """Create a model. `on_state` is called on the event loop. Cancelling stops the work, and leaves no model.

        Raises `InvalidParameter`, `ModelNotFound`, `DiskFull`, `LoadFailed`s, `QueueFull` if too many wait already.
        """
        loop, cancel = asyncio.get_running_loop(), threading.Event()

        def report(state: MakeState) -> None:
            loop.call_soon_threadsafe(on_state, state)

        def work() -> AvailableModel:
            from localllm.registry.making.assembling import assemble, template_of
            from localllm.worker.prompts.template_check import check_template

            template = template_of(wanted)
            if template:
                check_template(template)
            return assemble(wanted, self._data_dir, report, cancel)

        making = asyncio.ensure_future(self._makes.run(work))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            cancel.set()
            making.cancel()  # its thread keeps its place until it notices
            raise


def _base_in(modelfile: str) -> str | None:
    from localllm.registry.making.assembling import base_in

    return base_in(modelfile)


def _has(data_dir: Path, digest: str) -> bool:
    from localllm.registry.listing import store_of
    from localllm.registry.names.digest import Digest

    return store_of(data_dir).has_blob(Digest.parse(digest), None)
