"""Every field of every dialect is honoured, refused by name or ignored for a reason; compared with the clients' types.

What a newer client adds fails here, by its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
from starlette.routing import Route

import localllm
from localllm.server.apis.anthropic import contents
from localllm.server.apis.anthropic import requests as anthropic_requests
from localllm.server.apis.anthropic.tools import MessagesChoice, MessagesTool
from localllm.server.apis.embeddings.requests import EmbeddingsBody, RerankBody
from localllm.server.apis.ollama import fields as ollama_fields
from localllm.server.apis.ollama import messages as ollama_messages
from localllm.server.apis.ollama import requests as ollama_requests
from localllm.server.apis.openai import requests as openai_requests
from localllm.server.apis.responses import requests as responses
from localllm.server.apis.responses.inputs import InputItem
from localllm.server.apis.responses.tools import NamespacedTool, ResponseTool
from localllm.server.app import routes
from localllm.server.described import api_table
from localllm.server.described.endpoints import OPERATIONS
from localllm.server.requests import content_parts as openai_parts
from localllm.server.requests import messages as openai_messages
from localllm.server.requests import tools as openai_tools
from localllm.server.requests.field_rules import fates_of, honoured
from localllm.server.requests.sampling import StreamOptions
from localllm.server.requests.structures import JsonSchema, ResponseFormat

PAGE = Path(localllm.__file__).parent / "docs" / "fields.md"
OF_RERANKERS = set(
    """model query documents top_n return_documents texts return_text raw_scores truncate truncation_direction
    rank_fields max_chunks_per_doc max_tokens_per_doc truncate_prompt_tokens truncation_side priority user
    use_activation return_embeddings""".split()
)
"""Jina's, Cohere's, TEI's and vLLM's."""


def read_as() -> list[tuple[Any, type[msgspec.Struct]]]:
    """A type of a client's request -> what it is read as. The clients are imported here, as that takes seconds."""
    import anthropic.types as messages_api
    import anthropic.types.beta as messages_beta
    import ollama._types as ollama_api
    import openai.types.chat as chat_api
    import openai.types.responses as responses_api
    from anthropic.types import message_count_tokens_params, message_create_params
    from anthropic.types.beta import message_count_tokens_params as beta_count_params
    from anthropic.types.beta import message_create_params as beta_create_params
    from openai.types import completion_create_params, embedding_create_params, shared_params
    from openai.types.chat import completion_create_params as chat_create_params
    from openai.types.responses import response_create_params

    return [
        (chat_create_params.CompletionCreateParamsStreaming, openai_requests.ChatRequest),
        (chat_api.ChatCompletionMessageParam, openai_messages.ChatMessage),
        *(
            (getattr(chat_api, f"ChatCompletionContentPart{name}Param"), openai_parts.ContentPart)
            for name in ("Text", "Image", "InputAudio", "Refusal")
        ),
        (chat_api.ChatCompletionMessageFunctionToolCallParam, openai_messages.MessageCall),
        (chat_api.ChatCompletionMessageCustomToolCallParam, openai_messages.MessageCall),
        (chat_api.ChatCompletionStreamOptionsParam, StreamOptions),
        (shared_params.ResponseFormatJSONSchema, ResponseFormat),
        (shared_params.response_format_json_schema.JSONSchema, JsonSchema),
        (shared_params.FunctionDefinition, openai_tools.FunctionTool),
        (completion_create_params.CompletionCreateParamsStreaming, openai_requests.CompletionRequest),
        (response_create_params.ResponseCreateParamsStreaming, responses.ResponseRequest),
        (response_create_params.StreamOptions, StreamOptions),
        (shared_params.Reasoning, responses.Reasoning),
        (responses_api.ResponseTextConfigParam, responses.TextConfig),
        (responses_api.ResponseFormatTextJSONSchemaConfigParam, ResponseFormat),
        *(
            (getattr(responses_api, f"Response{name}Param"), openai_parts.ContentPart)
            for name in ("InputText", "InputImage", "InputFile", "OutputText", "OutputRefusal")
        ),
        (responses_api.EasyInputMessageParam, InputItem),
        (responses_api.ResponseOutputMessageParam, InputItem),
        (responses_api.ResponseReasoningItemParam, InputItem),
        (responses_api.ResponseFunctionToolCallParam, InputItem),
        (responses_api.FunctionToolParam, NamespacedTool),
        (responses_api.CustomToolParam, NamespacedTool),
        (responses_api.NamespaceToolParam, ResponseTool),
        (responses_api.tool_param.Mcp, ResponseTool),
        *(
            (getattr(responses_api.response_input_item_param, name), InputItem)
            for name in ("McpListTools", "McpApprovalRequest", "McpApprovalResponse", "McpCall")
        ),
        (embedding_create_params.EmbeddingCreateParams, EmbeddingsBody),
        (OF_RERANKERS, RerankBody),
        (message_create_params.MessageCreateParamsStreaming, anthropic_requests.MessagesRequest),
        (beta_create_params.MessageCreateParamsStreaming, anthropic_requests.MessagesRequest),
        (message_count_tokens_params.MessageCountTokensParams, anthropic_requests.CountRequest),
        (beta_count_params.MessageCountTokensParams, anthropic_requests.CountRequest),
        (messages_api.ThinkingConfigParam, anthropic_requests.MessagesThinking),
        (messages_beta.BetaThinkingConfigParam, anthropic_requests.MessagesThinking),
        (messages_api.OutputConfigParam, anthropic_requests.OutputConfig),
        (messages_beta.BetaOutputConfigParam, anthropic_requests.OutputConfig),
        (messages_api.DocumentBlockParam, contents.ContentBlock),
        (messages_api.ToolParam, MessagesTool),
        (messages_beta.BetaToolParam, MessagesTool),
        (messages_api.ToolChoiceParam, MessagesChoice),
        (messages_api.MessageParam, contents.InputMessage),
        (messages_beta.BetaMessageParam, contents.InputMessage),
        *(
            (getattr(api, f"{prefix}{name}BlockParam"), contents.ContentBlock)
            for api, prefix in ((messages_api, ""), (messages_beta, "Beta"))
            for name in ("Text", "Thinking", "RedactedThinking", "ToolUse", "ToolResult", "Image")
        ),
        (ollama_api.ChatRequest, ollama_requests.ChatRequest),
        (ollama_api.Message, ollama_messages.ChatMessage),
        (ollama_api.Tool, ollama_messages.Tool),
        (ollama_api.GenerateRequest, ollama_requests.GenerateRequest),
        (ollama_api.CreateRequest, ollama_requests.CreateRequest),
        (ollama_api.Options, ollama_fields.Options),
        (ollama_api.EmbedRequest, ollama_requests.EmbedRequest),
        (ollama_api.EmbeddingsRequest, ollama_requests.EmbeddingsRequest),
        (ollama_api.ShowRequest, ollama_requests.ShowRequest),
        (ollama_api.PullRequest, ollama_requests.PullRequest),
        (ollama_api.DeleteRequest, ollama_requests.ModelRequest),
        (ollama_api.CopyRequest, ollama_requests.CopyRequest),
    ]


def sent(kind: Any) -> Iterator[str]:
    """The fields of a type of a client's, or of all of a union."""
    if isinstance(kind, set):
        yield from kind
    elif hasattr(kind, "__required_keys__"):
        yield from kind.__required_keys__ | kind.__optional_keys__
    elif hasattr(kind, "model_fields"):
        yield from (field.alias or name.removesuffix("_") for name, field in kind.model_fields.items())
    else:
        assert get_args(kind), kind
        for each in get_args(kind):
            yield from sent(each)


def test_what_becomes_of_every_field_of_a_client_is_known() -> None:
    wrong = {}
    for theirs, ours in read_as():
        fates = fates_of(ours)
        known = Counter([*honoured(ours), *fates.refused, *fates.ignored])
        twice = [field for field, lists in known.items() if lists > 1]
        if unknown := sorted(set(sent(theirs)) - set(known)) + twice:
            wrong[f"{theirs}, read as {ours.__name__}"] = unknown
    assert wrong == {}


def test_there_is_a_reason_for_every_field_that_is_not_honoured() -> None:
    kinds: list[type[msgspec.Struct]] = [operation.request for operation in OPERATIONS if operation.request]
    for kind in kinds:
        fates = fates_of(kind)
        assert all([*(refused.why for refused in fates.refused.values()), *fates.ignored.values()]), kind


def test_the_page_is_what_is_served() -> None:
    """`python -m localllm.server.described.api_table > localllm/docs/fields.md` writes it anew."""
    page = PAGE.read_text("utf-8")
    assert page == api_table.document()
    for route in routes():
        assert isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}:
            assert f"| `{method} {route.path.replace(':path', '')}" in page
