"""Counts the cost of one HTTP request, for its log line and its key's metrics. Knows neither.

Counts continuously, so that a failed stream or one whose client disconnects is counted as far as it got.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.requests import Request

from localllm.errors import LocalLLMError
from localllm.runtime.answer_reader import Routed
from localllm.runtime.runtime import Answer
from localllm.types import Delta, Finish, LoadedModel

logger = logging.getLogger("localllm")


@dataclass
class Tally:
    """Tokens of one request: every prompt once, whatever `n` is, and all generated tokens."""

    asked: str | None = None
    """The model's name as the client gave it, even if it does not exist."""
    model: str | None = None
    """The id of the answering model."""
    instead: str | None = None
    """The id of the model that answers although another name was asked for, which nobody knows."""
    routed: Routed | None = None
    """Which model of a route answers."""
    cache_key: str | None = None
    """The client's `prompt_cache_key`."""
    has_replaced_surrogates: bool = False
    """Whether texts of the body had unpaired surrogates, which were replaced."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    queue_s: float | None = None
    """The longest wait of its answers for a slot."""
    cache_miss: str | None = None
    """Why the prompt was not cached; only with debug logging."""
    error: str | None = None
    """The error code that ended an answer early."""
    is_traced: bool = False
    ends: list[tuple[int, Finish]] = field(default_factory=list)
    """The moment (ns since 1970) and the end of each answer, if it is traced."""

    @property
    def answering(self) -> str | None:
        """The model that a reply names, where one was asked for."""
        return None if self.asked is None else self.instead or self.model

    def begin(self, asked: str, loaded: LoadedModel | None) -> None:
        """A model was requested; `loaded`: the model, if it is loaded."""
        self.asked = asked
        self.model = None if loaded is None else loaded.id

    def shown_model(self, asked: str | None, model: str) -> str:
        """The model's name in a reply: as the client gave it, if that is its name."""
        return self.instead or asked or model

    def watched(self, answers: Sequence[Answer], loaded: LoadedModel | None, num_candidates: int = 1) -> list[Answer]:
        """The answers, counted as they are read; those of one prompt are adjacent."""
        self.model = self.model if loaded is None else loaded.id
        self.routed = next((answer.routed for answer in answers if answer.routed is not None), None)
        if self.routed is not None:
            self.model = self.routed.model
        return [_Counted(answer, self, index % num_candidates == 0) for index, answer in enumerate(answers)]

    def embedded(self, loaded: LoadedModel | None, num_tokens: Sequence[int]) -> None:
        """Texts were embedded or ranked; `num_tokens`: of each."""
        self.model = self.model if loaded is None else loaded.id
        self.prompt_tokens += sum(num_tokens)


def tally_of(request: Request) -> Tally:
    """The tally of a request."""
    tally = request.state.tally
    assert isinstance(tally, Tally)
    return tally


class _Counted(Answer):
    def __init__(self, answer: Answer, tally: Tally, counts_prompt: bool) -> None:
        self.num_prompt_tokens = answer.num_prompt_tokens
        self.notes, self.making = answer.notes, answer.making
        self._answer = answer
        self._tally = tally
        self._counts_prompt = counts_prompt
        self._num_counted = 0
        if counts_prompt:
            tally.prompt_tokens += answer.num_prompt_tokens

    async def __anext__(self) -> Delta:
        try:
            delta = await self._answer.__anext__()
        except LocalLLMError as error:
            self._tally.error = error.code
            raise
        self._count(delta)
        return delta

    def _count(self, delta: Delta) -> None:
        tally, finish = self._tally, delta.finish
        new = delta.num_tokens if finish is None else finish.usage.completion_tokens - self._num_counted
        self._num_counted += new
        tally.completion_tokens += new
        if finish is not None:
            self.cache_miss = self._answer.cache_miss
            if tally.is_traced:
                tally.ends.append((time.time_ns(), finish))
            if logger.isEnabledFor(logging.DEBUG):  # it contains part of a prompt
                tally.cache_miss = tally.cache_miss or self.cache_miss
            tally.queue_s = max(tally.queue_s or 0.0, finish.timings.queue_s)
            if self._counts_prompt:
                tally.cached_tokens += finish.usage.cached_tokens

    async def aclose(self) -> None:
        await self._answer.aclose()

    def __del__(self) -> None:
        """The answer itself cancels on release."""
