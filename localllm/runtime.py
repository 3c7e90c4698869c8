"""The asyncio seam: load, chat, complete, tokenize, list, unload. Every face calls this and nothing below it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm.config import Settings
from localllm.supervisor.mailbox import Mailbox
from localllm.supervisor.observer import Observer as Observer
from localllm.supervisor.session import Session
from localllm.supervisor.supervisor import Supervisor
from localllm.types import Delta, EngineStatus, GenerationRequest, LoadedModel, LoadOptions, Message, SamplingParams

OnProgress = Callable[[float], None]


class Answer(AsyncIterator[Delta]):
    """An accepted request: iterate for its deltas; the last has `finish`. `aclose()`, `async with` or letting go of it
    cancels what has not been made yet.

    Raises, while iterating, `WorkerCrashed` and every other error that ends an answer early.
    """

    def __init__(self, session: Session, id: int, mailbox: Mailbox, num_prompt_tokens: int) -> None:
        self.num_prompt_tokens = num_prompt_tokens
        self._session = session
        self._id = id
        self._mailbox = mailbox
        self._finished = False

    async def __anext__(self) -> Delta:
        if self._finished:
            raise StopAsyncIteration
        delta = await self._mailbox.get()
        self._finished = delta.finish is not None
        return delta

    async def aclose(self) -> None:
        """Cancel if still running; frees the slot by the next step. Idempotent."""
        self._finished = True
        self._session.cancel(self._id)

    def __del__(self) -> None:
        if not self._finished:
            self._session.abandon(self._id)

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Runtime:
    """Owns the loaded models (one, for now). Make it and use it on one event loop; `aclose()` at the end."""

    def __init__(self, settings: Settings) -> None:
        self._supervisor = Supervisor(settings)
        self._settings = settings

    async def load(
        self, model: str | Path, options: LoadOptions | None = None, *, on_progress: OnProgress | None = None
    ) -> LoadedModel:
        """Load a model; returns when it can answer. Raises `ModelNotFound`, `LoadFailed`s, `WorkerCrashed`."""
        from localllm.gguf import read_model_info
        from localllm.registry.resolve import resolve

        file = resolve(model)
        info = await asyncio.to_thread(read_model_info, file.path)
        return await self._supervisor.load(
            file.id, file.path, info, options or self._settings.load_options(), on_progress
        )

    def loaded(self) -> Sequence[LoadedModel]:
        """The models that answer requests."""
        return self._supervisor.loaded()

    def restarting(self) -> Sequence[str]:
        """Those of them whose process died, and is being started again."""
        return self._supervisor.restarting()

    def observe(self, observer: Observer) -> None:
        """Tell it from now on what becomes of requests and workers."""
        self._supervisor.observer = observer

    async def chat(self, model_id: str, messages: Sequence[Message], params: SamplingParams) -> Answer:
        """`submit` of one conversation."""
        (answer,) = await self.submit(model_id, [GenerationRequest(messages=tuple(messages), params=params)])
        return answer

    async def complete(self, model_id: str, prompt: str, params: SamplingParams) -> Answer:
        """`submit` of one plain prompt."""
        (answer,) = await self.submit(model_id, [GenerationRequest(prompt=prompt, params=params)])
        return answer

    async def submit(self, model_id: str, requests: Sequence[GenerationRequest]) -> list[Answer]:
        """All of these or none. Returns once the worker has accepted them.

        Raises what makes it refuse: `RequestError`s, `QueueFull`, `ModelNotFound`, `Unavailable`.
        """
        session = await self._supervisor.acquire(model_id)
        sent: list[tuple[int, Mailbox]] = []
        try:
            for request in requests:
                sent.append(session.submit(request))
            num_prompt_tokens = await asyncio.gather(*(mailbox.accepted for _, mailbox in sent))
        except BaseException:  # refused, or the caller was cancelled while its prompts were prepared
            for id, _ in sent:
                session.cancel(id)
            raise
        return [
            Answer(session, id, mailbox, count) for (id, mailbox), count in zip(sent, num_prompt_tokens, strict=True)
        ]

    async def tokenize(
        self, model_id: str, text: str, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Token ids of a text; with the model's BOS if `add_special`, its control tokens as such if `parse_special`."""
        tokens: list[int] = await self._call(model_id, "tokenize", text, add_special, parse_special)
        return tokens

    async def pieces(self, model_id: str, tokens: Sequence[int], *, special: bool = True) -> list[bytes]:
        """The bytes of each token; those of control tokens only if `special`. Raises `InvalidParameter`."""
        pieces: list[bytes] = await self._call(model_id, "pieces", tuple(tokens), special)
        return pieces

    async def render(self, model_id: str, messages: Sequence[Message]) -> str:
        """The prompt that a conversation becomes. Raises `NoChatTemplate`, `TemplateError`."""
        text: str = await self._call(model_id, "render", tuple(messages))
        return text

    async def status(self, model_id: str) -> EngineStatus:
        """What the model's slots do, between two steps: it takes as long as the step that is running."""
        return msgspec.convert(await self._call(model_id, "status"), EngineStatus)

    async def _call(self, model_id: str, method: str, *args: object) -> Any:
        session = await self._supervisor.acquire(model_id)
        return await session.call(method, *args)

    async def unload(self, model_id: str) -> None:
        """Stop the model's process. Raises `ModelNotFound`."""
        await self._supervisor.unload(model_id)

    async def aclose(self) -> None:
        """Unload everything."""
        await self._supervisor.aclose()
