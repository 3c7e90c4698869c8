"""Every request field we have heard of, and what we do with it: honoured, refused by name, or without effect.

Honoured fields are those of the Structs in `requests`. A test compares all three lists with the types of the
`openai` package, so that a new field cannot slip through. What nobody knows is ignored, and named in a header.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from localllm.errors import UnsupportedParameter
from localllm.server.parse import Fields, small

NO_EFFECT = frozenset(
    {
        "guided_decoding_backend",  # of vLLM, which has several
        "metadata",
        "prediction",  # only ever makes the same answer faster
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "user",
    }
)

NO_EFFECT_RESPONSES = NO_EFFECT - {"metadata", "prediction"} | {"access_programs", "client_metadata"}
"""Of the Responses API, which gives `metadata` back. `client_metadata` is Codex's, on itself."""

_ANYTHING = object()
"""Marks a field that is only meaningful beside a refused one."""

_REFUSED_EVERYWHERE: dict[str, tuple[Any, ...]] = {
    # Of llama-server, vLLM, SGLang and Ollama: known, and they would change the answer.
    "chat_template": (),
    "ebnf": ("",),
    "grammar_lazy": (False,),
    "grammar_triggers": ([],),
    "grammar_type": (),
    "lora": ([],),
    "n_probs": (0,),
    "prompt_logprobs": (),
    "reasoning_budget_message": ("",),
    "regex": ("",),
    "repetition_penalty": (1,),
    "samplers": (),
    "use_beam_search": (False,),
}

REFUSED_CHAT: Mapping[str, tuple[Any, ...]] = _REFUSED_EVERYWHERE | {
    "audio": (),
    "modalities": (["text"],),
    "moderation": (),
    "store": (False,),
    "verbosity": ("medium",),
    "web_search_options": (),
}
"""Field -> the values, besides null, that ask for nothing and are therefore fine."""

REFUSED_COMPLETION: Mapping[str, tuple[Any, ...]] = _REFUSED_EVERYWHERE | {
    "chat_template_kwargs": ({},),
    "store": (False,),
}

_REFUSED_WITH_TEXTS: dict[str, tuple[Any, ...]] = {
    # Of TEI, vLLM, Jina and Cohere: known, and they would change vectors or scores.
    "activation": (True,),
    "add_special_tokens": (True,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "lora": ([],),
    "messages": (),
    "softmax": (True,),
    "truncation_direction": ("right", "Right"),
    "truncation_side": ("right",),
    "use_activation": (True,),
}

REFUSED_EMBEDDING: Mapping[str, tuple[Any, ...]] = _REFUSED_WITH_TEXTS | {
    "content": (),
    "embed_dtype": ("float32",),
    "embedding_type": ("float",),
    "embedding_types": (["float"],),
    "endianness": ("little", "native"),
    "input_type": (),
    "late_chunking": (False,),
    "normalized": (True,),
    "output_dtype": ("float",),
    "prompt_name": (),
    "task": (),
}

REFUSED_RERANK: Mapping[str, tuple[Any, ...]] = _REFUSED_WITH_TEXTS | {
    "instruction": ("",),
    "max_chunks_per_doc": (),
    "max_tokens_per_doc": (),
    "rank_fields": (["text"],),
    "return_embeddings": (False,),
}

REFUSED_RESPONSES: Mapping[str, tuple[Any, ...]] = _REFUSED_EVERYWHERE | {
    "background": (False,),
    "context_management": ([],),
    "conversation": (),
    "image": (_ANYTHING,),
    "max_tool_calls": (_ANYTHING,),
    "moderation": (),
    "prompt": (),
    "truncation": ("disabled",),
    # Of the chat API; here `text.format` takes all kinds of structures:
    "functions": ([],),
    "grammar": ("",),
    "guided_choice": ([],),
    "guided_grammar": ("",),
    "guided_json": (),
    "guided_regex": ("",),
    "guided_whitespace_pattern": ("",),
    "json_schema": (),
    "logprobs": (False,),
    "n": (1,),
    "structural_tag": (),
    "structured_outputs": (),
}


def refuse_unsupported(given: Fields, refused: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise `UnsupportedParameter` for the first field that asks for something we do not serve."""
    for name, raw in given.items():
        neutral = refused.get(name)
        if neutral is None:
            continue
        value = small(raw)  # nothing that asks for nothing is long
        if value is None or any(_asks_nothing(value, item) for item in neutral):
            continue
        hint = f"; leave it out or send {json.dumps(neutral[0])}" if neutral else "; leave it out"
        raise UnsupportedParameter(f"{name} is not supported yet{hint}", param=name)


def _asks_nothing(value: Any, neutral: Any) -> bool:
    """`False == 0` in Python, but `logprobs: 0` is not `logprobs: false`."""
    return neutral is _ANYTHING or (value == neutral and isinstance(value, bool) == isinstance(neutral, bool))


def unknown_fields(
    given: Iterable[str], honoured: Iterable[str], refused: Iterable[str], no_effect: Iterable[str] = NO_EFFECT
) -> list[str]:
    """The fields that are nobody's."""
    return sorted(set(given) - set(honoured) - set(refused) - set(no_effect))
