"""Fields of OpenAI's requests and extensions of them that are refused or ignored, and why.

Honoured fields are those of the Structs in `requests`. Tests compare all of them with the types of the `openai`
package, so that no new field is overlooked.
"""

from __future__ import annotations

from collections.abc import Mapping

from localllm.server.requests import speculating
from localllm.server.requests.field_rules import Fates, RefusedField

_OF_ACCOUNTS = "accounts, billing and abuse reports exist only at the vendor"
_OF_CACHES = "the cache keeps what it has room for; `cache_salt` separates prompts"

NO_EFFECT: Mapping[str, str] = {
    "guided_decoding_backend": "vLLM has several backends for grammars; there is only one here",
    "metadata": "requests are not stored",
    "prompt_cache_options": _OF_CACHES,
    "prompt_cache_retention": _OF_CACHES,
    "safety_identifier": _OF_ACCOUNTS,
    "user": _OF_ACCOUNTS,
}

_REFUSED_EVERYWHERE: dict[str, RefusedField] = {
    # Fields of llama-server, vLLM, SGLang and Ollama that would change the answer.
    "chat_template": RefusedField("templates run code, so only the server sets them: --chat-template"),
    "ebnf": RefusedField("`grammar` takes GBNF, `guided_grammar` GBNF or Lark", ("",)),
    "grammar_lazy": RefusedField("grammars apply from the first token of the text", (False,)),
    "grammar_triggers": RefusedField("grammars apply from the first token of the text", ([],)),
    "grammar_type": RefusedField("the grammar's field determines its type"),
    "n_probs": RefusedField("use `logprobs`", (0,)),
    "prompt_logprobs": RefusedField("use `echo` with `logprobs` in completions"),
    "reasoning_budget_message": RefusedField("a truncated thought ends with the format's own marker", ("",)),
    "regex": RefusedField("use `guided_regex`", ("",)),
    "repetition_penalty": RefusedField("use `repeat_penalty`", (1,)),
    "samplers": RefusedField("the order of samplers is fixed"),
    "use_beam_search": RefusedField("beam search is not supported", (False,)),
}

REFUSED_CHAT: Mapping[str, RefusedField] = _REFUSED_EVERYWHERE | {
    "audio": RefusedField("answers are text only"),
    "modalities": RefusedField("answers are text only", (["text"],)),
    "moderation": RefusedField("moderation is not supported"),
    "store": RefusedField("chats are not stored; responses are", (False,)),
    "verbosity": RefusedField("few templates use it; set variables with `chat_template_kwargs`", ("medium",)),
    "web_search_options": RefusedField("web search is not supported"),
}

REFUSED_COMPLETION: Mapping[str, RefusedField] = _REFUSED_EVERYWHERE | {
    "chat_template_kwargs": RefusedField("plain prompts use no template", ({},)),
    "store": RefusedField("completions are not stored; responses are", (False,)),
}

_REFUSED_WITH_TEXTS: dict[str, RefusedField] = {
    # Fields of TEI, vLLM, Jina and Cohere that would change vectors or scores.
    "activation": RefusedField("the model determines it; rerank's `raw_scores` turns it off", (True,)),
    "add_special_tokens": RefusedField("texts get the special tokens the model was trained with", (True,)),
    "chat_template": RefusedField("texts are embedded unchanged"),
    "chat_template_kwargs": RefusedField("texts are embedded unchanged", ({},)),
    "lora": RefusedField("adapters change answers only", ([],)),
    "messages": RefusedField("texts are embedded unchanged; render them with /apply-template"),
    "softmax": RefusedField("the model determines it; rerank's `raw_scores` turns it off", (True,)),
    "truncation_direction": RefusedField("texts are truncated at the end", ("right", "Right")),
    "truncation_side": RefusedField("texts are truncated at the end", ("right",)),
    "use_activation": RefusedField("the model determines it; rerank's `raw_scores` turns it off", (True,)),
}

REFUSED_EMBEDDING: Mapping[str, RefusedField] = _REFUSED_WITH_TEXTS | {
    "content": RefusedField("use `input`"),
    "embed_dtype": RefusedField("vectors are float32", ("float32",)),
    "embedding_type": RefusedField("vectors are float32; use `encoding_format`", ("float",)),
    "embedding_types": RefusedField("vectors are float32; use `encoding_format`", (["float"],)),
    "endianness": RefusedField("base64 holds little-endian numbers", ("little", "native")),
    "input_type": RefusedField("the client adds the model's prefixes to the texts"),
    "late_chunking": RefusedField("each text is embedded separately", (False,)),
    "normalized": RefusedField("use `normalize`", (True,)),
    "output_dtype": RefusedField("vectors are float32; use `encoding_format`", ("float",)),
    "prompt_name": RefusedField("the client adds the model's prefixes to the texts"),
    "task": RefusedField("the client adds the model's prefixes to the texts"),
}

REFUSED_RERANK: Mapping[str, RefusedField] = _REFUSED_WITH_TEXTS | {
    "instruction": RefusedField("the model's own template is used", ("",)),
    "max_chunks_per_doc": RefusedField("a document is ranked as a whole; use `truncate`"),
    "max_tokens_per_doc": RefusedField("a document is ranked as a whole; use `truncate`"),
    "rank_fields": RefusedField("documents have one field, `text`", (["text"],)),
    "return_embeddings": RefusedField("use /v1/embeddings for vectors", (False,)),
}

CHAT = Fates(REFUSED_CHAT, {**NO_EFFECT, **speculating.NO_EFFECT})
COMPLETION = Fates(REFUSED_COMPLETION, {**NO_EFFECT, **speculating.NO_EFFECT})
_NO_EFFECT_ON_TEXTS = {
    **NO_EFFECT,
    "prompt_cache_key": _OF_CACHES,
    "service_tier": "texts have no classes; use `priority`",
}
EMBEDDING = Fates(REFUSED_EMBEDDING, _NO_EFFECT_ON_TEXTS)
NATIVE_EMBEDDING = Fates(
    {name: refused for name, refused in REFUSED_EMBEDDING.items() if name != "content"}, _NO_EFFECT_ON_TEXTS
)
"""Fields of llama-server's endpoints."""
RERANK = Fates(REFUSED_RERANK, _NO_EFFECT_ON_TEXTS)

_OF_CHATS = "a field of the chat API: use `text.format` for structures"


def _renamed(here: str) -> RefusedField:
    return RefusedField(f"in the Responses API it is called `{here}`")


RESPONSES = Fates(
    _REFUSED_EVERYWHERE
    | {
        "background": RefusedField("background responses are not supported; use `stream`", (False,)),
        "context_management": RefusedField("conversations are not compacted; input that is too long is refused", ([],)),
        "conversation": RefusedField("use `previous_response_id`"),
        "moderation": RefusedField("moderation is not supported"),
        "prompt": RefusedField("prompts are not stored; send `instructions`"),
        "functions": RefusedField("in the Responses API, use `tools`", ([],)),
        "grammar": RefusedField(_OF_CHATS, ("",)),
        "guided_choice": RefusedField(_OF_CHATS, ([],)),
        "guided_grammar": RefusedField(_OF_CHATS, ("",)),
        "guided_json": RefusedField(_OF_CHATS),
        "guided_regex": RefusedField(_OF_CHATS, ("",)),
        "guided_whitespace_pattern": RefusedField(_OF_CHATS, ("",)),
        "json_schema": RefusedField(_OF_CHATS),
        "structural_tag": RefusedField(_OF_CHATS),
        "structured_outputs": RefusedField(_OF_CHATS),
        "logprobs": RefusedField('use `include: ["message.output_text.logprobs"]`', (False,)),
        "n": RefusedField("a response has one answer", (1,)),
        # Fields of the chat API that would change the answer must not be lost silently.
        "max_completion_tokens": _renamed("max_output_tokens"),
        "max_tokens": _renamed("max_output_tokens"),
        "messages": _renamed("input"),
        "n_predict": _renamed("max_output_tokens"),
        "reasoning_effort": _renamed("reasoning.effort"),
        "response_format": _renamed("text.format"),
        "verbosity": _renamed("text.verbosity"),
    },
    {name: why for name, why in NO_EFFECT.items() if name != "metadata"}
    | speculating.NO_EFFECT
    | {
        "access_programs": _OF_ACCOUNTS,
        "client_metadata": "metadata of Codex",
        "image": "answers have no images",
        "max_tool_calls": "the server limits calls of MCP tools: --mcp-max-rounds",
    },
)
