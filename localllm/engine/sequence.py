"""One request as the engine sees it: token ids, counters that catch up, and the text they make.

    tokens          [0 ................ num_tokens)
    in the KV cache [0 .. num_computed)
    still to compute          [num_computed .. num_tokens)
    the prompt      [0 .. num_prompt), what was generated [num_prompt .. num_tokens)

No phases: prefill and decode are both "compute what is pending". Knows nothing of scheduling or of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens

from localllm.engine.text import TextStream
from localllm.types import FinishReason, ResolvedSampling, Timings, Usage


class Sequence:
    """Mutable; owned by the engine thread."""

    def __init__(
        self,
        id: int,
        prompt: Tokens[int],
        *,
        sampling: ResolvedSampling,
        max_tokens: int | None = None,
        stop: Tokens[str] = (),
        ignore_eos: bool = False,
        created_s: float = 0.0,
    ) -> None:
        self.id = id
        self.tokens = list(prompt)
        self.num_prompt = len(self.tokens)
        self.num_computed = 0
        self.sampling = sampling
        self.max_tokens = max_tokens
        self.ignore_eos = ignore_eos
        self.text = TextStream(stop)
        self.slot: int | None = None
        self.created_s = created_s
        self.admitted_s: float | None = None
        self.first_token_s: float | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.num_computed

    def usage(self) -> Usage:
        return Usage(prompt_tokens=self.num_prompt, completion_tokens=self.num_generated)

    def timings(self, now_s: float) -> Timings:
        admitted = now_s if self.admitted_s is None else self.admitted_s
        first = now_s if self.first_token_s is None else self.first_token_s
        return Timings(queue_s=admitted - self.created_s, prefill_s=first - admitted, decode_s=now_s - first)

    def limit_reached(self, slot_capacity: int) -> FinishReason | None:
        """`length` when the request's own limit or the slot's end leaves no room for another token."""
        if self.max_tokens is not None and self.num_generated >= self.max_tokens:
            return "length"
        return "length" if self.num_tokens >= slot_capacity else None
