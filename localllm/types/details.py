"""Details that a request may want about its answer, and how they are reported. Plain frozen data, a part of `types`.

Knows nothing of engines or of how an API spells it.
"""

from __future__ import annotations

import msgspec

from localllm.errors import InvalidParameter
from localllm.types.ranges import check_range
from localllm.types.sampling import ResolvedSampling

MAX_EXTRAS = 1000
"""Other files in one request to fill in the middle."""


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is reported beside the text. In any case, that the whole prompt is computed."""

    progress: bool = False
    """Also after every step that computes part of the prompt."""
    making: bool = False
    """The prompt's text, and the effective sampling parameters."""
    tokens: bool = False
    """The ids of the answer's tokens."""
    draws: bool = False
    """Log-probabilities are those at the draw, after all filters, in place of the model's own."""


class PromptProgress(msgspec.Struct, frozen=True):
    """Progress of a prompt, in tokens."""

    total: int
    cached: int
    """Tokens that were already in the KV cache."""
    computed: int
    """Tokens from the beginning, including cached ones."""
    seconds: float
    """Since it got its slot."""
    slot: int


class Making(msgspec.Struct, frozen=True):
    """What an answer is made from."""

    prompt: str
    """Its text, with control tokens spelled out and U+FFFD for invalid UTF-8."""
    sampling: ResolvedSampling
    """Biases of -inf belong to end tokens that `ignore_eos` forbids."""
    max_tokens: int | None
    """None: as many as fit."""


class TokenLogprob(msgspec.Struct, frozen=True, omit_defaults=True):
    """Log-probability of a token in nats, before any sampling parameter, and the likeliest tokens at its place."""

    piece: bytes
    """Its bytes."""
    logprob: float
    """NaN for the first token of a prompt, which nothing precedes."""
    top: tuple[tuple[bytes, float], ...] = ()
    token: int = -1
    """Its id, -1 where unknown."""
    top_tokens: tuple[int, ...] = ()
    """The ids of `top`."""


class Lines(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules that end an answer by its lines. Meant for completions in an editor."""

    min_indent: int = 0
    """The answer ends before a later line that begins with fewer spaces and tabs."""
    max_s: float = 0.0
    """Time since the first token after which the next complete line is the last; 0: never."""

    def __post_init__(self) -> None:
        check_range("n_indent", self.min_indent, 0, 2**31 - 1)
        check_range("t_max_predict_ms", self.max_s, 0.0, 1e9)


class Shift(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a full slot drops, where the model was loaded with context shift."""

    keep: int | None = None
    """Tokens at the beginning that stay; -1: the whole prompt; None: the system message, or a few."""
    discard: int = 0
    """Tokens to drop after those; 0: half of them."""

    def __post_init__(self) -> None:
        check_range("n_keep", self.keep, -1, 2**31 - 1)
        check_range("n_discard", self.discard, 0, 2**31 - 1)


class Extra(msgspec.Struct, frozen=True):
    """A piece of another file."""

    text: str
    filename: str


class Infill(msgspec.Struct, frozen=True, kw_only=True):
    """A gap to fill: the answer belongs between `prefix` followed by `prompt`, and `suffix`."""

    prefix: str
    suffix: str
    prompt: str = ""
    extras: tuple[Extra, ...] = ()
    """The last ones matter most: where not all fit, the first ones are dropped."""

    def __post_init__(self) -> None:
        if len(self.extras) > MAX_EXTRAS:
            raise InvalidParameter(
                f"input_extra takes at most {MAX_EXTRAS} files, got {len(self.extras)}", param="input_extra"
            )
