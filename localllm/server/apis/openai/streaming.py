"""Answers in OpenAI's format: streamed chunks or the complete reply. Knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from localllm.errors import InvalidParameter
from localllm.runtime.runtime import Answer
from localllm.server.answers import choices
from localllm.server.answers.logprobs import echo_logprobs, text_logprobs, text_of
from localllm.server.answers.remarks import Remarks, TimingsObject, final_timings, running_timings
from localllm.server.answers.remarks import remarks as remarks_of
from localllm.server.answers.story import events_of
from localllm.server.answers.timings import Speed, progress_object
from localllm.server.apis.openai import replies as out
from localllm.server.apis.openai.requests import CommonRequest
from localllm.server.apis.openai.shapes import Shape
from localllm.server.edge import sse
from localllm.server.requests.body import field_notes
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
        self.body = body
        self.shape = shape
        self.echoes = echoes
        self.verbose = msgspec.UNSET if prompt is None else out.Verbose(prompt)
        self._template: out.Reply[Any] = out.Reply(id=id, object="", created=int(time.time()), model=model, choices=[])

    def check_scores(self, answers: Sequence[Answer]) -> None:
        """Raises `InvalidParameter` if the prompts' log-probabilities would need too much memory."""
        num_top = self.body.num_logprobs()
        if not self.echoes or num_top is None:
            return
        count = sum(answer.num_prompt_tokens for answer in answers) * (1 + num_top)
        if count > MAX_PROMPT_LOGPROBS:
            raise InvalidParameter(
                f"echo with logprobs would return {count} prompt log-probabilities, the limit is {MAX_PROMPT_LOGPROBS}"
                "; send fewer or shorter prompts at a time, or a smaller logprobs",
                param="logprobs",
            )

    def whole(self, answers: Sequence[Answer], made: Sequence[choices.CompleteAnswer]) -> bytes:
        """The JSON of the reply."""
        body, shape = self.body, self.shape
        chosen = choices.best(made, body.num_candidates, body.num_choices)
        warnings = _of_request(answers, shape)
        for index, whole in enumerate(chosen):
            warnings += _numbered(shape.warnings(whole), index, len(chosen))
        reply = msgspec.structs.replace(
            self._template,
            object=shape.whole_object,
            choices=[self._choice(index, whole) for index, whole in enumerate(chosen)],
            usage=out.usage_object(choices.usage([each.finish for each in made], body.num_candidates)),
            timings=_timings(body, made[0].finish),
            localllm=remarks_of(warnings, answers[0].cache_miss if body.cache_report else None, chosen[0].finish),
            verbose=self.verbose,
        )
        return msgspec.json.encode(reply)

    def _choice(self, index: int, whole: choices.CompleteAnswer) -> Any:
        if not self.echoes:
            logprobs = None if self.body.num_logprobs() is None else self.shape.logprobs(whole.logprobs, 0)
            return self.shape.whole(index, whole, logprobs)
        echo, scores = self.echoes[index], None
        if self.body.num_logprobs() is not None:
            scores = echo_logprobs(whole.prompt_logprobs, echo) + text_logprobs(whole.logprobs, len(echo))
        return self.shape.whole(index, whole._replace(text=echo + whole.text), scores)

    async def events(self, answering: asyncio.Future[list[Answer]]) -> AsyncGenerator[bytes, None]:
        """The stream's chunks. Raises what ends an answer early."""
        body, answers = self.body, await answering
        self.check_scores(answers)
        # With include_usage every chunk but the last has `"usage": null`, as OpenAI's do.
        empty = msgspec.structs.replace(
            self._template, object=self.shape.chunk_object, usage=None if body.include_usage else msgspec.UNSET
        )
        warnings = [*self.shape.notes]
        stories = [_Story(self, index, len(answers), empty, warnings) for index in range(len(answers))]
        async with aclosing(events_of(stories, answering, says_miss=bool(body.cache_report))) as chunks:
            async for chunk in chunks:
                yield sse.data(msgspec.json.encode(chunk))
        if body.include_usage:
            ended = [story.finish for story in stories if story.finish is not None]
            usage = out.usage_object(choices.usage(ended, body.num_candidates))
            timings = _timings(body, ended[0]) if body.timings_per_token else msgspec.UNSET
            yield sse.data(msgspec.json.encode(msgspec.structs.replace(empty, usage=usage, timings=timings)))
        yield sse.DONE


class _Story:
    """The chunks of one of the answers."""

    def __init__(
        self, telling: Telling, index: int, num_answers: int, empty: out.Reply[Any], warnings: list[str]
    ) -> None:
        """`empty`: a chunk without choices. `warnings`: of all answers so far, sent at the next answer's end."""
        self.finish: Finish | None = None
        self._body, self._shape, self._verbose = telling.body, telling.shape, telling.verbose
        self._echo = telling.echoes[index] if telling.echoes else None
        self._index = index
        self._num_answers = num_answers
        self._empty = empty
        self._warnings = warnings
        self._stream = telling.shape.stream(index)
        self._scores_prompt = self._echo is not None and telling.body.num_logprobs() is not None
        self._scored: list[TokenLogprob] = []
        self._num_prompt_tokens = 0
        self._offset = len(self._echo or "")
        self._num_uncounted = 0
        """Tokens not yet in a chunk."""
        self._speed = Speed()

    def warn(self, warnings: Iterable[str]) -> None:
        """Warnings about the request."""
        self._warnings += warnings

    def begin(self, num_prompt_tokens: int) -> Iterator[out.Reply[Any]]:
        """The first chunk, if any, and the prompt to echo."""
        self._num_prompt_tokens = num_prompt_tokens
        first = self._stream.first()
        if first is not None:
            yield self._chunk(first)
        if self._echo is not None and not self._scores_prompt:
            yield from map(self._chunk, self._stream.chunks(Delta(self._echo), None))

    def feed(self, delta: Delta) -> Iterator[out.Reply[Any]]:
        """The chunks of a delta, without its finish."""
        body = self._body
        self._speed.count(delta)
        for progress in delta.progress if body.return_progress else ():
            yield self._chunk(self._stream.nothing(), prompt_progress=progress_object(progress))
        running = running_timings(self._speed) if body.timings_per_token else msgspec.UNSET
        if self._scores_prompt and delta.prompt_logprobs:
            # Collected for the whole prompt, whose offsets are only known then.
            self._scored += delta.prompt_logprobs
            if len(self._scored) == self._num_prompt_tokens:
                echo = self._echo or ""
                yield from map(self._chunk, self._stream.chunks(Delta(echo), echo_logprobs(self._scored, echo)))
                self._scored = []
        logprobs = self._shape.logprobs(delta.logprobs, self._offset) if delta.logprobs else None
        self._num_uncounted += delta.num_tokens
        for made in self._stream.chunks(delta, logprobs):
            is_counted = body.timings and self._num_uncounted
            counted = Remarks(num_tokens=self._num_uncounted) if is_counted else msgspec.UNSET
            yield self._chunk(made, timings=running, localllm=counted)
            self._num_uncounted = 0
        self._offset += sum(len(text_of(item.piece)) for item in delta.logprobs)

    def end(self, finish: Finish, cache_miss: str | None) -> Iterator[out.Reply[Any]]:
        """The last chunk. Raises `Draining` if the server cut the answer short."""
        self.finish = finish
        self._warnings += _numbered(self._stream.warnings(finish), self._index, self._num_answers)
        yield self._chunk(
            self._stream.last(finish),
            timings=_timings(self._body, finish),
            localllm=remarks_of(self._warnings, cache_miss, finish),
            verbose=self._verbose,
        )
        self._warnings.clear()

    def _chunk(self, choice: Any, **extra: Any) -> out.Reply[Any]:
        return msgspec.structs.replace(self._empty, choices=[choice], **extra)


def _timings(body: CommonRequest, finish: Finish) -> TimingsObject | msgspec.UnsetType:
    return final_timings(finish, seconds=bool(body.timings), speed=bool(body.timings_per_token))


def _of_request(answers: Iterable[Answer], shape: Shape) -> list[str]:
    """Warnings about all answers of the request."""
    return [*shape.notes, *field_notes(note for answer in answers for note in answer.notes)]


def _numbered(warnings: Iterable[str], index: int, num_choices: int) -> list[str]:
    """Prefixed with the choice they concern, if there are several."""
    return [*warnings] if num_choices == 1 else [f"choices[{index}]: {said}" for said in warnings]
