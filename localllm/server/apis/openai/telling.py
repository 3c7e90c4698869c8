"""Answers in OpenAI's format: streamed chunks or the complete reply. Knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import msgspec

from localllm.errors import InternalError, InvalidParameter
from localllm.runtime.runtime import Answer
from localllm.server.apis.openai import replies as out
from localllm.server.apis.openai.requests import CommonRequest
from localllm.server.apis.openai.shapes import Shape
from localllm.server.common import choices
from localllm.server.common.body import field_notes
from localllm.server.common.logprobs import echo_logprobs, text_logprobs, text_of
from localllm.server.common.remarks import Remarks, TimingsObject, final_timings, running_timings
from localllm.server.common.remarks import remarks as remarks_of
from localllm.server.common.timings import Speed, progress_object
from localllm.server.edge import sse
from localllm.types import Delta, Finish, TokenLogprob

MAX_PROMPT_LOGPROBS = 2**19
"""Limit for all prompts of a request: about 60 MB while they are collected."""


class Telling:
    """The answers to one request."""

    def __init__(
        self, id: str, model: str, body: CommonRequest, shape: Shape, echoes: list[str], prompt: str | None = None
    ) -> None:
        """`echoes`: texts to put before each answer, if any. `prompt`: the rendered prompt, if requested."""
        self.id = id
        self._body = body
        self._shape = shape
        self._echoes = echoes
        self._verbose = msgspec.UNSET if prompt is None else out.Verbose(prompt)
        self._template: out.Reply[Any] = out.Reply(id=id, object="", created=int(time.time()), model=model, choices=[])

    def check_scores(self, answers: Sequence[Answer]) -> None:
        """Raises `InvalidParameter` if the prompts' log-probabilities would need too much memory."""
        num_top = self._body.num_logprobs()
        if not self._echoes or num_top is None:
            return
        count = sum(answer.num_prompt_tokens for answer in answers) * (1 + num_top)
        if count > MAX_PROMPT_LOGPROBS:
            raise InvalidParameter(
                f"echo with logprobs would return {count} prompt log-probabilities, the limit is {MAX_PROMPT_LOGPROBS}"
                "; send fewer or shorter prompts at a time, or a smaller logprobs",
                param="logprobs",
            )

    def whole(self, answers: Sequence[Answer], made: Sequence[choices.Whole]) -> bytes:
        """The JSON of the reply."""
        body, shape = self._body, self._shape
        chosen = choices.best(made, body.num_candidates, body.num_choices)
        warnings = _of_request(answers, shape)
        for index, whole in enumerate(chosen):
            warnings += _numbered(shape.warnings(whole), index, len(chosen))
        reply = msgspec.structs.replace(
            self._template,
            object=shape.whole_object,
            choices=[self._choice(index, whole) for index, whole in enumerate(chosen)],
            usage=out.usage_object(choices.usage([each.finish for each in made], body.num_candidates)),
            timings=self._timings(made[0].finish),
            localllm=remarks_of(warnings, answers[0].cache_miss if body.cache_report else None),
            verbose=self._verbose,
        )
        return msgspec.json.encode(reply)

    def _choice(self, index: int, whole: choices.Whole) -> Any:
        if not self._echoes:
            logprobs = None if self._body.num_logprobs() is None else self._shape.logprobs(whole.logprobs, 0)
            return self._shape.whole(index, whole, logprobs)
        echo, scores = self._echoes[index], None
        if self._body.num_logprobs() is not None:
            scores = echo_logprobs(whole.prompt_logprobs, echo) + text_logprobs(whole.logprobs, len(echo))
        return self._shape.whole(index, whole._replace(text=echo + whole.text), scores)

    def _timings(self, finish: Finish) -> TimingsObject | msgspec.UnsetType:
        speed = bool(self._body.timings_per_token)
        return final_timings(finish, seconds=bool(self._body.timings), speed=speed)

    async def events(self, answering: asyncio.Future[list[Answer]]) -> AsyncGenerator[bytes, None]:
        """The stream's chunks. Raises what ends an answer early."""
        answers = await answering
        self.check_scores(answers)
        async for chunk in self._chunks(answers):
            yield sse.data(msgspec.json.encode(chunk))
        yield sse.DONE

    async def _chunks(self, answers: list[Answer]) -> AsyncGenerator[out.Reply[Any], None]:
        body, shape, echoes = self._body, self._shape, self._echoes
        # With include_usage every chunk but the last has `"usage": null`, as OpenAI's do.
        empty = msgspec.structs.replace(
            self._template, object=shape.chunk_object, usage=None if body.include_usage else msgspec.UNSET
        )

        def chunk(*made: Any, **extra: Any) -> out.Reply[Any]:
            return msgspec.structs.replace(empty, choices=list(made), **extra)

        streams = [shape.stream(index) for index in range(len(answers))]
        for stream in streams:
            first = stream.first()
            if first is not None:
                yield chunk(first)
        scores_prompts = bool(echoes) and body.num_logprobs() is not None
        if not scores_prompts:
            for index, text in enumerate(echoes):
                for made in streams[index].chunks(Delta(text), None):
                    yield chunk(made)
        offsets = [len(echoes[index]) if echoes else 0 for index in range(len(answers))]
        scored: list[list[TokenLogprob]] = [[] for _ in answers]
        finishes: dict[int, Finish] = {}
        uncounted = [0] * len(answers)  # per answer, tokens not yet in a chunk
        said = _of_request(answers, shape)
        speeds = [Speed() for _ in answers]
        async for index, delta in choices.merged(answers):
            speeds[index].count(delta)
            for progress in delta.progress if body.return_progress else ():
                yield chunk(streams[index].nothing(), prompt_progress=progress_object(progress))
            running = running_timings(speeds[index]) if body.timings_per_token else msgspec.UNSET
            if scores_prompts and delta.prompt_logprobs:
                # Collected for the whole prompt, whose offsets are only known then.
                scored[index] += delta.prompt_logprobs
                if len(scored[index]) == answers[index].num_prompt_tokens:
                    echoed = echo_logprobs(scored[index], echoes[index])
                    for made in streams[index].chunks(Delta(echoes[index]), echoed):
                        yield chunk(made)
                    scored[index] = []
            logprobs = shape.logprobs(delta.logprobs, offsets[index]) if delta.logprobs else None
            uncounted[index] += delta.num_tokens
            for made in streams[index].chunks(delta, logprobs):
                counted = Remarks(num_tokens=uncounted[index]) if body.timings and uncounted[index] else msgspec.UNSET
                yield chunk(made, timings=running, localllm=counted)
                uncounted[index] = 0
            offsets[index] += sum(len(text_of(item.piece)) for item in delta.logprobs)
            if delta.finish is not None:
                finishes[index] = delta.finish
                timings = self._timings(delta.finish)
                said += _numbered(streams[index].warnings(delta.finish), index, len(answers))
                remarks = remarks_of(said, answers[index].cache_miss if body.cache_report else None)
                yield chunk(streams[index].last(delta.finish), timings=timings, localllm=remarks, verbose=self._verbose)
                said = []
        if len(finishes) < len(answers):
            raise InternalError("an answer ended without a finish reason")
        if body.include_usage:
            ended = [finishes[index] for index in range(len(answers))]
            timings = self._timings(ended[0]) if body.timings_per_token else msgspec.UNSET
            yield chunk(usage=out.usage_object(choices.usage(ended, body.num_candidates)), timings=timings)


def _of_request(answers: Iterable[Answer], shape: Shape) -> list[str]:
    """Warnings about all answers of the request."""
    return [*shape.notes, *field_notes(note for answer in answers for note in answer.notes)]


def _numbered(warnings: Iterable[str], index: int, num_choices: int) -> list[str]:
    """Prefixed with the choice they concern, if there are several."""
    return [*warnings] if num_choices == 1 else [f"choices[{index}]: {said}" for said in warnings]
