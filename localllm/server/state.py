"""State shared by the handlers: the runtime, limits, and whether the server is starting or stopping. Written only by
`main`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.types import Receive

from localllm.errors import Draining, Loading, LocalLLMError, ModelNotFound, Unavailable
from localllm.registry import resolve
from localllm.registry.offers.requests import Asking
from localllm.runtime.runtime import Answer, Runtime, among
from localllm.server.apis.batches.service import Batches
from localllm.server.apis.responses.store import ResponseStore
from localllm.server.edge import sse
from localllm.server.mcp import McpHubs
from localllm.server.requests.media_urls import MediaAccess
from localllm.server.watching.metrics import Metrics
from localllm.server.watching.tally import tally_of
from localllm.settings.config import Settings
from localllm.system.worker_threads import Threads
from localllm.types import GenerationRequest, LoadedModel

if TYPE_CHECKING:
    from localllm.server.watching.tracing import Tracer


@dataclass
class ServerState:
    """Exists as long as the server."""

    runtime: Runtime
    settings: Settings
    name: str = ""
    """This server's, among others behind a gateway."""
    loading: str | None = None
    """The model being loaded at startup."""
    first: str | None = None
    """The first model loaded at startup, for requests that name none: its id, or its name with adapters."""
    starts_one: bool = False
    """Whether the server was started with exactly one model, which then is `loading` or the `only` one."""
    only: str | None = None
    """The id of that model, once it is loaded."""
    leaving: bool = False
    """Whether load balancers shall send no more requests; those that come are answered, until `draining`."""
    draining: bool = False
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when `loading` has ended."""
    metrics: Metrics = field(init=False)
    media: MediaAccess = field(init=False)
    """Pictures and sounds of requests."""
    listing: Threads = field(init=False)
    """Threads that read the list of models from disk."""
    offers: Asking = field(init=False)
    """Models that could be pulled."""
    encoding: Threads = field(init=False)
    """Threads that encode replies of megabytes."""
    responses: ResponseStore = field(init=False)
    """Stored responses; written only by the Responses API."""
    examining: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while `localllm doctor` examines this machine: one run at a time, since it measures."""
    tracer: Tracer | None = field(init=False)
    """Sends spans of requests to a collector, if the settings name one."""
    mcp: McpHubs = field(init=False)
    """MCP servers whose tools requests may use."""
    batches: Batches = field(init=False)
    """Files that clients stored, and batches of requests."""
    _aliases: tuple[tuple[str, str], ...] = field(init=False)
    """Name pattern -> model; empty: the loaded one."""

    def __post_init__(self) -> None:
        full = ": too many requests need the disk or large replies; try again later"
        self.listing = Threads("listing", 4, max_waiting=self.settings.max_waiting, full=full)
        self.offers = Asking(self.settings)
        self.media = MediaAccess(self.settings)
        self.encoding = Threads("encoding", 2, max_waiting=self.settings.max_waiting, full=full)
        self.metrics = Metrics(self.settings.metrics_names)
        self.tracer = None
        if self.settings.otel_endpoint is not None:
            from localllm.server.watching.tracing import tracer_of  # rarely needed

            self.tracer = tracer_of(self.settings, self.name)
        self._aliases = self.settings.aliases()
        max_bytes = self.settings.max_stored_response_mb * 10**6
        if self.loading is None:
            self.started.set()
        self.mcp = McpHubs(self.settings)
        self.responses = ResponseStore(self.settings.max_stored_responses, max_bytes)
        self.batches = Batches(self.settings, self._slots, self.metrics.batches)

    async def drain(self) -> None:
        """Before the last answers: no new ones from now on."""
        await self.batches.stop()
        self.draining = True

    async def close(self) -> None:
        """After the last answer."""
        await self.mcp.close()
        self.media.close()
        if self.tracer is not None:
            await self.tracer.close()

    def admit(self) -> None:
        """Check that answers can be requested now. Raises `Draining`."""
        if self.draining:
            raise Draining("the server is shutting down")

    def check_ready(self) -> None:
        """Check that a request would be answered immediately. Raises `Loading`, `Draining`."""
        self.admit()
        if self.loading is not None:
            raise Loading(f"the model {Path(self.loading).name} is still loading; try again in a moment")

    def time_limits_s(self) -> tuple[float | None, float | None]:
        """Default time limits: for the whole answer, and for waiting until it begins."""
        return self.settings.request_timeout_s or None, self.settings.queue_timeout_s or None

    def named(self, model: str) -> str:
        """The requested model's name, after the aliases in the settings."""
        loaded = [each.id for each in self.runtime.loaded()]
        if model in loaded:
            return model
        if (own := self.aliased(model)) != model or self.runtime.routes.of(own) is not None:
            return own
        if (meant := among(loaded, model)) is not None:
            return meant
        if self.runtime.adapters.base(model) != model:
            return model
        for pattern, other in self._aliases:
            if fnmatchcase(model, pattern):
                return other or (self.first if self.first in loaded else next(iter(loaded), self.loading or model))
        return model

    def aliased(self, name: str) -> str:
        """The model with this alias; other names unchanged."""
        return self.settings.sections().model_named(name)

    def own_settings(self, id: str) -> dict[str, Any]:
        """The model's own settings, without its system message and file paths."""
        own = self.settings.sections().of(id)
        return {key: each.value for key, each in own.items() if key not in ("system", "chat_template")}

    def most_answers(self, model: str) -> int:
        """How many requests a model can have running and waiting; from the settings if it is not loaded."""
        return self._slots(model) + self.settings.max_waiting

    def _slots(self, model: str | None) -> int:
        """How many answers a model writes at a time; from the settings if it is not loaded."""
        loaded = None if model is None else self.loaded(model)
        if loaded is not None:
            return loaded.slots
        base = None if model is None else self.runtime.adapters.base(self.named(model))
        return (self.settings if base is None else self.settings.for_model(base)).slots

    def timed(self, requests: Sequence[GenerationRequest]) -> list[GenerationRequest]:
        """The requests with the server's default time limits; those of the batch class wait for all others."""
        timeout_s, queue_timeout_s = self.time_limits_s()
        return [
            request
            if request.batch
            else msgspec.structs.replace(
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
        """The result of `submit`, `watched`: immediately, or pending for a stream whose model is still to be loaded, so
        that the client can be informed. Raises as `submit`, and `ClientGone`.
        """

        async def submitted() -> list[Answer]:
            return watched(await self.runtime.submit(self.named(model), requests, keep_alive_s=keep_alive_s))

        if stream and self.loaded(model) is None and self.runtime.routes.of(self.named(model)) is None:
            return await sse.unless_slow(receive, submitted(), self.settings.keep_alive_s)
        done: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        done.set_result(await sse.unless_gone(receive, submitted()))
        return done

    def seen_by_client(self, error: LocalLLMError) -> LocalLLMError:
        """At shutdown, workers end before the last answers do; that is not a crash."""
        return Draining("the server is shutting down") if self.draining and isinstance(error, Unavailable) else error

    def loaded(self, name: str) -> LoadedModel | None:
        """The model of that name, if it is loaded; of a name with adapters, its base."""
        models = {loaded.id: loaded for loaded in self.runtime.loaded()}
        id = among(models, self.runtime.adapters.base(self.named(name)))
        return None if id is None else models[id]

    async def model_for(self, request: Request, asked: str | None) -> str:
        """`model_id` of the model that shall answer this request: in place of a name that nobody knows, the one that
        the server was started with. The tally then says so. Raises as `model_id`.
        """
        model = await self.model_id(asked)
        if asked is None or not self.starts_one or self.settings.unknown_models == "refuse":
            return model
        if self.runtime.routes.of(model) is not None:
            return model
        if await self._is_known(model):
            return model
        if "+" in model and await self._is_known(self.runtime.adapters.base(model.partition("+")[0])):
            self.runtime.adapters.variant(model)  # says which adapters the model has
        await self.started.wait()
        self.admit()
        model = self.named(asked)  # it may have been the name of the model being loaded
        if self.loaded(model) is not None or self.only is None:
            return model
        tally_of(request).instead = self.only
        return self.only

    async def _is_known(self, model: str) -> bool:
        """Whether the model is loaded, on this machine, or can be pulled."""
        if self.loaded(model) is not None or resolve.is_downloadable(model):
            return True
        model = self.runtime.adapters.base(model)
        ids = {each.id for each in self.runtime.running()}
        if among(ids, model) is not None:
            return True
        return among({each.id for each in await self.listing.run(self.runtime.listed)}, model) is not None

    async def model_id(self, asked: str | None) -> str:
        """The requested model: the named one, else the only one loaded, or the first of the command line; waits until
        that is loaded. Raises `ModelNotFound`.
        """
        if asked is not None:
            return self.named(asked)
        await self.started.wait()
        self.admit()
        if self.first is not None and self.loaded(self.first) is not None:
            return self.first
        loaded = [model.id for model in self.runtime.loaded()]
        fallback = next((other for pattern, other in self._aliases if pattern == "*" and other), None)
        if not loaded and fallback is not None:
            return fallback
        if len(loaded) != 1:
            raise ModelNotFound(f"name the model; loaded: {', '.join(loaded) or 'none'}", param="model")
        return loaded[0]
