"""Whether two models have the same tokens: only then can one verify what the other guesses.

Compares token by token; additional tokens may be padding, which occurs in no text. Knows nothing of guesses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NAMED = ("bos", "eos", "eot")


def vocab_difference(api: Any, one: Any, other: Any) -> str:
    """The first difference of two `llama_vocab *` in words, about `other`; empty if they agree."""
    if (kind := api.llama_vocab_type(one)) != (its := api.llama_vocab_type(other)):
        return f"its tokenizer is {its}, not {kind}"
    sizes = api.llama_vocab_n_tokens(one), api.llama_vocab_n_tokens(other)
    special = api.LLAMA_TOKEN_ATTR_CONTROL | api.LLAMA_TOKEN_ATTR_BYTE | api.LLAMA_TOKEN_ATTR_UNKNOWN
    text_of, attributes_of = api.llama_vocab_get_text, api.llama_vocab_get_attr
    for token in range(min(sizes)):
        mine, its = text_of(one, token), text_of(other, token)
        if mine != its:
            return f"its token {token} is {_shown(its)}, not {_shown(mine)}"
        if (attributes_of(one, token) ^ attributes_of(other, token)) & special:
            return f"its token {token}, {_shown(mine)}, is special in one of the two only"
    longer, size = (one, max(sizes)) if sizes[0] > sizes[1] else (other, max(sizes))
    if not _is_padding(attributes_of(longer, token) & api.LLAMA_TOKEN_ATTR_UNUSED for token in range(min(sizes), size)):
        return f"it has {sizes[1]:,} tokens, not {sizes[0]:,}"
    for name in NAMED:
        asked = getattr(api, f"llama_vocab_{name}")
        mine, its = asked(one), asked(other)
        if mine != its:
            return f"its {name.upper()} token is {its}, not {mine}"
    if bool(api.llama_vocab_get_add_bos(one)) != bool(api.llama_vocab_get_add_bos(other)):
        return "one of the two begins texts with BOS, the other does not"
    return ""


def _is_padding(unused: Iterable[int]) -> bool:
    return all(unused)


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", "replace"))
