"""Every operation: method, path, request and response types, for `openapi` and `api_table`."""

from __future__ import annotations

from typing import Any

from localllm.server.apis import gateways
from localllm.server.apis.adapters import AdapterRequest
from localllm.server.apis.anthropic import models as message_models
from localllm.server.apis.anthropic import replies as message_replies
from localllm.server.apis.anthropic import requests as messages
from localllm.server.apis.anthropic.events import Event as MessageEvent
from localllm.server.apis.audio import replies as audio_replies
from localllm.server.apis.audio import requests as audio
from localllm.server.apis.embeddings import replies as vectors
from localllm.server.apis.embeddings.requests import EmbeddingsBody, NativeBody, RerankBody
from localllm.server.apis.llamacpp import completion_replies, completion_requests, tools
from localllm.server.apis.llamacpp import requests as llamacpp
from localllm.server.apis.llamacpp.errors import ErrorBody as LlamaError
from localllm.server.apis.llamacpp.props import AdapterEntry
from localllm.server.apis.lmstudio import models as lmstudio
from localllm.server.apis.ollama import models as ollama_models
from localllm.server.apis.ollama import replies as ollama_replies
from localllm.server.apis.ollama import requests as ollama
from localllm.server.apis.ollama.errors import ErrorBody as OllamaError
from localllm.server.apis.ollama.replies import ProgressLine
from localllm.server.apis.openai import models, replies, requests
from localllm.server.apis.responses import compacting
from localllm.server.apis.responses import replies as response_replies
from localllm.server.apis.responses import requests as responses
from localllm.server.apis.responses.events import AnyEvent
from localllm.server.apis.selecting import replies as selection_replies
from localllm.server.apis.selecting import requests as selecting
from localllm.server.apis.tei import replies as tei_replies
from localllm.server.apis.tei import requests as tei
from localllm.server.apis.tei.errors import ErrorReply as TeiError
from localllm.server.described.batch_endpoints import BATCH_OPERATIONS
from localllm.server.described.operation import PAGE_QUERY, Operation, Query
from localllm.server.requests.counting import TokenCount
from localllm.types import wire as manage
from localllm.types.wire import ErrorBody, Ready


def _html(path: str, summary: str, query: tuple[Query, ...] = ()) -> Operation:
    """A page for browsers."""
    return Operation("get", path, summary, needs_key=False, query=query, text_type="text/html")


def _ollamas(method: str, path: str, summary: str, *types: Any, is_empty: bool = False) -> Operation:
    """An operation of Ollama's API, which streams lines unless `stream` is false. `types`: request, response, line."""
    request, response, chunk = (*types, None, None, None)[:3]
    return Operation(method, f"/api/{path}", summary, request, response, chunk, error=OllamaError, is_empty=is_empty)


def _teis(method: str, path: str, summary: str, *types: Any, query: tuple[Query, ...] = ()) -> Operation:
    """An operation of TEI's API. `types`: request, response."""
    request, response = (*types, None, None)[:2]
    return Operation(method, f"/{path}", summary, request, response, error=TeiError, query=query)


_MODEL_QUERY = Query("model", {"type": "string"})
_SLOT_QUERY = (
    Query("action", {"type": "string", "enum": ["save", "restore", "erase"]}, required=True),
    Query("model", {"type": "string"}),
)

_CATALOG_QUERY = (Query("query", {"type": "string"}),)
_MODEL = (Query("model", {"type": "string"}),)

OPERATIONS = (
    Operation("get", "/health", "Liveness: the server process responds", response=dict[str, str], needs_key=False),
    Operation("get", "/ready", "Readiness: a model can answer now", response=Ready, needs_key=False),
    Operation("get", "/metrics", "Metrics in Prometheus' text format"),
    Operation("get", "/v1/health", "As /health", response=dict[str, str], needs_key=False),
    Operation("get", "/props", "A model's properties and default parameters", response=dict[str, Any], query=_MODEL),
    Operation("post", "/props", "Not served: 501", error=LlamaError),
    Operation(
        "get", "/lora-adapters", "A model's LoRA adapters", response=list[AdapterEntry], query=_MODEL, error=LlamaError
    ),
    Operation(
        "post",
        "/lora-adapters",
        "Set the strength of adapters (id and scale of each) for requests that name none",
        response=dict[str, bool],
        query=_MODEL,
        error=LlamaError,
    ),
    Operation("post", "/v1/load_lora_adapter", "Let a registered adapter's name be a model again", AdapterRequest),
    Operation("post", "/v1/unload_lora_adapter", "Let an adapter's name be no model for now", AdapterRequest),
    *(Operation(method, "/cors-proxy", "Not served: 403", error=LlamaError) for method in ("get", "post")),
    Operation("get", "/tools", "List the tools of MCP servers", response=list[tools.ListedTool], error=LlamaError),
    Operation("post", "/tools", "Call a tool of an MCP server", tools.ToolRequest, tools.ToolReply, error=LlamaError),
    Operation("post", "/models/load", "Start loading a model", manage.ModelRequest, dict[str, bool], error=LlamaError),
    Operation("post", "/models/unload", "Unload a model", manage.ModelRequest, dict[str, bool], error=LlamaError),
    Operation("delete", "/models", "Remove a model", response=dict[str, bool], query=_MODEL),
    Operation("get", "/slots", "State of every model's slots", response=list[llamacpp.Slot], error=LlamaError),
    Operation(
        "post",
        "/slots/{id_slot}",
        "Save a slot's KV cache to a file, restore it, or erase it",
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
            completion_replies.PartialReply,  # the last event is the complete reply
            error=LlamaError,
        )
        for path, summary, request in (
            ("/completion", "Continue a text (llama-server)", completion_requests.CompletionRequest),
            ("/completions", "The same", completion_requests.CompletionRequest),
            ("/infill", "Fill in the middle (llama-server)", completion_requests.InfillRequest),
        )
    ),
    *(
        Operation("get", path, "Load of the loaded models, for gateways", response=gateways.Loads, query=_MODEL)
        for path in ("/loads", "/v1/loads")
    ),
    *(
        Operation("get", path, "What the model is (SGLang)", response=gateways.GatewayModel, query=_MODEL)
        for path in ("/model_info", "/get_model_info")
    ),
    Operation("get", "/openapi.json", "This document", response=dict[str, Any]),
    Operation(
        "get",
        "/v1/models",
        "List models; in Anthropic's format for clients that send anthropic-version",
        response=(models.ModelList, message_models.ModelPage),
        query=PAGE_QUERY,
    ),
    Operation(
        "get",
        "/v1/models/{model_id}",
        "One model",
        response=(models.ModelEntry, message_models.ModelInfo),
    ),
    Operation("get", "/api/v0/models", "List models (LM Studio)", response=lmstudio.ModelList),
    Operation("get", "/api/v0/models/{model_id}", "One model", response=lmstudio.Model),
    Operation("get", "/api/v1/models", "List models (LM Studio's second API)", response=lmstudio.KeyList),
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
            "Count the prompt tokens of such a request",
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
            "Count the prompt tokens of such a request",
            responses.ResponseRequest,
            TokenCount,
        )
        for prefix in ("", "/v1")
    ),
    *(
        Operation(
            "post",
            f"{prefix}/responses/compact",
            "Summarize a conversation, to continue it with fewer tokens",
            compacting.CompactRequest,
            compacting.CompactedResponse,
        )
        for prefix in ("", "/v1")
    ),
    Operation(
        "post",
        "/v1/completions",
        "Continue a text, or fill in the middle",
        requests.CompletionRequest,
        replies.Reply[replies.TextChoice],
        replies.Reply[replies.TextChoice],
    ),
    Operation(
        "post",
        "/v1/responses",
        "Answer a conversation and store it",
        responses.ResponseRequest,
        response_replies.ResponseObject,
        AnyEvent,
    ),
    Operation(
        "post",
        "/v1/messages",
        "Answer a conversation (Anthropic)",
        messages.MessagesRequest,
        message_replies.MessageObject,
        MessageEvent,
        error=message_replies.ErrorReply,
    ),
    Operation(
        "post",
        "/v1/messages/count_tokens",
        "Count the prompt tokens of such a request",
        messages.CountRequest,
        message_replies.TokenCount,
        error=message_replies.ErrorReply,
    ),
    Operation(
        "post",
        "/v1/select",
        "How likely given answers are, and the likeliest",
        selecting.SelectRequest,
        selection_replies.SelectionObject,
    ),
    Operation("get", "/v1/responses/{response_id}", "A stored response", response=response_replies.ResponseObject),
    Operation("delete", "/v1/responses/{response_id}", "Delete a stored response", response=response_replies.Deleted),
    Operation(
        "get",
        "/v1/responses/{response_id}/input_items",
        "The input items of a stored response",
        response=response_replies.ItemList,
    ),
    *(
        Operation(
            "post",
            f"{prefix}/audio/{name}",
            summary,
            request,
            (audio_replies.TranscriptObject, audio_replies.VerboseTranscript),
            audio_replies.Event,
            is_form=True,
        )
        for prefix in ("", "/v1")
        for name, summary, request in (
            ("transcriptions", "Write down what is said in a sound", audio.TranscriptionRequest),
            ("translations", "The same, in English", audio.TranslationRequest),
        )
    ),
    *BATCH_OPERATIONS,
    Operation("post", "/v1/embeddings", "Embed texts", EmbeddingsBody, vectors.EmbeddingList),
    Operation(
        "post",
        "/embeddings",
        "Embed texts (llama-server)",
        NativeBody,
        list[vectors.NativeEmbedding],
        error=LlamaError,
    ),
    Operation("post", "/embedding", "As /embeddings", NativeBody, list[vectors.NativeEmbedding], error=LlamaError),
    _teis("post", "embed", "Embed texts", tei.EmbedBody, list[list[float]]),
    _teis("post", "embed_all", "Embed texts, one vector per token", tei.InputsBody, list[list[list[float]]]),
    _teis("post", "similarity", "Similarity of sentences to a source sentence", tei.SimilarityBody, list[float]),
    _teis("post", "embed_sparse", "Not served: 424"),
    _teis("post", "predict", "Not served: 424"),
    _teis("get", "info", "The model and its limits (TEI)", None, tei_replies.Info, query=(_MODEL_QUERY,)),
    *(
        Operation(
            "post", path, summary, RerankBody, vectors.RankedList | list[vectors.TeiRank], error=(ErrorBody, TeiError)
        )
        for path, summary in (
            ("/v1/rerank", "Rank documents by relevance to a query"),
            ("/v1/reranking", "As /v1/rerank"),
            ("/rerank", "As /v1/rerank"),
            ("/reranking", "As /v1/rerank"),
        )
    ),
    Operation("post", "/tokenize", "Tokenize a text", llamacpp.TokenizeRequest, llamacpp.Tokens, error=LlamaError),
    Operation(
        "post", "/detokenize", "Detokenize tokens", llamacpp.DetokenizeRequest, llamacpp.Content, error=LlamaError
    ),
    Operation(
        "post",
        "/apply-template",
        "Render a conversation to a prompt",
        llamacpp.ApplyTemplateRequest,
        llamacpp.Prompt,
        error=LlamaError,
    ),
    Operation("get", "/localllm/ps", "List loaded models", response=manage.Processes),
    Operation("get", "/localllm/models", "List models on this machine", response=manage.Models),
    Operation("post", "/localllm/load", "Load a model", manage.LoadRequest, manage.LoadEvent, manage.LoadEvent),
    Operation("post", "/localllm/unload", "Unload a model", manage.ModelRequest, manage.Unloaded),
    Operation("post", "/localllm/kv/save", "Write conversations to disk", manage.ModelRequest, manage.KvSaved),
    Operation("post", "/localllm/pull", "Download a model", manage.PullRequest, manage.PullEvent, manage.PullEvent),
    Operation("post", "/localllm/remove", "Remove a model", manage.RemoveRequest, manage.Removed),
    Operation("post", "/localllm/search", "Search for models", manage.SearchRequest, manage.SearchResult),
    Operation("post", "/localllm/offers", "Quantizations of a model", manage.ModelRequest, manage.OfferedModels),
    Operation("post", "/localllm/settings", "Settings of a model", manage.SettingsRequest, manage.ModelSettings),
    Operation("post", "/localllm/blobs", "Keep a file for requests that refer to it", response=manage.KeptBlob),
    Operation("get", "/", "The web page; for other clients, Ollama's liveness text", needs_key=False),
    Operation("get", "/v1", "Leads browsers to the web page, and others nowhere", needs_key=False),
    Operation("get", "/ui/{name}", "A file of the web page", needs_key=False),
    _html("/docs", "The documentation: its pages, or what `?q=` finds", (Query("q", {"type": "string"}),)),
    _html("/docs/{topic}", "A page of the documentation"),
    Operation("get", "/localllm/catalog", "Well-known models", response=manage.CatalogModels, query=_CATALOG_QUERY),
    Operation("get", "/localllm/watch", "Live events of the models", chunk=manage.Activity),
    Operation("get", "/localllm/doctor", "The report of `localllm doctor`", response=manage.Diagnosis),
    _ollamas("get", "version", "The emulated version of Ollama", None, ollama_replies.Version),
    _ollamas("get", "tags", "List models on this machine", None, ollama_models.Tags),
    _ollamas("get", "ps", "List loaded models", None, ollama_models.Processes),
    _ollamas("post", "show", "Details of a model", ollama.ShowRequest, ollama_models.Shown),
    _ollamas(
        "post", "chat", "Answer a conversation", ollama.ChatRequest, ollama_replies.ChatReply, ollama_replies.ChatReply
    ),
    _ollamas(
        "post",
        "generate",
        "Continue a prompt",
        ollama.GenerateRequest,
        ollama_replies.GenerateReply,
        ollama_replies.GenerateReply,
    ),
    _ollamas("post", "embed", "Embed texts", ollama.EmbedRequest, ollama_replies.EmbedReply),
    _ollamas("post", "embeddings", "Embed one text", ollama.EmbeddingsRequest, ollama_replies.EmbeddingsReply),
    _ollamas("delete", "delete", "Remove a model", ollama.ModelRequest, is_empty=True),
    _ollamas("post", "copy", "Copy a model under another name", ollama.CopyRequest, is_empty=True),
    _ollamas("post", "pull", "Download a model", ollama.PullRequest, ProgressLine, ProgressLine),
    _ollamas(
        "post",
        "create",
        "Create a model from another one or from files",
        ollama.CreateRequest,
        ProgressLine,
        ProgressLine,
    ),
    _ollamas("post", "push", "Upload a model to a registry", ollama.PushRequest, ProgressLine, ProgressLine),
    _ollamas("post", "blobs/{digest}", "Upload a file for a new model", is_empty=True),
)
