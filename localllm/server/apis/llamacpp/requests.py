"""Bodies of llama-server's endpoints. `model` is optional while exactly one model is loaded."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from localllm.server.requests.messages import ChatMessage
from localllm.server.requests.rendering import Thinking
from localllm.server.requests.tools import Tool
from localllm.server.requests.values import ListField, ObjectField
from localllm.types import TokenId


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /tokenize`, with llama-server's names and defaults."""

    content: str | list[str | TokenId]
    """A text, or texts and tokens."""
    model: str | None = None
    add_special: bool = False
    """Add the model's BOS at the start, as in a prompt."""
    parse_special: bool = True
    """Whether text such as `<|im_start|>` becomes control tokens."""
    with_pieces: bool = False


class Piece(msgspec.Struct, frozen=True):
    """A token and its text, or its bytes if they are not valid UTF-8."""

    id: TokenId
    piece: str | list[int]


class Tokens(msgspec.Struct, frozen=True):
    tokens: list[TokenId | Piece]


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /detokenize`. Invalid UTF-8 becomes U+FFFD."""

    tokens: list[TokenId]
    model: str | None = None
    special: bool = True
    """Whether control tokens are included as text."""


class Content(msgspec.Struct, frozen=True):
    content: str


class ApplyTemplateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /apply-template`."""

    messages: list[ChatMessage]
    tools: list[Tool] | None = None
    """As in the chat API."""
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
    """One element of `GET /slots`; up to `n_prompt_tokens_cache` llama-server's fields, plus `model`.

    Prompts and answers are not included, since other clients may read this.
    """

    id: int
    model: str
    n_ctx: int
    speculative: bool
    is_processing: bool
    id_task: int
    """The request's number in the model's process; -1: none."""
    n_prompt_tokens: int
    n_prompt_tokens_processed: int
    n_prompt_tokens_cache: int
    kv_tokens: int
    """Tokens in its KV cache; a free slot keeps those of its last request."""
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    completion_tokens: int


class SlotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /slots/{id_slot}`. `filename`: name to save or restore; not for `erase`."""

    filename: str | None = None
    model: str | None = None
    """May also be given in the query."""


class SlotTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds."""

    save_ms: float | UnsetType = UNSET
    restore_ms: float | UnsetType = UNSET


class SlotDone(msgspec.Struct, frozen=True, kw_only=True):
    """The result: `n_saved`, `n_restored` and `n_erased` are tokens, `n_written` and `n_read` bytes.

    Only the fields of the requested action are present.
    """

    id_slot: int
    filename: str | UnsetType = UNSET
    n_saved: int | UnsetType = UNSET
    n_written: int | UnsetType = UNSET
    n_restored: int | UnsetType = UNSET
    n_read: int | UnsetType = UNSET
    n_erased: int | UnsetType = UNSET
    timings: SlotTimings | UnsetType = UNSET
