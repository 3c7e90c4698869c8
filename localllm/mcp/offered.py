"""The tools that localllm offers over MCP, with the types of their arguments and results, which define the schemas.

Knows neither the protocol nor the implementation.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

ModelName = Annotated[str | None, Meta(description="The model, as named by list_models; default: the one in use")]


class AskChat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `chat`."""

    prompt: Annotated[str, Meta(min_length=1, description="The question or task")]
    system: Annotated[str | None, Meta(description="A system message")] = None
    schema: Annotated[
        dict[str, Any] | None, Meta(description="A JSON Schema that the answer, a JSON document, must match")
    ] = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    seed: int | None = None
    thinking: Annotated[bool | None, Meta(description="Whether to think first, if the model can")] = None
    model: ModelName = None


class ChatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `chat`."""

    text: str
    model: str
    finish_reason: Annotated[str, Meta(description="stop: complete; length or timeout: truncated")]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    document: Annotated[
        Any, Meta(description="The JSON document, if a schema was given and the answer is complete")
    ] = None
    thoughts: str = ""


class AskEmbed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `embed`."""

    texts: Annotated[list[str], Meta(min_length=1, max_length=2048)]
    dimensions: Annotated[int | None, Meta(description="Keep only the first N components of each vector")] = None
    truncate: Annotated[bool, Meta(description="Truncate texts that are too long instead of refusing them")] = False
    model: ModelName = None


class Vectors(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `embed`: one vector per text, in order."""

    vectors: list[list[float]]
    model: str
    tokens: int
    truncated: Annotated[list[int], Meta(description="Indices of truncated texts")] = []


class AskRerank(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `rerank`."""

    query: Annotated[str, Meta(min_length=1)]
    documents: Annotated[list[str], Meta(min_length=1, max_length=2048)]
    top_n: Annotated[int, Meta(ge=1)] | None = None
    truncate: Annotated[bool, Meta(description="Truncate texts that are too long instead of refusing them")] = False
    model: ModelName = None


class RankedDocument(msgspec.Struct, frozen=True):
    """`index`: position in `documents`."""

    index: int
    score: float
    document: str


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `rerank`, best first."""

    results: list[RankedDocument]
    model: str


class AskModels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `list_models`: none."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An available model."""

    name: str
    loaded: bool
    context_tokens: Annotated[int | None, Meta(description="Only for loaded models")] = None
    capabilities: Annotated[list[str], Meta(description="Such as tools and thinking; only for loaded models")] = []


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `list_models`."""

    models: list[ModelInfo]
    default: Annotated[str | None, Meta(description="The default model")] = None


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    gives: type[msgspec.Struct]


OFFERED = (
    OfferedTool(
        name="chat",
        title="Ask a local model",
        description="Ask a language model that runs on this machine. No data leaves the machine. "
        "The model sees the prompt and the system message only, not this conversation.",
        takes=AskChat,
        gives=ChatAnswer,
    ),
    OfferedTool(
        name="embed",
        title="Embed texts",
        description="Embed texts with a local model, for semantic search and clustering.",
        takes=AskEmbed,
        gives=Vectors,
    ),
    OfferedTool(
        name="rerank",
        title="Rank documents",
        description="Rank documents by relevance to a query, with a local reranking model.",
        takes=AskRerank,
        gives=Ranking,
    ),
    OfferedTool(
        name="list_models",
        title="List local models",
        description="List the models on this machine, and the capabilities of loaded ones.",
        takes=AskModels,
        gives=Models,
    ),
)


def json_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of an object, with `type` at its root as MCP requires, and references in `$defs`."""
    whole = msgspec.json.schema(kind)
    definitions = dict(whole["$defs"])
    root = definitions.pop(kind.__name__)
    root = {name: value for name, value in root.items() if name not in ("title", "description")}  # our own wording
    return {**root, **({"$defs": definitions} if definitions else {})}
