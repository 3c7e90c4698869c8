"""Steps common to every request for an answer in every API: identify the caller, find the model, end the answer.

Knows no API's fields or wording.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from localllm.errors import LocalLLMError
from localllm.runtime.runtime import Answer
from localllm.server.edge import log, sse
from localllm.server.edge.callers import caller_of
from localllm.server.edge.limits import places_of
from localllm.server.errors import unexpected
from localllm.server.requests.body import documents_header, notes_header, placement_header, template_header
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of
from localllm.types import GenerationRequest, LoadedModel

T = TypeVar("T")
Failed = Callable[[LocalLLMError], Iterable[bytes]]
"""Makes the last bytes of a failed stream in an API's format."""


class Wishes(Protocol):
    """Fields that requests have in every API, besides the prompt."""

    @property
    def model(self) -> str | None:
        """The model's name as the client gave it."""

    @property
    def priority(self) -> int | None:
        """Lower values are served first."""

    @property
    def cache_salt(self) -> str | None:
        """Only prompts with the same salt share cached prefixes."""

    @property
    def prompt_cache_key(self) -> str | None:
        """What gateways keep requests of one prefix together by; it is logged."""

    def keep_alive_s(self) -> float | None:
        """How long the model stays loaded. Raises `InvalidParameter`."""


class Asking:
    """One request for answers, from its body to its last byte. Every answer is closed."""

    def __init__(self, request: Request, model: str, wishes: Wishes, headers: dict[str, str] | None = None) -> None:
        """`model`: the requested model's id; `headers`: of the response. Raises `PermissionDenied`."""
        self.state: ServerState = request.app.state.server
        self.model = model
        self.headers = {} if headers is None else headers
        self._request = request
        self._wishes = wishes
        self._caller, self._tally = caller_of(request), tally_of(request)
        self._tally.begin(wishes.model or model, self.loaded)
        self._tally.cache_key = wishes.prompt_cache_key
        self.keep_alive_s = self._caller.keep_alive(wishes.keep_alive_s())

    @property
    def name(self) -> str:
        """The model's name in the reply."""
        return self._tally.shown_model(self._wishes.model, self.model)

    @property
    def loaded(self) -> LoadedModel | None:
        """The requested model, if it is loaded."""
        return self.state.loaded(self.model)

    async def answers(
        self,
        made_of: Sequence[GenerationRequest],
        *,
        stream: bool,
        num_candidates: int = 1,
        field: str | None = None,
    ) -> asyncio.Future[list[Answer]]:
        """Submits the requests and returns their answers in the same order, `num_candidates` adjacent ones per prompt.

        The future is done, except for a stream whose model has to be loaded first. `field`: the request's field that
        multiplies answers, for errors. Raises as `Runtime.submit` does, `RateLimited`, `PermissionDenied`, and
        `ClientGone`.
        """
        wishes = self._wishes
        made_of = await sse.unless_gone(self._request.receive, self.state.media.completed(made_of, self._caller.owner))
        asked = self._caller.owned(self.state.timed(made_of), priority=wishes.priority, cache_salt=wishes.cache_salt)
        if not stream and any(each.batch for each in asked):
            asked = [replace(each, comes_whole=each.batch) for each in asked]
        if field is not None:
            places_of(self._request).hold(len(asked), field)
        answering = await self.state.answers(
            self._request.receive,
            self.model,
            asked,
            self.keep_alive_s,
            lambda answers: self._tally.watched(answers, self.loaded, num_candidates),
            stream=stream,
        )
        if answering.done():
            self.headers |= notes_header(note for answer in answering.result() for note in answer.notes)
            self.headers |= placement_header(self.loaded)
            self.headers |= documents_header(made_of[0].documents if made_of else ())
            if any(each.messages for each in made_of):
                self.headers |= template_header(self.loaded)
        return answering

    async def one_more(self, generation: GenerationRequest) -> Answer:
        """One more answer to the same request, after the first has begun. Raises as `Runtime.submit` does."""
        state, wishes = self.state, self._wishes
        (generation,) = await state.media.completed([generation], self._caller.owner)
        asked = self._caller.owned(state.timed([generation]), priority=wishes.priority, cache_salt=wishes.cache_salt)
        answers = await state.runtime.submit(state.named(self.model), asked, keep_alive_s=self.keep_alive_s)
        (answer,) = self._tally.watched(answers, self.loaded)
        return answer

    def stream(
        self,
        answering: asyncio.Future[list[Answer]],
        chunks: AsyncGenerator[bytes, None],
        failed: Failed,
        *,
        id: str,
        silence: bytes = sse.COMMENT,
        silence_s: float | None = None,
    ) -> Response:
        """The streamed response. An error ends it with what `failed` makes of it; one before its first byte is raised.

        `id` goes to the log line; `silence` is sent after `silence_s` without other data (0: never; None: the server's
        setting).
        """
        return sse.EventStream(
            chunks,
            partial(abandon, answering),
            self.headers,
            keep_alive_s=self.state.settings.keep_alive_s if silence_s is None else silence_s,
            silence=silence,
            ended=ended(self.state, failed, id=id),
        )

    async def whole(self, answers: Sequence[Answer], work: Awaitable[T]) -> T:
        """The result of `work`; then closes the answers. Raises what ended an answer early, and `ClientGone`."""
        try:
            return await sse.unless_gone(self._request.receive, work)
        except LocalLLMError as error:
            raise self.state.seen_by_client(error) from error
        finally:
            await close(answers)


async def asking_of(request: Request, wishes: Wishes, headers: dict[str, str]) -> Asking:
    """The `Asking` of a parsed request; without a model name, the loaded one is used.

    Raises `ModelNotFound`, `PermissionDenied`.
    """
    state: ServerState = request.app.state.server
    return Asking(request, await state.model_for(request, wishes.model), wishes, headers)


def ended(state: ServerState, failed: Failed, *, id: str | None = None) -> sse.Ended:
    """What becomes of a stream that fails: what `failed` makes of the error, or before its first byte the error.

    `id`: for the log line.
    """

    def failure(error: Exception, has_begun: bool) -> Iterable[bytes]:
        if not isinstance(error, LocalLLMError):
            if not has_begun:
                raise error
            return failed(unexpected(error, "a stream"))
        seen = state.seen_by_client(error)
        if not has_begun:
            raise seen from error
        log.event(logging.WARNING, "stream_failed", id=id, code=error.code, message=error.message)
        return failed(seen)

    return failure


async def close(answers: Sequence[Answer]) -> None:
    """Cancel the answers still running."""
    for answer in answers:
        await answer.aclose()


async def abandon(answering: asyncio.Future[list[Answer]]) -> None:
    """`close`, including answers not yet begun."""
    answers = await sse.abandon(answering)
    if answers is not None:
        await close(answers)
