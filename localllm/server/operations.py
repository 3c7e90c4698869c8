"""Every operation that is served: method and path, what it takes, what it answers, for `openapi` and `api_table`."""

from __future__ import annotations

from typing import Any, NamedTuple

from localllm import wire as manage
from localllm.server.anthropic import models as message_models
from localllm.server.anthropic import replies as message_replies
from localllm.server.anthropic import requests as messages
from localllm.server.anthropic.events import Event as MessageEvent
from localllm.server.counting import TokenCount
from localllm.server.embeddings import replies as vectors
from localllm.server.embeddings.requests import EmbeddingsBody, NativeBody, RerankBody
from localllm.server.llamacpp import completion_replies, completion_requests, tools
from localllm.server.llamacpp import requests as llamacpp
from localllm.server.llamacpp.errors import ErrorBody as LlamaError
from localllm.server.lmstudio import models as lmstudio
from localllm.server.ollama import models as ollama_models
from localllm.server.ollama import replies as ollama_replies
from localllm.server.ollama import requests as ollama
from localllm.server.ollama.errors import ErrorBody as OllamaError
from localllm.server.ollama.replies import ProgressLine
from localllm.server.openai import models, replies, requests
from localllm.server.responses import replies as response_replies
from localllm.server.responses import requests as responses
from localllm.server.responses.events import AnyEvent
from localllm.server.tei import replies as tei_replies
from localllm.server.tei import requests as tei
from localllm.server.tei.errors import ErrorReply as TeiError
from localllm.wire import ErrorBody, Ready


class Query(NamedTuple):
    """A parameter of the query string."""

    name: str
    schema: dict[str, Any]
    required: bool = False


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    summary: str
    request: Any = None
    response: Any = None
    """None: text, or events alone where there is a `chunk`; several: one of them, as the request's headers say."""
    chunk: Any = None
    """What the events of a stream hold, where `stream: true` asks for one."""
    needs_key: bool = True
    query: tuple[Query, ...] = ()
    needs_body: bool = True
    """Where there is a `request`."""
    error: Any = ErrorBody
    """Several: one of them, as the request's fields say."""
    is_empty: bool = False
    """The answer has no body."""


def _ollamas(method: str, path: str, summary: str, *types: Any, is_empty: bool = False) -> Operation:
    """Of Ollama's API: its streams are lines, unless `stream` is false. `types`: request, response, a line."""
    request, response, chunk = (*types, None, None, None)[:3]
    return Operation(method, f"/api/{path}", summary, request, response, chunk, error=OllamaError, is_empty=is_empty)


def _teis(method: str, path: str, summary: str, *types: Any, query: tuple[Query, ...] = ()) -> Operation:
    """Of TEI's API. `types`: request, response."""
    request, response = (*types, None, None)[:2]
    return Operation(method, f"/{path}", summary, request, response, error=TeiError, query=query)


_MODEL_QUERY = Query("model", {"type": "string"})
_SLOT_QUERY = (
    Query("action", {"type": "string", "enum": ["save", "restore", "erase"]}, required=True),
    Query("model", {"type": "string"}),
)

_CATALOG_QUERY = (Query("query", {"type": "string"}),)
_MODEL = (Query("model", {"type": "string"}),)
_PAGE_QUERY = tuple(
    Query(name, {"type": kind}) for name, kind in (("limit", "string"), ("after_id", "string"), ("before_id", "string"))
)
"""Anthropic's; OpenAI's list has no pages."""

OPERATIONS = (
    Operation("get", "/health", "Alive: the process answers HTTP", response=dict[str, str], needs_key=False),
    Operation("get", "/ready", "Ready: a model can answer now", response=Ready, needs_key=False),
    Operation("get", "/metrics", "Metrics in Prometheus' text format"),
    Operation("get", "/v1/health", "As /health", response=dict[str, str], needs_key=False),
    Operation("get", "/props", "How a model answers by default", response=dict[str, Any], query=_MODEL),
    Operation("post", "/props", "Not served: 501", error=LlamaError),
    Operation("get", "/lora-adapters", "The adapters that are loaded: none", response=list[dict[str, Any]]),
    Operation("post", "/lora-adapters", "Set their scales: of none", response=dict[str, bool], error=LlamaError),
    *(Operation(method, "/cors-proxy", "Not served: 403", error=LlamaError) for method in ("get", "post")),
    Operation("get", "/tools", "The tools of MCP servers", response=list[tools.ListedTool], error=LlamaError),
    Operation("post", "/tools", "Call one of them", tools.ToolRequest, tools.ToolReply, error=LlamaError),
    Operation("post", "/models/load", "Begin to load a model", manage.ModelRequest, dict[str, bool], error=LlamaError),
    Operation("post", "/models/unload", "Unload a model", manage.ModelRequest, dict[str, bool], error=LlamaError),
    Operation("delete", "/models", "Forget a model", response=dict[str, bool], query=_MODEL),
    Operation("get", "/slots", "What every slot of every model does", response=list[llamacpp.Slot], error=LlamaError),
    Operation(
        "post",
        "/slots/{id_slot}",
        "Save what a slot holds to a file, restore it from one, or erase it",
        llamacpp.SlotRequest,
        llamacpp.SlotDone,
        query=_SLOT_QUERY,
        needs_body=False,
        error=LlamaError,
    ),
    *(
        Operation(
            "post",
            path,
            summary,
            request,
            (
                completion_replies.WholeReply,
                list[completion_replies.WholeReply],
                list[dict[str, Any]],
                dict[str, Any],
            ),
            completion_replies.PartialReply,  # the last event is as the whole reply
            error=LlamaError,
        )
        for path, summary, request in (
            ("/completion", "Continue a text, as llama-server does", completion_requests.CompletionRequest),
            ("/completions", "The same", completion_requests.CompletionRequest),
            ("/infill", "Fill in what is missing in the middle", completion_requests.InfillRequest),
        )
    ),
    Operation("get", "/openapi.json", "This document", response=dict[str, Any]),
    Operation(
        "get",
        "/v1/models",
        "The models that can be asked; in Anthropic's words for clients that send anthropic-version",
        response=(models.ModelList, message_models.ModelPage),
        query=_PAGE_QUERY,
    ),
    Operation(
        "get",
        "/v1/models/{model_id}",
        "One of them",
        response=(models.ModelEntry, message_models.ModelInfo),
    ),
    Operation("get", "/api/v0/models", "The models, in LM Studio's words", response=lmstudio.ModelList),
    Operation("get", "/api/v0/models/{model_id}", "One of them", response=lmstudio.Model),
    Operation("get", "/api/v1/models", "The same, in those of its second API", response=lmstudio.KeyList),
    Operation("get", "/models", "As /v1/models", response=models.ModelList),
    Operation(
        "post",
        "/v1/chat/completions",
        "Answer a conversation",
        requests.ChatRequest,
        replies.Reply[replies.ChatChoice],
        replies.Reply[replies.ChatChunkChoice],
    ),
    Operation(
        "post",
        "/chat/completions",
        "As /v1/chat/completions",
        requests.ChatRequest,
        replies.Reply[replies.ChatChoice],
        replies.Reply[replies.ChatChunkChoice],
        error=LlamaError,
    ),
    *(
        Operation(
            "post",
            f"{prefix}/chat/completions/input_tokens",
            "How many tokens its prompt has",
            requests.ChatRequest,
            TokenCount,
        )
        for prefix in ("", "/v1")
    ),
    Operation(
        "post",
        "/responses",
        "As /v1/responses",
        responses.ResponseRequest,
        response_replies.ResponseObject,
        AnyEvent,
    ),
    *(
        Operation(
            "post",
            f"{prefix}/responses/input_tokens",
            "How many tokens its prompt has",
            responses.ResponseRequest,
            TokenCount,
        )
        for prefix in ("", "/v1")
    ),
    Operation(
        "post",
        "/v1/completions",
        "Continue a text, or fill in its middle",
        requests.CompletionRequest,
        replies.Reply[replies.TextChoice],
        replies.Reply[replies.TextChoice],
    ),
    Operation(
        "post",
        "/v1/responses",
        "Answer, and remember the conversation",
        responses.ResponseRequest,
        response_replies.ResponseObject,
        AnyEvent,
    ),
    Operation(
        "post",
        "/v1/messages",
        "Answer a conversation, as Anthropic's API does",
        messages.MessagesRequest,
        message_replies.MessageObject,
        MessageEvent,
        error=message_replies.ErrorReply,
    ),
    Operation(
        "post",
        "/v1/messages/count_tokens",
        "How many tokens its prompt has",
        messages.CountRequest,
        message_replies.TokenCount,
        error=message_replies.ErrorReply,
    ),
    Operation("get", "/v1/responses/{response_id}", "A kept response", response=response_replies.ResponseObject),
    Operation("delete", "/v1/responses/{response_id}", "Forget a response", response=response_replies.Deleted),
    Operation("get", "/v1/responses/{response_id}/input_items", "What it answered", response=response_replies.ItemList),
    Operation("post", "/v1/embeddings", "Texts to vectors", EmbeddingsBody, vectors.EmbeddingList),
    Operation(
        "post",
        "/embeddings",
        "The same, as llama-server has it",
        NativeBody,
        list[vectors.NativeEmbedding],
        error=LlamaError,
    ),
    Operation("post", "/embedding", "As /embeddings", NativeBody, list[vectors.NativeEmbedding], error=LlamaError),
    _teis("post", "embed", "Texts to vectors", tei.EmbedBody, list[list[float]]),
    _teis("post", "embed_all", "Texts to a vector for each token", tei.InputsBody, list[list[list[float]]]),
    _teis("post", "similarity", "How near sentences are to one", tei.SimilarityBody, list[float]),
    _teis("post", "embed_sparse", "Not served: 424"),
    _teis("post", "predict", "Not served: 424"),
    _teis("get", "info", "What is served, and its limits", None, tei_replies.Info, query=(_MODEL_QUERY,)),
    *(
        Operation(
            "post", path, summary, RerankBody, vectors.RankedList | list[vectors.TeiRank], error=(ErrorBody, TeiError)
        )
        for path, summary in (
            ("/v1/rerank", "How well documents answer a query, the best first"),
            ("/v1/reranking", "As /v1/rerank"),
            ("/rerank", "As /v1/rerank"),
            ("/reranking", "As /v1/rerank"),
        )
    ),
    Operation("post", "/tokenize", "Text to tokens", llamacpp.TokenizeRequest, llamacpp.Tokens, error=LlamaError),
    Operation("post", "/detokenize", "Tokens to text", llamacpp.DetokenizeRequest, llamacpp.Content, error=LlamaError),
    Operation(
        "post",
        "/apply-template",
        "The prompt that a conversation becomes",
        llamacpp.ApplyTemplateRequest,
        llamacpp.Prompt,
        error=LlamaError,
    ),
    Operation("get", "/localllm/ps", "The models that have a process", response=manage.Processes),
    Operation("get", "/localllm/models", "The models on this machine", response=manage.Models),
    Operation("post", "/localllm/load", "Load a model", manage.LoadRequest, manage.LoadEvent, manage.LoadEvent),
    Operation("post", "/localllm/unload", "Unload a model", manage.ModelRequest, manage.Unloaded),
    Operation("post", "/localllm/kv/save", "Conversations to the disk", manage.ModelRequest, manage.KvSaved),
    Operation("post", "/localllm/pull", "Download a model", manage.PullRequest, manage.PullEvent, manage.PullEvent),
    Operation("post", "/localllm/remove", "Forget a model", manage.ModelRequest, manage.Removed),
    Operation("get", "/", "The page, for browsers; for others: alive, in Ollama's words", needs_key=False),
    Operation("get", "/ui/{name}", "A file of the page", needs_key=False),
    Operation("get", "/localllm/catalog", "Well-known models", response=manage.CatalogModels, query=_CATALOG_QUERY),
    Operation("get", "/localllm/watch", "What the models do, as events without an end", chunk=manage.Activity),
    _ollamas("get", "version", "The version of Ollama whose API this is", None, ollama_replies.Version),
    _ollamas("get", "tags", "The models on this machine", None, ollama_models.Tags),
    _ollamas("get", "ps", "The models that are loaded", None, ollama_models.Processes),
    _ollamas("post", "show", "What is known of a model", ollama.ShowRequest, ollama_models.Shown),
    _ollamas(
        "post", "chat", "Answer a conversation", ollama.ChatRequest, ollama_replies.ChatReply, ollama_replies.ChatReply
    ),
    _ollamas(
        "post",
        "generate",
        "Answer a prompt",
        ollama.GenerateRequest,
        ollama_replies.GenerateReply,
        ollama_replies.GenerateReply,
    ),
    _ollamas("post", "embed", "Texts to vectors", ollama.EmbedRequest, ollama_replies.EmbedReply),
    _ollamas("post", "embeddings", "A text to a vector", ollama.EmbeddingsRequest, ollama_replies.EmbeddingsReply),
    _ollamas("delete", "delete", "Forget a model", ollama.ModelRequest, is_empty=True),
    _ollamas("post", "copy", "A second name for a model", ollama.CopyRequest, is_empty=True),
    _ollamas("post", "pull", "Download a model", ollama.PullRequest, ProgressLine, ProgressLine),
    _ollamas(
        "post",
        "create",
        "A model of another, or of files",
        ollama.CreateRequest,
        ProgressLine,
        ProgressLine,
    ),
    _ollamas("post", "push", "Send a model to a registry", ollama.PushRequest, ProgressLine, ProgressLine),
    _ollamas("post", "blobs/{digest}", "A file to make a model of", is_empty=True),
)
