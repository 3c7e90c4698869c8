"""Bodies of the endpoints named as llama-server's. `model` may be left out while one model is loaded."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from localllm.server.common.messages import ChatMessage
from localllm.server.common.rendering import ListField, ObjectField, Thinking
from localllm.server.common.tools import Tool
from localllm.types import TokenId


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

    id: TokenId
    piece: str | list[int]


class Tokens(msgspec.Struct, frozen=True):
    tokens: list[TokenId | Piece]


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /detokenize`. What is no UTF-8 becomes U+FFFD."""

    tokens: list[TokenId]
    model: str | None = None
    special: bool = True
    """Whether control tokens are spelled out."""


class Content(msgspec.Struct, frozen=True):
    content: str


class ApplyTemplateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /apply-template`."""

    messages: list[ChatMessage]
    tools: list[Tool] | None = None
    """As the chat API has them."""
    chat_template_kwargs: ObjectField | UnsetType = UNSET
    enable_thinking: bool | None = None
    thinking: Thinking | None = None
    reasoning_effort: str | None = None
    documents: ListField | UnsetType = UNSET
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    model: str | None = None


class Prompt(msgspec.Struct, frozen=True):
    prompt: str


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One element of `GET /slots`; up to `n_prompt_tokens_cache` as llama-server has them, but for `model`.

    What is asked and answered is in none: others than who asked may see this.
    """

    id: int
    model: str
    n_ctx: int
    speculative: bool = False
    is_processing: bool
    id_task: int
    """The request, as the model's process numbers them; -1: there is none."""
    n_prompt_tokens: int
    n_prompt_tokens_processed: int
    n_prompt_tokens_cache: int
    kv_tokens: int
    """What its KV cache holds; a free slot keeps what its last request left."""
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    completion_tokens: int


class SlotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /slots/{id_slot}`. `filename`: what to save as or to restore; not for `erase`."""

    filename: str | None = None
    model: str | None = None
    """May be in the query instead."""


class SlotTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds."""

    save_ms: float | UnsetType = UNSET
    restore_ms: float | UnsetType = UNSET


class SlotDone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it: `n_saved`, `n_restored` and `n_erased` are tokens, `n_written` and `n_read` bytes.

    There are those of the action that was asked for.
    """

    id_slot: int
    filename: str | UnsetType = UNSET
    n_saved: int | UnsetType = UNSET
    n_written: int | UnsetType = UNSET
    n_restored: int | UnsetType = UNSET
    n_read: int | UnsetType = UNSET
    n_erased: int | UnsetType = UNSET
    timings: SlotTimings | UnsetType = UNSET
