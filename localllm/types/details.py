"""What a request may want to know of how its answer is made, and what it is told. Plain frozen data, a part of `types`.

Knows nothing of engines or of how an API spells it.
"""

from __future__ import annotations

import msgspec

from localllm.errors import InvalidParameter
from localllm.types.ranges import check_range
from localllm.types.sampling import ResolvedSampling

MAX_EXTRAS = 1000
"""Other files of one request to fill in the middle."""


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told beside the text. In any case how far the prompt is, once all of it is computed."""

    progress: bool = False
    """Also after every step that computes some of the prompt."""
    making: bool = False
    """The prompt's text, and by what the tokens are drawn."""
    tokens: bool = False
    """The ids of the answer's tokens."""
    draws: bool = False
    """Log-probabilities are those that tokens are drawn with, behind all filters, instead of the model's own."""


class PromptProgress(msgspec.Struct, frozen=True):
    """How far a prompt is, in tokens."""

    total: int
    cached: int
    """That were in the KV cache already."""
    computed: int
    """From the beginning, the cached ones included."""
    seconds: float
    """Since it has a slot."""
    slot: int


class Making(msgspec.Struct, frozen=True):
    """What an answer is made from."""

    prompt: str
    """Its text, control tokens spelled out; what is no UTF-8 is U+FFFD."""
    sampling: ResolvedSampling
    """Biases of -inf are the end tokens', where `ignore_eos` forbids them."""
    max_tokens: int | None
    """None: as many as fit."""


class TokenLogprob(msgspec.Struct, frozen=True, omit_defaults=True):
    """How likely the model thought a token, in nats, before any sampling parameter; and its likeliest tokens."""

    piece: bytes
    """What the token stands for."""
    logprob: float
    """NaN for the first token of a prompt: nothing comes before it."""
    top: tuple[tuple[bytes, float], ...] = ()
    token: int = -1
    """Its id, -1 where it is not known."""
    top_tokens: tuple[int, ...] = ()
    """The ids of `top`."""


class Lines(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When an answer ends for what its lines are. Meant for completions in an editor."""

    min_indent: int = 0
    """A line behind the first with fewer spaces and tabs at its beginning is none of the answer, which ends there."""
    max_s: float = 0.0
    """Since the first token: the first line that is whole after so long is the last; 0: never."""

    def __post_init__(self) -> None:
        check_range("n_indent", self.min_indent, 0, 2**31 - 1)
        check_range("t_max_predict_ms", self.max_s, 0.0, 1e9)


class Shift(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a full slot forgets, where the model was loaded so that it may."""

    keep: int | None = None
    """Tokens at the beginning that stay; -1: the whole prompt; None: the system message, or a few."""
    discard: int = 0
    """Tokens behind those that go; 0: half of them."""

    def __post_init__(self) -> None:
        check_range("n_keep", self.keep, -1, 2**31 - 1)
        check_range("n_discard", self.discard, 0, 2**31 - 1)


class Extra(msgspec.Struct, frozen=True):
    """A piece of another file."""

    text: str
    filename: str


class Infill(msgspec.Struct, frozen=True, kw_only=True):
    """What to fill in the middle of: the answer stands between `prefix` with `prompt` behind it, and `suffix`."""

    prefix: str
    suffix: str
    prompt: str = ""
    extras: tuple[Extra, ...] = ()
    """The last ones matter most: where not all fit, the first ones go."""

    def __post_init__(self) -> None:
        if len(self.extras) > MAX_EXTRAS:
            raise InvalidParameter(
                f"input_extra takes at most {MAX_EXTRAS} files, got {len(self.extras)}", param="input_extra"
            )
