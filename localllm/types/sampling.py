"""Sampling parameters: a request's, their ranges, and the effective ones with every default filled in.

Plain frozen data, a part of `types`. Knows nothing of samplers.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import msgspec

from localllm.errors import InvalidParameter
from localllm.types.declared import MAX_COUNT, Setting, check_ranges, declared
from localllm.types.ranges import check_range, check_texts, check_token_ids

MAX_TOKEN_ID = 2**31 - 1
"""llama.cpp's tokens are 32-bit integers."""
TokenId = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKEN_ID)]
"""A token id; only the worker knows whether the model's vocabulary has it."""

MAX_STOP_CHARS = 256
"""Text as long as a stop string may be held back and searched at every token, which takes up to 0.2 ms; their number
costs nothing."""
MAX_BIAS = 100.0
MAX_LOGPROBS = 20
MAX_BREAKERS, MAX_BREAKER_CHARS = 128, 40
"""Each is searched at every token, which takes 0.5 us."""
RANDOM_SEED = -1
"""As in llama.cpp."""
NO_LIMIT = -1
"""Value of `max_tokens`, as in llama.cpp."""

sampling = partial(Setting, group="Sampling", who="clients")


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How to choose tokens. `None` means: the model's own `general.sampling.*` value, else our default.

    temperature 0 is greedy. top_k 0 or -1, top_p 1, typical_p 1, min_p 0, top_n_sigma 0, xtc_probability 0,
    dynatemp_range 0, mirostat 0, dry_multiplier 0, repeat_penalty 1 and the other penalties at 0 disable themselves.
    Presence and frequency penalties count generated tokens only; `repeat_penalty` and DRY look at the last
    `repeat_last_n` and `dry_penalty_last_n` tokens of prompt and answer (-1: all of them). With mirostat, filters that
    are None are off. Names, meanings and defaults are llama-server's. Raises `InvalidParameter`.
    """

    # fmt: off
    temperature: Annotated[float | None, sampling(
        "Randomness; 0: always the most likely token", "T", 0.0, 100.0
    )] = None
    top_k: Annotated[int | None, sampling("Sample from the N most likely tokens; 0: all", "N", -1, MAX_COUNT)] = None
    top_p: Annotated[float | None, sampling(
        "Sample from the most likely tokens that sum up to P; 1: all", "P", 0.0, 1.0
    )] = None
    min_p: Annotated[float | None, sampling(
        "Sample from tokens at least P times as likely as the best; 0: all", "P", 0.0, 1.0
    )] = None
    top_n_sigma: Annotated[float | None, sampling(
        "Sample from tokens within N standard deviations of the best logit; 0: all", "N", 0.0, 100.0
    )] = None
    typical_p: Annotated[float | None, sampling(
        "Sample from the most typical tokens that sum up to P; 1: all", "P", 0.0, 1.0
    )] = None
    xtc_probability: Annotated[float | None, sampling(
        "Chance of excluding the likeliest tokens (XTC); 0: never", "P", 0.0, 1.0
    )] = None
    xtc_threshold: Annotated[float | None, sampling(
        "Probability above which XTC excludes all tokens but one", "P", 0.0, 1.0
    )] = None
    dynatemp_range: Annotated[float | None, sampling(
        "Range of the dynamic temperature; 0: none", "T", 0.0, 100.0
    )] = None
    dynatemp_exponent: Annotated[float | None, sampling(
        "How entropy maps to the dynamic temperature", "X", 0.01, 100.0
    )] = None
    mirostat: Annotated[int | None, sampling("Mirostat version 1 or 2; 0: none", "N", 0, 2)] = None
    mirostat_tau: Annotated[float | None, sampling("Surprise that Mirostat aims at", "X", 0.0, 100.0)] = None
    mirostat_eta: Annotated[float | None, sampling("Learning rate of Mirostat", "X", 0.0, 10.0)] = None
    repeat_penalty: Annotated[float | None, sampling(
        "Penalty for tokens that occurred before; 1: none", "X", 0.01, 100.0
    )] = None
    repeat_last_n: Annotated[int | None, sampling(
        "Tokens that the repeat penalty looks at; -1: all", "N", -1, MAX_COUNT
    )] = None
    presence_penalty: Annotated[float | None, sampling(
        "Penalty for tokens that the answer contains; 0: none", "X", -2.0, 2.0
    )] = None
    frequency_penalty: Annotated[float | None, sampling("The same for each occurrence; 0: none", "X", -2.0, 2.0)] = None
    dry_multiplier: Annotated[float | None, sampling(
        "Penalty for continuing a repetition (DRY); 0: none", "X", 0.0, 100.0
    )] = None
    dry_base: Annotated[float | None, sampling("Growth of the DRY penalty per token", "X", 1.0, 100.0)] = None
    dry_allowed_length: Annotated[int | None, sampling(
        "Repetitions up to this length are not penalized", "N", 1, 1000
    )] = None
    dry_penalty_last_n: Annotated[int | None, sampling("Tokens that DRY looks at; -1: all", "N", -1, MAX_COUNT)] = None
    dry_sequence_breakers: Annotated[tuple[str, ...] | None, sampling(
        "No repetition extends across these", "TEXTS"
    )] = None
    logit_bias: dict[TokenId, float] | None = None
    """Token id -> value added to its logit."""
    seed: Annotated[int | None, sampling(
        "The same seed gives the same answer; -1: random", "N", -(2**63), 2**63 - 1,
        more="Even if the model sets a seed."
    )] = None
    logprobs: Annotated[int | None, sampling(
        "Report the log-probabilities of this many likely tokens", "N", 0, MAX_LOGPROBS
    )] = None
    """And of each token drawn; None: none."""
    prompt_logprobs: Annotated[int | None, sampling("The same for the prompt", "N", 0, MAX_LOGPROBS)] = None
    """The whole prompt is then computed, even if it is in the KV cache."""
    min_tokens: Annotated[int, sampling(
        "Shortest answer", "N", 0, MAX_COUNT, more="Before that, no end token is drawn and stop strings are ignored."
    )] = 0
    max_tokens: Annotated[int | None, sampling(
        "Stop after N tokens; -1: no limit", "N", -1, MAX_COUNT,
        more="Even if the model sets one; 0: compute the prompt and generate nothing."
    )] = None
    stop: Annotated[tuple[str, ...], sampling("End the answer at any of these", "TEXTS")] = ()
    stop_token_ids: Annotated[tuple[TokenId, ...], sampling("The same, as token ids", "IDS")] = ()
    ignore_eos: Annotated[bool, sampling("Continue after the model ends its answer")] = False
    # fmt: on

    def __post_init__(self) -> None:
        check_ranges(self)
        check_texts("dry_sequence_breakers", self.dry_sequence_breakers or (), MAX_BREAKERS, MAX_BREAKER_CHARS)
        if self.logit_bias:
            _check_biases(self.logit_bias)
        if self.max_tokens is not None and 0 <= self.max_tokens < self.min_tokens:
            raise InvalidParameter(
                f"min_tokens must not be above max_tokens ({self.max_tokens}), got {self.min_tokens}",
                param="min_tokens",
            )
        check_texts("stop", self.stop, None, MAX_STOP_CHARS)
        check_token_ids("stop_token_ids", self.stop_token_ids, MAX_TOKEN_ID)


def _check_biases(biases: dict[int, float]) -> None:
    check_token_ids("logit_bias", tuple(biases), MAX_TOKEN_ID)
    values = biases.values()
    are_numbers = set(map(type, values)) <= {float, int} and math.isfinite(sum(values))
    if are_numbers and -MAX_BIAS <= min(values) <= max(values) <= MAX_BIAS:
        return  # the usual case, at the speed of C: there may be one for every token of a vocabulary
    for token, bias in biases.items():
        check_range(f"logit_bias.{token}", bias, -MAX_BIAS, MAX_BIAS)


SAMPLING_RANGES: dict[str, tuple[float, float]] = {
    name: (field.setting.low, field.setting.high)
    for name, field in declared(SamplingParams).items()
    if field.setting.low is not None and field.setting.high is not None
}
"""Field of `SamplingParams` -> its smallest and largest value."""


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
