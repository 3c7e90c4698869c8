"""One answer of `/completion`: deltas in, stream events out, and the complete reply at the end.

Knows nothing of HTTP. A test checks that the events add up to the complete reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from localllm.errors import Draining
from localllm.runtime.runtime import Answer
from localllm.server.answers.remarks import remarks
from localllm.server.answers.timings import Speed, progress_object, speed_of
from localllm.server.apis.llamacpp.completion_replies import (
    Chosen,
    GenerationSettings,
    PartialReply,
    WholeReply,
    probabilities,
    sampling_of,
    stop_type,
)
from localllm.server.apis.llamacpp.completion_requests import AnswerFields
from localllm.server.requests.body import field_notes
from localllm.types import Delta, Finish, Making, ResolvedSampling, TokenLogprob

NOTHING = Making("", ResolvedSampling(), None)


class CompletionStory:
    """The events of one answer, in order."""

    def __init__(self, body: AnswerFields, index: int, model: str) -> None:
        self.whole: WholeReply | None = None
        """The complete reply, after the end."""
        self._body = body
        self._index = index
        self._model = model
        self._speed = Speed()
        self._making = NOTHING
        self._num_prompt_tokens = 0
        self._texts: list[str] = []
        self._tokens: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._notes: list[str] = []

    def begin(self, answer: Answer) -> None:
        """Takes over what is known before the first delta."""
        self._notes += field_notes(answer.notes)
        self._making = answer.making or NOTHING
        self._num_prompt_tokens = answer.num_prompt_tokens

    def feed(self, delta: Delta) -> Iterator[PartialReply]:
        """The events of a delta without its finish: one per token with probabilities, otherwise one."""
        for progress in delta.progress:
            self._speed.progress = progress
            if self._body.return_progress:
                speed = self._speed.of_prompt() if self._body.timings_per_token else None
                timings = UNSET if speed is None else speed
                yield self._partial(prompt_progress=progress_object(progress), timings=timings)
        self._speed.count(delta)
        self._texts.append(delta.text)
        self._tokens += delta.tokens
        self._logprobs += delta.logprobs
        self._notes += delta.notes
        if not delta.text and not delta.num_tokens:
            return
        speed = self._speed.so_far() if self._body.timings_per_token else None
        timings = UNSET if speed is None else speed
        for text, tokens, chosen in _parts(delta):
            likely = self._probabilities(chosen)
            yield self._partial(text, tokens, timings=timings, completion_probabilities=likely)

    def end(self, finish: Finish, cache_miss: str | None = None) -> WholeReply:
        """The complete reply. Raises `Draining` if the server cut it short."""
        if finish.reason == "cancelled":
            raise Draining("the answer was cancelled by the server")
        usage, text = finish.usage, "".join(self._texts)
        chosen = self._logprobs if finish.stop is None else _within(self._logprobs, text)
        self.whole = WholeReply(
            index=self._index,
            content=text,
            tokens=self._tokens if self._body.return_tokens else [],
            id_slot=self._slot,
            model=self._model,
            tokens_predicted=usage.completion_tokens,
            tokens_evaluated=usage.prompt_tokens,
            image_tokens=usage.image_tokens or UNSET,
            audio_tokens=usage.audio_tokens or UNSET,
            generation_settings=self._settings(),
            prompt=self._making.prompt,
            has_new_line="\n" in text,
            truncated=finish.is_context_full or usage.shifted_tokens > 0,
            stop_type=stop_type(finish),
            stopping_word=finish.stop or "",
            tokens_cached=max(0, usage.total_tokens - usage.shifted_tokens - bool(usage.completion_tokens)),
            timings=speed_of(finish),
            completion_probabilities=self._probabilities(chosen),
            localllm=remarks(self._notes, cache_miss),
        )
        return self.whole

    def last(self, finish: Finish, cache_miss: str | None = None) -> WholeReply:
        """The last event of a stream. Raises as `end`."""
        whole = self.end(finish, cache_miss)
        return msgspec.structs.replace(whole, content="", tokens=[], completion_probabilities=UNSET)

    @property
    def _slot(self) -> int:
        return -1 if self._speed.progress is None else self._speed.progress.slot

    def _partial(self, text: str = "", tokens: Iterable[int] = (), **extra: Any) -> PartialReply:
        return PartialReply(
            index=self._index,
            content=text,
            tokens=list(tokens),
            id_slot=self._slot,
            tokens_predicted=self._speed.num_tokens,
            tokens_evaluated=self._num_prompt_tokens,
            **extra,
        )

    def _probabilities(self, items: Iterable[TokenLogprob]) -> list[Chosen] | UnsetType:
        return probabilities([*items], behind_filters=bool(self._body.post_sampling_probs)) or UNSET

    def _settings(self) -> GenerationSettings:
        body = self._body
        return GenerationSettings(
            **sampling_of(self._making),
            stop=[body.stop] if isinstance(body.stop, str) else body.stop or [],
            n_keep=body.n_keep or 0,
            n_discard=body.n_discard or 0,
            ignore_eos=bool(body.ignore_eos),
            stream=bool(body.stream),
            n_probs=body.num_logprobs() or 0,
            grammar=body.grammar or "",
            samplers=list(body.used_samplers),
            timings_per_token=bool(body.timings_per_token),
            post_sampling_probs=bool(body.post_sampling_probs),
        )


def _parts(delta: Delta) -> Iterator[tuple[str, tuple[int, ...], tuple[TokenLogprob, ...]]]:
    """Splits a delta by its tokens if they have probabilities; the last one gets text that belongs to no token."""
    items = delta.logprobs
    if len(items) < 2:
        yield delta.text, delta.tokens, items
        return
    pieces = [item.piece.decode("utf-8", "replace") for item in items]
    texts = pieces if "".join(pieces) == delta.text else [*[""] * (len(items) - 1), delta.text]
    ids = [(item.token,) for item in items]
    for text, tokens, item in zip(texts, ids, items, strict=True):
        yield text, tokens, (item,)


def _within(items: list[TokenLogprob], text: str) -> list[TokenLogprob]:
    """The tokens that begin within the text, without those of the stop string after it."""
    length, at = len(text.encode("utf-8", "surrogatepass")), 0
    for number, item in enumerate(items):
        if at >= length:
            return items[:number]
        at += len(item.piece)
    return items
