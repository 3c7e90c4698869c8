"""Answers of a route: its models are asked one after the other, until one takes the request; never after a first token.

The answers say which model that is and why. Knows neither how models are loaded nor HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from localllm.errors import ContextLengthExceeded, LoadFailed, Loading, LocalLLMError, ModelNotFound, QueueFull
from localllm.runtime.answer_reader import Answer, Routed
from localllm.runtime.finding import among
from localllm.settings.config import Settings
from localllm.settings.keys import HIGHEST_PRIORITY
from localllm.settings.routes import Cause, Route
from localllm.types import GenerationRequest, LoadedModel
from localllm.types.states import AvailableModel

logger = logging.getLogger("localllm")
MOST_MIRRORED = 8
"""Copies under way; beyond that requests are not mirrored."""
STICKY_CHARS = 2000
"""Of the text by which a conversation is known."""

Submit = Callable[[str, Sequence[GenerationRequest]], Awaitable[list[Answer]]]


class Routing:
    """The routes of the settings. Belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._sections = settings.sections()
        self._mirrored: set[asyncio.Task[None]] = set()
        """Copies of requests, whose answers nobody reads."""

    def of(self, name: str) -> Route | None:
        """The route of that name."""
        return self._sections.routes().get(name)

    def listed(self, models: Sequence[AvailableModel]) -> list[AvailableModel]:
        """The routes as models of this machine, of which `models` are the others."""
        there = {model.id: model for model in models}
        return [self._listed(route, there) for route in self._sections.routes().values()]

    def _listed(self, route: Route, there: Mapping[str, AvailableModel]) -> AvailableModel:
        made = AvailableModel(id=route.name, size_bytes=0, created_unix_s=0, source="config.toml", route=route.models)
        ids = (among(there, model) for model in self._leads_to(route))
        first = next((there[id] for id in ids if id is not None), None)
        if first is None:
            return replace(made, problem="none of its models is on this machine; pull one of them")
        return replace(made, created_unix_s=first.created_unix_s, base=first.base or first.id)

    def _leads_to(self, route: Route) -> Iterator[str]:
        """Names of its models in the order in which they are asked, through other routes."""
        for model in route.models:
            name = self._sections.model_named(model)
            other = self.of(name)
            if other is None:
                yield name
            else:
                yield from self._leads_to(other)

    async def answers(self, route: Route, requests: Sequence[GenerationRequest], submit: Submit) -> list[Answer]:
        """The answers of the first model that takes the requests. Raises what the first of them raised."""

        def named(model: str, requests: Sequence[GenerationRequest]) -> Awaitable[list[Answer]]:
            return submit(self._sections.model_named(model), requests)

        answers = await answers_of(route, requests, named)
        if route.mirror is not None:
            self._mirror(route.mirror, requests, named)
        return answers

    async def first(self, name: str | Path, load: Callable[[str | Path], Awaitable[LoadedModel]]) -> LoadedModel:
        """The first model of a route that can be loaded; of another name, that model. Raises what the first one did."""
        route = self.of(name) if isinstance(name, str) else None
        if route is None:
            return await load(name)
        first_error: LocalLLMError | None = None
        for model in route.models:
            try:
                return await self.first(self._sections.model_named(model), load)
            except LocalLLMError as error:
                if cause_of(error) not in route.causes:
                    raise
                first_error = first_error or error
        assert first_error is not None
        raise first_error

    def _mirror(self, model: str, requests: Sequence[GenerationRequest], submit: Submit) -> None:
        """Below all other requests, and not at all if too many are under way."""
        if len(self._mirrored) >= MOST_MIRRORED:
            return
        copies = [replace(request, batch=True, priority=HIGHEST_PRIORITY) for request in requests]
        task = asyncio.get_running_loop().create_task(_drained(model, copies, submit))
        self._mirrored.add(task)
        task.add_done_callback(self._mirrored.discard)

    async def aclose(self) -> None:
        """End what is mirrored."""
        tasks = list(self._mirrored)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def answers_of(route: Route, requests: Sequence[GenerationRequest], submit: Submit) -> list[Answer]:
    """The answers of the first model that takes the requests. Raises what the first of them raised."""
    order = route.order(_share(requests[0]) if requests else 0.0)
    if route.wait_s is not None:  # it has to be seen when an answer begins
        requests = [replace(request, comes_whole=False) for request in requests]
    first_error: LocalLLMError | None = None
    waiting: tuple[list[Answer], str, str] | None = None
    reason = "split" if route.split else "first"
    for number, model in enumerate(order):
        try:
            answers = await submit(model, requests)
        except LocalLLMError as error:
            cause = cause_of(error)
            if waiting is not None or first_error is not None:
                continue  # this one cannot take it: what the first said counts
            if cause not in route.causes or number == len(order) - 1:
                raise
            first_error, reason = error, cause
            continue
        except BaseException:
            _cancel(waiting)
            raise
        _cancel(waiting)
        waiting = answers, model, reason
        is_last = number == len(order) - 1
        if is_last or route.wait_s is None or await _have_begun(answers, route.wait_s, waiting):
            break
        reason = "wait"
    if waiting is None:
        assert first_error is not None
        raise first_error
    answers, model, reason = waiting
    for answer in answers:
        answer.routed = answer.routed or Routed(route.name, model, reason)
    return answers


def cause_of(error: LocalLLMError) -> Cause | None:
    """The condition of a route that an error fulfils."""
    if isinstance(error, QueueFull):
        return "queue_full"
    if isinstance(error, ContextLengthExceeded):
        return "too_long"
    return "load_failed" if isinstance(error, LoadFailed | ModelNotFound | Loading) else None


async def _have_begun(answers: Sequence[Answer], wait_s: float, waiting: tuple[list[Answer], str, str]) -> bool:
    try:
        async with asyncio.timeout(wait_s):
            for answer in answers:
                await answer.begun()
    except TimeoutError:
        return False
    except BaseException:
        _cancel(waiting)
        raise
    return True


def _cancel(waiting: tuple[list[Answer], str, str] | None) -> None:
    for answer in () if waiting is None else waiting[0]:
        answer.cancel()


def _share(request: GenerationRequest) -> float:
    """From 0 to 1, the same for all turns of a conversation of one key."""
    said = next((message.content for message in request.messages or () if message.role == "user"), None)
    text = said if isinstance(said, str) else request.prompt if isinstance(request.prompt, str) else repr(said)
    known_by = f"{request.cache_salt}:{text[:STICKY_CHARS]}"
    return int.from_bytes(hashlib.sha256(known_by.encode("utf-8", "replace")).digest()[:6]) / 2**48


async def _drained(model: str, requests: Sequence[GenerationRequest], submit: Submit) -> None:
    try:
        for answer in await submit(model, requests):
            async with answer:
                async for _ in answer:
                    pass
    except LocalLLMError as error:
        logger.info("not_mirrored", extra={"fields": {"model": model, "reason": error.code}})
