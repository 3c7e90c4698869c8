"""Request and response bodies of the native endpoints. `model` may be left out while one model is loaded."""

from __future__ import annotations

import msgspec

from localllm.server.openai.requests import ChatMessage


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /tokenize`; the names and defaults are llama-server's."""

    content: str
    model: str | None = None
    add_special: bool = False
    """Put the model's BOS first, as a prompt would have it."""
    parse_special: bool = True
    """Whether `<|im_start|>` and the like become control tokens."""
    with_pieces: bool = False


class Piece(msgspec.Struct, frozen=True):
    """A token and its text; its bytes where they are no text by themselves."""

    id: int
    piece: str | list[int]


class Tokens(msgspec.Struct, frozen=True):
    tokens: list[int | Piece]


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /detokenize`. What is no UTF-8 becomes U+FFFD."""

    tokens: list[int]
    model: str | None = None
    special: bool = True
    """Whether control tokens are spelled out."""


class Content(msgspec.Struct, frozen=True):
    content: str


class ApplyTemplateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /apply-template`."""

    messages: list[ChatMessage]
    model: str | None = None


class Prompt(msgspec.Struct, frozen=True):
    prompt: str


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One element of `GET /slots`; the first four are named as llama-server's."""

    id: int
    model: str
    n_ctx: int
    is_processing: bool
    kv_tokens: int
    """What its KV cache holds; a free slot keeps what its last request left."""
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    completion_tokens: int
