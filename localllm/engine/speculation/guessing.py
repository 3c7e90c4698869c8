"""How a draft computes its guesses: token by token, or a block of them in one decode. Knows nothing of whether that
pays.

    token by token   [catch up, last -> g1] [g1 -> g2] ... [-> gn]     more while the guesses before are likely
    a block          [catch up] [last, mask .. -> g1 .. gn]            nothing of the block is kept
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import Segment
from localllm.engine.requests.sequence import Sequence
from localllm.engine.speculation.draft_backend import DraftBackend
from localllm.engine.speculation.draft_cost import PROBED_GUESSES, BlockCost, DraftCost
from localllm.engine.speculation.lengths import Length
from localllm.engine.speculation.source import DraftedGuesses
from localllm.engine.speculation.streams import DraftStream, DraftStreams

WARM_UP_DECODES = 6
"""Number of decodes in the warm-up that measures their cost."""
MIN_DRAFT_CHANCE = 0.1
"""Minimum probability of a guess to be computed."""


class DraftableStream(NamedTuple):
    """A stream that may get a draft."""

    sequence: Sequence
    drafted: DraftedGuesses
    most: int
    """Maximum number of tokens to guess."""


class Making:
    """The draft for one stream, in progress."""

    def __init__(self, wanted: DraftableStream, stream: DraftStream) -> None:
        self.wanted = wanted
        self.stream = stream
        self.num_held = stream.first + len(stream.tokens)
        self.tokens: list[int] = []
        self.probabilities: list[float] = []
        self._right = 1.0

    @property
    def worth(self) -> float:
        """Expected gain of drafting one more token."""
        return self.gain(1)

    def gain(self, count: int) -> float:
        """Expected gain of drafting `count` more tokens."""
        chance = self.wanted.drafted.trust.mean
        return self._right * sum([chance**place for place in range(1, count + 1)])

    def take(self, token: int, probability: float) -> None:
        self.tokens.append(token)
        self.probabilities.append(probability)
        self._right *= self.wanted.drafted.trust.chance(probability)


class Probe(NamedTuple):
    """A check: guesses of tokens that are already known."""

    num_tokens: int
    """Number of tokens to decode."""
    num_outputs: int
    """Number of guesses it returns."""
    num_before: int
    """Number of decoded tokens before the first guessed one."""


class Guessing(Protocol):
    """One way of drafting, bound to one draft."""

    spent: DraftCost
    sees_known: bool
    """Whether each guess of a check follows known tokens; otherwise it follows the guesses before it."""

    def warm_up(self, time: Callable[[Segment], float]) -> None:
        """Measure the cost of a decode. `time` decodes a segment at the beginning of the first stream and returns the
        seconds."""
        ...

    def guess(self, ready: Many[tuple[DraftableStream, DraftStream]], length: Length) -> tuple[list[Making], int]:
        """Draft for all ready streams together; returns the drafts and the number of guesses in the longest.

        Raises `BackendError`.
        """
        ...

    def probe(self, missing: int, *, is_new: bool) -> Probe:
        """The check to run for a stream that lacks `missing` tokens, including the last. `is_new`: it holds none."""
        ...

    def held(self, tokens: Many[int]) -> list[int]:
        """The decoded tokens that the stream still holds after a decode with outputs."""
        ...


def guessing(backend: DraftBackend, streams: DraftStreams, share: float) -> Guessing:
    """The way this draft guesses. `share`: cost of its decode relative to a target step, until measured."""
    if streams.guesses_at_once:
        return Blocks(backend, streams, share)
    return Chains(backend, streams, share)


class Chains:
    """Drafts token by token."""

    sees_known = True

    def __init__(self, backend: DraftBackend, streams: DraftStreams, share: float) -> None:
        self._backend, self._streams = backend, streams
        self.spent = DraftCost(share)

    def warm_up(self, time: Callable[[Segment], float]) -> None:
        self.spent.observe_guesses(1, 1, min([time(Segment(0, place, [0], 1)) for place in range(WARM_UP_DECODES)]))

    def guess(self, ready: Many[tuple[DraftableStream, DraftStream]], length: Length) -> tuple[list[Making], int]:
        backend, active = self._backend, _making(ready)
        pending = [draft.wanted.sequence.progress.tokens[draft.num_held :] for draft in active]
        longest, num_decodes = max(map(len, pending)), 0
        drafts = active
        most = min(2 * length.num_tokens + 1, max(draft.wanted.most for draft in active))
        while active:
            backend.decode(
                [
                    Segment(draft.stream.slot, len(draft.stream.tokens), tokens, 1, max(0, longest - len(tokens)))
                    for draft, tokens in zip(active, pending, strict=True)
                ]
            )
            backend.synchronize()
            num_decodes += 1
            for place, (draft, tokens) in enumerate(zip(active, pending, strict=True)):
                self._streams.computed(draft.stream, tokens, is_drafted=num_decodes > 1)
                draft.take(*best(backend.logits(place)[-1]))
            longest = 1
            active = self._going_on(active, length, most)
            pending = [draft.tokens[-1:] for draft in active]
        return drafts, num_decodes

    def _going_on(self, active: list[Making], length: Length, most: int) -> list[Making]:
        """The streams that draft one more token, because the expected gain of it, or of a few more, is worth the rows
        and decodes."""
        num_guesses = len(active[0].tokens)
        num_more = min(most, len(length.steps_s) - 1) - num_guesses
        going_on = [
            draft
            for draft in active
            if num_guesses < draft.wanted.most
            and draft.worth > MIN_DRAFT_CHANCE
            and not self._backend.ends_generation(draft.tokens[-1])
            and any(
                draft.gain(count) > length.rate * length.more_s(num_guesses, count) for count in range(1, num_more + 1)
            )
        ]
        if not going_on:
            return []
        for count in range(1, num_more + 1):
            took_s = self.spent.guesses_s(len(going_on), count)
            took_s += len(going_on) * length.more_s(num_guesses, count)
            if sum([draft.gain(count) for draft in going_on]) > length.rate * took_s:
                return going_on
        return []

    def probe(self, missing: int, *, is_new: bool) -> Probe:
        count = min(missing, self._backend.batch_capacity)
        num_outputs = min(count, count - PROBED_GUESSES if is_new else 2 * PROBED_GUESSES)
        num_outputs = min(max(num_outputs, 1), self._backend.max_outputs)
        return Probe(count, num_outputs, count - num_outputs + 1)

    def held(self, tokens: Many[int]) -> list[int]:
        return list(tokens)


class Blocks:
    """Drafts blocks: one decode makes all planned guesses of all streams."""

    sees_known = False

    def __init__(self, backend: DraftBackend, streams: DraftStreams, share: float) -> None:
        self._backend, self._streams = backend, streams
        self._most = min(streams.guesses_at_once, backend.batch_capacity // backend.num_slots - 1)
        self.spent: DraftCost = BlockCost(share)

    def warm_up(self, time: Callable[[Segment], float]) -> None:
        for count in sorted({1, self._most}):
            took_s = min([time(Segment(0, 0, [0], count)) for _ in range(WARM_UP_DECODES // 2)])
            self.spent.observe_guesses(1, count, took_s)

    def guess(self, ready: Many[tuple[DraftableStream, DraftStream]], length: Length) -> tuple[list[Making], int]:
        backend, drafts = self._backend, _making(ready)
        count = min(length.num_tokens, self._most, max(draft.wanted.most for draft in drafts))
        pending = [draft.wanted.sequence.progress.tokens[draft.num_held :] for draft in drafts]
        backend.decode(
            [
                Segment(draft.stream.slot, len(draft.stream.tokens), tokens, count)
                for draft, tokens in zip(drafts, pending, strict=True)
            ]
        )
        backend.synchronize()
        for place, (draft, tokens) in enumerate(zip(drafts, pending, strict=True)):
            self._streams.computed(draft.stream, self.held(tokens))
            for row in backend.logits(place)[: draft.wanted.most]:
                draft.take(*best(row))
                if backend.ends_generation(draft.tokens[-1]):
                    break
        return drafts, count

    def probe(self, missing: int, *, is_new: bool) -> Probe:  # noqa: ARG002  alike for all
        num_outputs = max(1, min(PROBED_GUESSES, self._most, missing - 1))
        count = max(1, min(missing - num_outputs, self._backend.batch_capacity))
        return Probe(count, num_outputs, count)

    def held(self, tokens: Many[int]) -> list[int]:
        return list(tokens[:-1])


def _making(ready: Many[tuple[DraftableStream, DraftStream]]) -> list[Making]:
    return sorted((Making(one, stream) for one, stream in ready), key=lambda draft: draft.stream.slot)


def best(row: npt.NDArray[np.float32]) -> tuple[int, float]:
    """The likeliest token and its probability; 0 for a row that is not finite."""
    token = int(row.argmax())
    total = float(np.exp(row - row[token]).sum())
    return token, 1.0 / total if total >= 1.0 and math.isfinite(total) else 0.0
