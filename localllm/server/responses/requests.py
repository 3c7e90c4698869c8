"""`POST /v1/responses`: JSON bytes to a typed request and on to the runtime's own types.

Knows nothing of the store: what came before is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.ranges import check_range
from localllm.server.openai.fields import (
    NO_EFFECT_RESPONSES,
    REFUSED_RESPONSES,
    REFUSED_TEXT,
    refuse_unsupported,
    unknown_fields,
)
from localllm.server.openai.requests import StreamOptions
from localllm.server.openai.sampling import SamplingFields
from localllm.server.openai.structures import ResponseFormat, unknown_in_format
from localllm.server.parse import Fields, fields_of, parse, small
from localllm.server.responses.items import InputItem, Item, input_items, unknown_in_items
from localllm.types import MAX_LOGPROBS, NO_LIMIT, GenerationRequest, Message

MOVED = {
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "messages": "input",
    "n_predict": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
}
"""Fields of the chat API -> their names here. They would change the answer, so they must not get lost on the way."""

MAX_OUTPUT_TOKENS = 2**31 - 1
MAX_METADATA = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
"""OpenAI's limits."""

WITH_LOGPROBS = "message.output_text.logprobs"

Includable = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]
"""All but the log-probabilities are about items that no answer of ours has: asking for them is fine."""


class TextConfig(msgspec.Struct, frozen=True):
    """How the answer's text is shaped."""

    format: ResponseFormat | None = None
    verbosity: str | None = None


class ResponseRequest(SamplingFields, frozen=True, kw_only=True):
    """`POST /v1/responses`."""

    model: str
    input: str | list[InputItem] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: int | None = None
    include: list[Includable] | None = None
    top_logprobs: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    text: TextConfig | None = None

    def limit(self) -> int | None:
        check_range("max_output_tokens", self.max_output_tokens, NO_LIMIT, MAX_OUTPUT_TOKENS)
        return self.max_output_tokens

    def num_logprobs(self) -> int | None:
        wanted = WITH_LOGPROBS in (self.include or ())
        if self.top_logprobs and not wanted:
            raise InvalidParameter(f'top_logprobs needs include: ["{WITH_LOGPROBS}"] beside it', param="top_logprobs")
        check_range("top_logprobs", self.top_logprobs, 0, MAX_LOGPROBS)
        return (self.top_logprobs or 0) if wanted else None

    def items(self) -> list[Item]:
        """What is new in the conversation. Raises `InvalidParameter`, `UnsupportedParameter`."""
        return input_items(self.input)

    def generation(self, conversation: Sequence[Item]) -> GenerationRequest:
        """How to answer it. Raises `InvalidParameter`.

        The instructions are this request's only: those of earlier ones are in no conversation.
        """
        if not conversation:
            raise InvalidParameter("input is missing", param="input")
        first = [] if self.instructions is None else [Message("system", self.instructions)]
        messages = (*first, *(item.to_message() for item in conversation))
        shape = self.text.format if self.text else None
        structure = shape.structure("text.format") if shape else None
        return self.generation_of(self.params(), structure=structure, messages=messages)


def parse_response(body: bytes) -> tuple[ResponseRequest, list[str]]:
    """The request and its ignored fields. Raises `InvalidParameter`, `UnsupportedParameter`."""
    given, request = parse(body, ResponseRequest, _refuse)
    _check_metadata(request.metadata or {})
    ignored = unknown_fields(
        given, ResponseRequest.__struct_fields__, {*REFUSED_RESPONSES, *MOVED}, NO_EFFECT_RESPONSES
    )
    shape = fields_of(fields_of(given.get("text")).get("format"))
    return request, [*ignored, *unknown_in_format(shape, "text.format"), *unknown_in_items(given.get("input"))]


def _refuse(given: Fields) -> None:
    refuse_unsupported(given, REFUSED_RESPONSES)
    for name, here in MOVED.items():
        if name in given and small(given[name]) is not None:
            raise UnsupportedParameter(f"{name} is not a field of the Responses API; it is {here} here", param=name)
    text = fields_of(given.get("text"))
    refuse_unsupported({f"text.{name}": value for name, value in text.items()}, REFUSED_TEXT)


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidParameter(f"metadata takes at most {MAX_METADATA} pairs, got {len(metadata)}", param="metadata")
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY_CHARS or len(value) > MAX_METADATA_VALUE_CHARS:
            raise InvalidParameter(
                f"metadata takes keys of at most {MAX_METADATA_KEY_CHARS} characters and values of at most "
                f"{MAX_METADATA_VALUE_CHARS}; {key[:MAX_METADATA_KEY_CHARS]!r} is over that",
                param="metadata",
            )
