"""Request bodies of text-embeddings-inference. `model` is an extension, since there may be several here.

Raises `RequestError`s that name the field at fault.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from localllm.server.embeddings.inputs import Inputs
from localllm.server.embeddings.requests import Dimensions, WorkFields
from localllm.server.fields import Fates, Refused

FATES = Fates(
    {
        "prompt_name": Refused("GGUF has no prompts by name: put the text of one before yours"),
        "truncation_direction": Refused("texts are cut at their ends", ("right", "Right")),
    }
)


class InputsBody(WorkFields, frozen=True, kw_only=True):
    """`POST /embed_all`, which takes no other fields."""

    fates: ClassVar[Fates] = FATES

    inputs: Annotated[Inputs, Meta(description="A text, several, the tokens of one, or of several")]
    model: str | None = None


class EmbedBody(InputsBody, frozen=True, kw_only=True):
    """`POST /embed`."""

    normalize: bool | None = None
    """To length 1; true unless it is false."""
    dimensions: Dimensions | None = None


class Sentences(msgspec.Struct, frozen=True, kw_only=True):
    source_sentence: Annotated[str, Meta(min_length=1)]
    sentences: list[str]


class SimilarityParameters(msgspec.Struct, frozen=True, kw_only=True):
    fates: ClassVar[Fates] = FATES

    truncate: bool | None = None


class SimilarityBody(WorkFields, frozen=True, kw_only=True):
    """`POST /similarity`."""

    inputs: Sentences
    parameters: SimilarityParameters | None = None
    model: str | None = None
