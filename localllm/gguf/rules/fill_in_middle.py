"""Whether a vocabulary has fill-in-the-middle tokens, by the rules of llama.cpp's src/llama-vocab.cpp.

Searches the file's list of tokens without decoding it.
"""

from __future__ import annotations

import struct

from localllm.gguf.cursor import Cursor
from localllm.gguf.header import Header
from localllm.gguf.tables import STRING
from localllm.gguf.values import UndecodedValue

MAX_SEARCHED_BYTES = 64 * 2**20
"""Limit on the searched part of a vocabulary; the largest has 10 MB."""
_FILL_IN_KEYS = (("fim_pre_token_id", "prefix_token_id"), ("fim_suf_token_id", "suffix_token_id"),
                 ("fim_mid_token_id", "middle_token_id"))  # fmt: skip
"""Keys of the tokens for prefix, suffix and middle, each with its older spelling."""
_FILL_IN_TEXTS = (
    ("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>", "\u2581<PRE>",
     "<|code_prefix|>", "<|prefix|>"),
    ("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>", "\u2581<SUF>",
     "<|code_suffix|>", "<|suffix|>"),
    ("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>", "\u2581<MID>",
     "<|code_middle|>", "<|middle|>"),
)  # fmt: skip
"""Texts by which llama.cpp recognizes these tokens without a key (llama-vocab.cpp)."""


def fills_in_middle(header: Header) -> bool:
    """Whether it has fill-in-the-middle tokens, by the rules of `llama_vocab_fim_*`.

    Raises what reopening the file raises.
    """
    missing = [
        texts
        for keys, texts in zip(_FILL_IN_KEYS, _FILL_IN_TEXTS, strict=True)
        if not any(f"tokenizer.ggml.{key}" in header.metadata for key in keys)
    ]
    listed = header.metadata.get("tokenizer.ggml.tokens")
    if not missing:
        return True
    tokens = None if listed is None else listed.value
    if isinstance(tokens, tuple):
        return all(any(text in tokens for text in texts) for texts in missing)
    if not isinstance(tokens, UndecodedValue) or tokens.type != STRING:
        return False
    num_bytes = min(header.data_start - tokens.offset, MAX_SEARCHED_BYTES)
    with Cursor(header.path) as cursor:
        cursor.skip(tokens.offset, "the header")
        content = cursor.take(min(num_bytes, cursor.remaining), "the vocabulary")
    return all(any(_stored(text) in content for text in texts) for texts in missing)


def _stored(text: str) -> bytes:
    """An array's string as stored in the file."""
    content = text.encode()
    return struct.pack("<Q", len(content)) + content
