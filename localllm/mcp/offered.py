"""The tools that localllm offers over MCP: what each takes and gives, as types that are its JSON Schemas too.

Knows neither the protocol nor how a tool does it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

ModelName = Annotated[str | None, Meta(description="Which model, as list_models names it; left out: the one in use")]


class AskChat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `chat`."""

    prompt: Annotated[str, Meta(min_length=1, description="What to ask")]
    system: Annotated[str | None, Meta(description="A system message")] = None
    schema: Annotated[
        dict[str, Any] | None, Meta(description="A JSON Schema: the answer is a JSON document that it allows")
    ] = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    seed: int | None = None
    thinking: Annotated[bool | None, Meta(description="Whether to think first, where the model can")] = None
    model: ModelName = None


class ChatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `chat` gives."""

    text: str
    model: str
    finish_reason: Annotated[str, Meta(description="stop: it is whole; length or timeout: it was cut")]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    document: Annotated[Any, Meta(description="The JSON document, where a schema was given and it is whole")] = None
    thoughts: str = ""


class AskEmbed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `embed`."""

    texts: Annotated[list[str], Meta(min_length=1, max_length=2048)]
    dimensions: Annotated[int | None, Meta(description="Only the first so many of each vector")] = None
    truncate: Annotated[bool, Meta(description="Cut texts that are too long, rather than refuse them")] = False
    model: ModelName = None


class Vectors(msgspec.Struct, frozen=True, kw_only=True):
    """What `embed` gives: a vector a text, in their order."""

    vectors: list[list[float]]
    model: str
    tokens: int
    truncated: Annotated[list[int], Meta(description="The numbers of texts that were cut")] = []


class AskRerank(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `rerank`."""

    query: Annotated[str, Meta(min_length=1)]
    documents: Annotated[list[str], Meta(min_length=1, max_length=2048)]
    top_n: Annotated[int, Meta(ge=1)] | None = None
    truncate: Annotated[bool, Meta(description="Cut texts that are too long, rather than refuse them")] = False
    model: ModelName = None


class RankedDocument(msgspec.Struct, frozen=True):
    """`index`: its number in `documents`."""

    index: int
    score: float
    document: str


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """What `rerank` gives, the best first."""

    results: list[RankedDocument]
    model: str


class AskModels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `list_models`: none."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be asked."""

    name: str
    loaded: bool
    context_tokens: Annotated[int | None, Meta(description="Of a loaded model")] = None
    capabilities: Annotated[list[str], Meta(description="Of a loaded model, such as tools and thinking")] = []


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """What `list_models` gives."""

    models: list[ModelInfo]
    default: Annotated[str | None, Meta(description="The model that is used where none is named")] = None


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """One tool."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    gives: type[msgspec.Struct]


OFFERED = (
    Offered(
        name="chat",
        title="Ask a local model",
        description="Ask a language model that runs on this machine. Nothing leaves the machine. "
        "The model sees the prompt and the system message only, not this conversation.",
        takes=AskChat,
        gives=ChatAnswer,
    ),
    Offered(
        name="embed",
        title="Embed texts",
        description="Turn texts into vectors with a local model, for semantic search and clustering.",
        takes=AskEmbed,
        gives=Vectors,
    ),
    Offered(
        name="rerank",
        title="Rank documents",
        description="Rank documents by how well they answer a query, with a local reranking model.",
        takes=AskRerank,
        gives=Ranking,
    ),
    Offered(
        name="list_models",
        title="List local models",
        description="List the models of this machine, and what those that are loaded can do.",
        takes=AskModels,
        gives=Models,
    ),
)


def json_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Of an object, with `type` at its root as MCP wants it, and what it refers to in `$defs`."""
    whole = msgspec.json.schema(kind)
    definitions = dict(whole["$defs"])
    root = definitions.pop(kind.__name__)
    root = {name: value for name, value in root.items() if name not in ("title", "description")}  # our own words
    return {**root, **({"$defs": definitions} if definitions else {})}
