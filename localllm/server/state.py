"""What the handlers share: the runtime, the limits, and whether we are starting or ending. `main` is the one writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
from starlette.types import Receive

from localllm.errors import Draining, Loading, LocalLLMError, ModelNotFound, Unavailable
from localllm.runtime.runtime import Answer, Runtime, canonical_id
from localllm.runtime.threads import Threads
from localllm.server import sse
from localllm.server.mcp import McpHubs
from localllm.server.metrics import Metrics
from localllm.server.responses.store import ResponseStore
from localllm.settings.config import Settings
from localllm.types import GenerationRequest, LoadedModel


@dataclass
class ServerState:
    """Lives as long as the server."""

    runtime: Runtime
    settings: Settings
    loading: str | None = None
    """The model that is being loaded at start."""
    first: str | None = None
    """The id of the first of several models that were loaded at start: for requests that name none."""
    draining: bool = False
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once `loading` has come to its end."""
    metrics: Metrics = field(init=False)
    listing: Threads = field(init=False)
    """For what reads the disk's list of models."""
    encoding: Threads = field(init=False)
    """For answers of megabytes."""
    responses: ResponseStore = field(init=False)
    """Of the Responses API, which alone writes it."""
    mcp: McpHubs = field(init=False)
    """MCP servers whose tools requests may name."""
    _aliases: tuple[tuple[str, str], ...] = field(init=False)
    """Pattern of names, and the model that they stand for; nothing: the one that is loaded."""

    def __post_init__(self) -> None:
        full = ": too many requests at a time need the disk or large answers; try again later"
        self.listing = Threads("listing", 4, max_waiting=self.settings.max_waiting, full=full)
        self.encoding = Threads("encoding", 2, max_waiting=self.settings.max_waiting, full=full)
        self.metrics = Metrics(self.settings.metrics_names)
        self._aliases = self.settings.aliases()
        max_bytes = self.settings.max_stored_response_mb * 2**20
        if self.loading is None:
            self.started.set()
        self.mcp = McpHubs(self.settings)
        self.responses = ResponseStore(self.settings.max_stored_responses, max_bytes)

    def admit(self) -> None:
        """Whether a request for an answer makes sense now. Raises `Draining`."""
        if self.draining:
            raise Draining("the server is shutting down")

    def check_ready(self) -> None:
        """Whether it would be answered at once, as far as the server knows. Raises `Loading`, `Draining`."""
        self.admit()
        if self.loading is not None:
            raise Loading(f"the model {Path(self.loading).name} is still loading; try again in a moment")

    def time_limits_s(self) -> tuple[float | None, float | None]:
        """For requests that bring none of their own: for the whole answer, and for waiting until it is begun."""
        return self.settings.request_timeout_s or None, self.settings.queue_timeout_s or None

    def named(self, model: str) -> str:
        """The name of the model that is meant: the settings may have another for what clients know by heart."""
        loaded = [each.id for each in self.runtime.loaded()]
        if model in loaded:
            return model
        if (own := self.aliased(model)) != model:
            return own
        for pattern, other in self._aliases:
            if fnmatchcase(model, pattern):
                return other or (self.first if self.first in loaded else next(iter(loaded), self.loading or model))
        return model

    def aliased(self, name: str) -> str:
        """The model that has this name as an alias of its own; any other name as it is."""
        return self.settings.sections().model_named(name)

    def own_settings(self, id: str) -> dict[str, Any]:
        """What is set for the model of this id alone; its system message and files of the machine are not told."""
        own = self.settings.sections().of(id)
        return {key: each.value for key, each in own.items() if key not in ("system", "chat_template")}

    def most_answers(self, model: str) -> int:
        """How many a model can have running and waiting; of one that is not loaded yet as the settings say."""
        model = self.named(model)
        loaded = next((each for each in self.runtime.loaded() if each.id == model), None)
        return (self.settings.for_model(model).slots if loaded is None else loaded.slots) + self.settings.max_waiting

    def timed(self, requests: Sequence[GenerationRequest]) -> list[GenerationRequest]:
        """The requests with the server's own time limits, where they bring none."""
        timeout_s, queue_timeout_s = self.time_limits_s()
        return [
            msgspec.structs.replace(
                request,
                timeout_s=timeout_s if request.timeout_s is None else request.timeout_s,
                queue_timeout_s=queue_timeout_s if request.queue_timeout_s is None else request.queue_timeout_s,
            )
            for request in requests
        ]

    async def answers(
        self,
        receive: Receive,
        model: str,
        requests: Sequence[GenerationRequest],
        keep_alive_s: float | None,
        watched: Callable[[list[Answer]], list[Answer]],
        *,
        stream: bool,
    ) -> asyncio.Future[list[Answer]]:
        """What `submit` gives, `watched`: at once, or for a stream whose model has to be loaded first not yet, so that
        the client hears of it. Raises as `submit`, and `ClientGone`.
        """

        async def submitted() -> list[Answer]:
            return watched(await self.runtime.submit(self.named(model), requests, keep_alive_s=keep_alive_s))

        if stream and self.loaded(model) is None:
            return await sse.unless_slow(receive, submitted(), self.settings.keep_alive_s)
        done: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        done.set_result(await sse.unless_gone(receive, submitted()))
        return done

    def seen_by_client(self, error: LocalLLMError) -> LocalLLMError:
        """At shutdown the workers end before the last answers do: that is no crash."""
        return Draining("the server is shutting down") if self.draining and isinstance(error, Unavailable) else error

    def loaded(self, name: str) -> LoadedModel | None:
        """The model of that name, if it is loaded."""
        models = {loaded.id: loaded for loaded in self.runtime.loaded()}
        name = self.named(name)
        if name in models:
            return models[name]
        try:
            return models.get(canonical_id(name))
        except LocalLLMError:  # a path, as the server may have been started with
            return None

    async def model_id(self, asked: str | None) -> str:
        """The model that is meant: the one that was named, else the only one that is loaded or the first that the
        server was started with; those are waited for. Raises `ModelNotFound`.
        """
        if asked is not None:
            return self.named(asked)
        await self.started.wait()
        self.admit()
        loaded = [model.id for model in self.runtime.loaded()]
        fallback = next((other for pattern, other in self._aliases if pattern == "*" and other), None)
        if not loaded and fallback is not None:
            return fallback
        if self.first in loaded:
            return self.first
        if len(loaded) != 1:
            raise ModelNotFound(f"name the model; loaded: {', '.join(loaded) or 'none'}", param="model")
        return loaded[0]
