"""Sampling parameters: a request's, their ranges, and the effective ones with every default filled in.

Plain frozen data, a part of `types`. Knows nothing of samplers.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from localllm.errors import InvalidParameter
from localllm.types.ranges import check_range, check_texts, check_token_ids

MAX_TOKEN_ID = 2**31 - 1
"""llama.cpp's tokens are 32-bit integers."""
TokenId = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKEN_ID)]
"""A token id; only the worker knows whether the model's vocabulary has it."""

MAX_STOP_STRINGS, MAX_STOP_CHARS, MAX_STOP_TOKENS = 16, 256, 256
MAX_BIASED_TOKENS = 1024
MAX_LOGPROBS = 20
MAX_BREAKERS, MAX_BREAKER_CHARS = 16, 40
RANDOM_SEED = -1
"""As in llama.cpp."""
NO_LIMIT = -1
"""Value of `max_tokens`, as in llama.cpp."""

SAMPLING_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "typical_p": (0.0, 1.0),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "dynatemp_range": (0.0, 100.0),
    "dynatemp_exponent": (0.01, 100.0),
    "mirostat": (0, 2),
    "mirostat_tau": (0.0, 100.0),
    "mirostat_eta": (0.0, 10.0),
    "dry_multiplier": (0.0, 100.0),
    "dry_base": (1.0, 100.0),
    "dry_allowed_length": (1, 1000),
    "dry_penalty_last_n": (-1, 2**31 - 1),
    "top_k": (-1, 2**31 - 1),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "top_n_sigma": (0.0, 100.0),
    "repeat_penalty": (0.01, 100.0),
    "repeat_last_n": (-1, 2**31 - 1),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "logprobs": (0, MAX_LOGPROBS),
    "prompt_logprobs": (0, MAX_LOGPROBS),
    "seed": (-(2**63), 2**63 - 1),
    "max_tokens": (-1, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1),
}
"""Field of `SamplingParams` -> its smallest and largest value."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How to choose tokens. `None` means: the model's own `general.sampling.*` value, else our default.

    temperature 0 is greedy. top_k 0 or -1, top_p 1, typical_p 1, min_p 0, top_n_sigma 0, xtc_probability 0,
    dynatemp_range 0, mirostat 0, dry_multiplier 0, repeat_penalty 1 and the other penalties at 0 disable themselves.
    Presence and frequency penalties count generated tokens only; `repeat_penalty` and DRY look at the last
    `repeat_last_n` and `dry_penalty_last_n` tokens of prompt and answer (-1: all of them). With mirostat, filters that
    are None are off. Names, meanings and defaults are llama-server's. Raises `InvalidParameter`.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    top_n_sigma: float | None = None
    typical_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: tuple[str, ...] | None = None
    logit_bias: dict[TokenId, float] | None = None
    """Token id -> value added to its logit."""
    seed: int | None = None
    """-1: random, even if the model sets a seed."""
    logprobs: int | None = None
    """Report log-probabilities of each token and of this many of the most likely ones; None: none."""
    prompt_logprobs: int | None = None
    """The same for tokens of the prompt. The whole prompt is then computed, even if it is in the KV cache."""
    min_tokens: int = 0
    """Minimum length: before that, no end token is drawn and stop strings are ignored."""
    max_tokens: int | None = None
    """-1: no limit, even if the model sets one; 0: compute the prompt and generate nothing."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[TokenId, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        for name, (low, high) in SAMPLING_RANGES.items():
            check_range(name, getattr(self, name), low, high)
        check_texts("dry_sequence_breakers", self.dry_sequence_breakers or (), MAX_BREAKERS, MAX_BREAKER_CHARS)
        check_token_ids("logit_bias", tuple(self.logit_bias or ()), MAX_TOKEN_ID, most=MAX_BIASED_TOKENS)
        for token, bias in (self.logit_bias or {}).items():
            check_range(f"logit_bias.{token}", bias, -100.0, 100.0)
        if self.max_tokens is not None and 0 <= self.max_tokens < self.min_tokens:
            raise InvalidParameter(
                f"min_tokens must not be above max_tokens ({self.max_tokens}), got {self.min_tokens}",
                param="min_tokens",
            )
        check_texts("stop", self.stop, MAX_STOP_STRINGS, MAX_STOP_CHARS)
        check_token_ids("stop_token_ids", self.stop_token_ids, MAX_TOKEN_ID, most=MAX_STOP_TOKENS)


class DrySampling(msgspec.Struct, frozen=True, kw_only=True):
    """The penalty for continuing a repetition; see `engine.sampling.dry`."""

    multiplier: float
    base: float = 1.75
    allowed_length: int = 2
    """Repetitions up to this length are not penalized."""
    penalty_last_n: int = -1
    sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    """No repetition extends across these."""


class ResolvedSampling(msgspec.Struct, frozen=True, kw_only=True):
    """`SamplingParams` with every default filled in; a sampler is built from it."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    top_n_sigma: float = 0.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry: DrySampling | None = None
    logit_bias: dict[int, float] = {}
    seed: int = 0
