"""Fields of OpenAI's requests, and of the APIs that extend them, which are not honoured: what becomes of each, and why.

Honoured are those of the Structs in `requests`. Tests compare all of them with the types of the `openai` package, so
that no new field slips through.
"""

from __future__ import annotations

from collections.abc import Mapping

from localllm.server.fields import Fates, Refused

_OF_ACCOUNTS = "accounts, billing and abuse reports are the vendor's"
_OF_CACHES = "the cache keeps whatever it has room for; `cache_salt` parts it"

NO_EFFECT: Mapping[str, str] = {
    "guided_decoding_backend": "vLLM has several, here is one",
    "metadata": "nothing is kept of a request",
    "prompt_cache_key": _OF_CACHES,
    "prompt_cache_options": _OF_CACHES,
    "prompt_cache_retention": _OF_CACHES,
    "safety_identifier": _OF_ACCOUNTS,
    "service_tier": "there is one; `priority` says who waits less",
    "user": _OF_ACCOUNTS,
}

_REFUSED_EVERYWHERE: dict[str, Refused] = {
    # Of llama-server, vLLM, SGLang and Ollama: known, and they would change the answer.
    "chat_template": Refused("templates run code, so the server chooses them: --chat-template"),
    "ebnf": Refused("`grammar` takes GBNF, `guided_grammar` GBNF or Lark", ("",)),
    "grammar_lazy": Refused("a grammar holds from the first token of the text on", (False,)),
    "grammar_triggers": Refused("a grammar holds from the first token of the text on", ([],)),
    "grammar_type": Refused("the field that a grammar is in says what it is"),
    "lora": Refused("no adapters are loaded", ([],)),
    "n_probs": Refused("`logprobs` is its name here", (0,)),
    "prompt_logprobs": Refused("completions have `echo` with `logprobs`"),
    "reasoning_budget_message": Refused("a thought that is cut ends with the format's own mark", ("",)),
    "regex": Refused("`guided_regex` is its name here", ("",)),
    "repetition_penalty": Refused("`repeat_penalty` is its name here", (1,)),
    "samplers": Refused("the order of samplers is fixed"),
    "use_beam_search": Refused("answers are sampled", (False,)),
}

REFUSED_CHAT: Mapping[str, Refused] = _REFUSED_EVERYWHERE | {
    "audio": Refused("answers are text"),
    "modalities": Refused("answers are text", (["text"],)),
    "moderation": Refused("there is no model that moderates"),
    "store": Refused("chats are not kept; responses are", (False,)),
    "verbosity": Refused("few templates know it; `chat_template_kwargs` sets any variable", ("medium",)),
    "web_search_options": Refused("nothing here searches the web"),
}

REFUSED_COMPLETION: Mapping[str, Refused] = _REFUSED_EVERYWHERE | {
    "chat_template_kwargs": Refused("a plain prompt has no template", ({},)),
    "store": Refused("completions are not kept; responses are", (False,)),
}

_REFUSED_WITH_TEXTS: dict[str, Refused] = {
    # Of TEI, vLLM, Jina and Cohere: known, and they would change vectors or scores.
    "activation": Refused("the model says which; `raw_scores` of rerank leaves it out", (True,)),
    "add_special_tokens": Refused("texts get the special tokens that the model was trained with", (True,)),
    "chat_template": Refused("texts are embedded as they are"),
    "chat_template_kwargs": Refused("texts are embedded as they are", ({},)),
    "lora": Refused("no adapters are loaded", ([],)),
    "messages": Refused("texts are embedded as they are: render them by /apply-template"),
    "softmax": Refused("the model says which; `raw_scores` of rerank leaves it out", (True,)),
    "truncation_direction": Refused("texts are cut at their ends", ("right", "Right")),
    "truncation_side": Refused("texts are cut at their ends", ("right",)),
    "use_activation": Refused("the model says which; `raw_scores` of rerank leaves it out", (True,)),
}

REFUSED_EMBEDDING: Mapping[str, Refused] = _REFUSED_WITH_TEXTS | {
    "content": Refused("`input` is its name here"),
    "embed_dtype": Refused("vectors are float32", ("float32",)),
    "embedding_type": Refused("vectors are float32; `encoding_format` packs them", ("float",)),
    "embedding_types": Refused("vectors are float32; `encoding_format` packs them", (["float"],)),
    "endianness": Refused("base64 is of little-endian numbers", ("little", "native")),
    "input_type": Refused("a model's prefixes are put before the texts by the client"),
    "late_chunking": Refused("each text is embedded by itself", (False,)),
    "normalized": Refused("`normalize` is its name here", (True,)),
    "output_dtype": Refused("vectors are float32; `encoding_format` packs them", ("float",)),
    "prompt_name": Refused("a model's prefixes are put before the texts by the client"),
    "task": Refused("a model's prefixes are put before the texts by the client"),
}

REFUSED_RERANK: Mapping[str, Refused] = _REFUSED_WITH_TEXTS | {
    "instruction": Refused("the model's own is used", ("",)),
    "max_chunks_per_doc": Refused("a document is ranked as a whole; `truncate` cuts it"),
    "max_tokens_per_doc": Refused("a document is ranked as a whole; `truncate` cuts it"),
    "rank_fields": Refused("a document has one field, `text`", (["text"],)),
    "return_embeddings": Refused("/v1/embeddings gives vectors", (False,)),
}

CHAT = Fates(REFUSED_CHAT, NO_EFFECT)
COMPLETION = Fates(REFUSED_COMPLETION, NO_EFFECT)
EMBEDDING = Fates(REFUSED_EMBEDDING, NO_EFFECT)
NATIVE_EMBEDDING = Fates({name: refused for name, refused in REFUSED_EMBEDDING.items() if name != "content"}, NO_EFFECT)
"""llama-server's, which has `content`."""
RERANK = Fates(REFUSED_RERANK, NO_EFFECT)

_OF_CHATS = "of the chat API: `text.format` takes every kind of structure"


def _renamed(here: str) -> Refused:
    return Refused(f"in the Responses API it is {here}")


RESPONSES = Fates(
    _REFUSED_EVERYWHERE
    | {
        "background": Refused("a response is made while its request lasts; stream it", (False,)),
        "context_management": Refused("nothing is compacted: what is too long is refused", ([],)),
        "conversation": Refused("`previous_response_id` goes on from what was kept"),
        "moderation": Refused("there is no model that moderates"),
        "prompt": Refused("no prompts are stored here; send `instructions`"),
        "truncation": Refused("what is too long is refused", ("disabled",)),
        "functions": Refused("in the Responses API it is tools", ([],)),
        "grammar": Refused(_OF_CHATS, ("",)),
        "guided_choice": Refused(_OF_CHATS, ([],)),
        "guided_grammar": Refused(_OF_CHATS, ("",)),
        "guided_json": Refused(_OF_CHATS),
        "guided_regex": Refused(_OF_CHATS, ("",)),
        "guided_whitespace_pattern": Refused(_OF_CHATS, ("",)),
        "json_schema": Refused(_OF_CHATS),
        "structural_tag": Refused(_OF_CHATS),
        "structured_outputs": Refused(_OF_CHATS),
        "logprobs": Refused('`include: ["message.output_text.logprobs"]` asks for them', (False,)),
        "n": Refused("a response is one answer", (1,)),
        # Fields of the chat API that would change the answer must not get lost on the way.
        "max_completion_tokens": _renamed("max_output_tokens"),
        "max_tokens": _renamed("max_output_tokens"),
        "messages": _renamed("input"),
        "n_predict": _renamed("max_output_tokens"),
        "reasoning_effort": _renamed("reasoning.effort"),
        "response_format": _renamed("text.format"),
        "verbosity": _renamed("text.verbosity"),
    },
    {name: why for name, why in NO_EFFECT.items() if name != "metadata"}
    | {
        "access_programs": _OF_ACCOUNTS,
        "client_metadata": "Codex tells about itself",
        "image": "no answer has an image",
        "max_tool_calls": "calls of MCP tools are bounded by the server: --mcp-max-rounds",
    },
)
