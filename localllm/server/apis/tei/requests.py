"""Request bodies of text-embeddings-inference. `model` is an extension, since there may be several here.

Raises `RequestError`s that name the field at fault.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from localllm.server.apis.embeddings.inputs import Inputs
from localllm.server.apis.embeddings.requests import Dimensions, WorkFields
from localllm.server.requests.field_rules import Fates, Nested, RefusedField, parse_known
from localllm.server.requests.parse import Fields, fields_of

FATES = Fates(
    {
        "prompt_name": RefusedField("GGUF files have no named prompts: prepend the prompt's text yourself"),
        "truncation_direction": RefusedField("texts are truncated at the end", ("right", "Right")),
    }
)


class InputsBody(WorkFields, frozen=True, kw_only=True):
    """`POST /embed_all`, which has no other fields."""

    fates: ClassVar[Fates] = FATES

    inputs: Annotated[Inputs, Meta(description="One text or several, or their tokens")]
    model: str | None = None


class EmbedBody(InputsBody, frozen=True, kw_only=True):
    """`POST /embed`."""

    normalize: bool | None = None
    """Scale to length 1 (default: true)."""
    dimensions: Dimensions | None = None


class Sentences(msgspec.Struct, frozen=True, kw_only=True):
    source_sentence: Annotated[str, Meta(min_length=1)]
    sentences: list[str]


class SimilarityParameters(msgspec.Struct, frozen=True, kw_only=True):
    fates: ClassVar[Fates] = FATES

    truncate: bool | None = None


class SimilarityBody(WorkFields, frozen=True, kw_only=True):
    """`POST /similarity`."""

    nested: ClassVar[Nested] = ("parameters",)

    inputs: Sentences
    parameters: SimilarityParameters | None = None
    model: str | None = None


def parse_similarity(body: bytes) -> tuple[SimilarityBody, list[str]]:
    """The request and its unknown fields. Raises `InvalidParameter`, `UnsupportedParameter`."""

    def seen(given: Fields) -> None:
        FATES.check(fields_of(given.get("parameters")), "parameters.")

    return parse_known(body, SimilarityBody, seen)[1:]
