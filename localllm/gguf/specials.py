"""Special tokens of a vocabulary: BOS and EOS as text. Keeps nothing else of the vocabulary."""

from __future__ import annotations

from typing import NamedTuple

from localllm.gguf.cursor import Cursor
from localllm.gguf.header import Header
from localllm.gguf.tables import STRING
from localllm.gguf.values import UndecodedValue

MAX_TEXT_BYTES = 1024
"""Limit on the text of a special token."""


class SpecialTexts(NamedTuple):
    """Texts of special tokens; empty if the file does not name the token."""

    bos: str = ""
    eos: str = ""


def special_texts(header: Header) -> SpecialTexts:
    """The texts of BOS and EOS. Raises `InvalidModelFile`, and what reopening the file raises."""
    return SpecialTexts(_text(header, "bos_token_id"), _text(header, "eos_token_id"))


def _text(header: Header, key: str) -> str:
    entry, listed = (header.metadata.get(f"tokenizer.ggml.{name}") for name in (key, "tokens"))
    token = None if entry is None else entry.value
    tokens = None if listed is None else listed.value
    if not isinstance(token, int) or token < 0:
        return ""
    if isinstance(tokens, tuple):
        return str(tokens[token]) if token < len(tokens) else ""
    if not isinstance(tokens, UndecodedValue) or tokens.type != STRING or token >= tokens.count:
        return ""
    with Cursor(header.path) as cursor:
        cursor.skip(tokens.offset, "the header")
        cursor.skip_strings(token, "a token")
        length = cursor.string_length("a token")
        return cursor.take(length, "a token").decode(errors="replace") if length <= MAX_TEXT_BYTES else ""
