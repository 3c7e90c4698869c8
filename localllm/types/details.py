"""Details that a request may ask for with its answer. Plain frozen data, a part of `types`.

Knows nothing of engines or API fields.
"""

from __future__ import annotations

import msgspec

from localllm.types.ranges import check_range
from localllm.types.sampling import ResolvedSampling


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to report with the text. That the whole prompt is computed is always reported."""

    progress: bool = False
    """Also report progress after every step that computes part of the prompt."""
    making: bool = False
    """The prompt's text, and the effective sampling parameters."""
    tokens: bool = False
    """The ids of the answer's tokens."""
    draws: bool = False
    """Report log-probabilities after all filters, as used for the draw, instead of the model's own."""


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
    """The input of an answer."""

    prompt: str
    """Its text, with control tokens spelled out and U+FFFD for invalid UTF-8."""
    sampling: ResolvedSampling
    """Biases of -inf are those of end tokens under `ignore_eos`."""
    max_tokens: int | None
    """None: as many as fit."""


class TokenLogprob(msgspec.Struct, frozen=True, omit_defaults=True):
    """Log-probability of a token in nats, before any sampling parameter, and the most likely tokens at its position."""

    piece: bytes
    """Its bytes."""
    logprob: float
    """NaN for the first token of a prompt, which has no context, and for rows of media."""
    top: tuple[tuple[bytes, float], ...] = ()
    token: int = -1
    """Its id, -1 where unknown."""
    top_tokens: tuple[int, ...] = ()
    """The ids of `top`."""


class Lines(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules that end an answer by lines, for completions in an editor."""

    min_indent: int = 0
    """The answer ends before a later line that begins with fewer spaces and tabs."""
    max_s: float = 0.0
    """Time since the first token after which the next complete line is the last; 0: never."""

    def __post_init__(self) -> None:
        check_range("n_indent", self.min_indent, 0, 2**31 - 1)
        check_range("t_max_predict_ms", self.max_s, 0.0, 1e9)


class Shift(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a full slot drops, if the model was loaded with context shift."""

    keep: int | None = None
    """Number of leading tokens to keep; -1: the whole prompt; None: the system message, or a few."""
    discard: int = 0
    """Number of tokens to drop after those; 0: half of the rest."""

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
    """The last ones matter most: if not all fit, the first ones are dropped."""
