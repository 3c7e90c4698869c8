"""Whether a file's names say that its model chats, or that it is a base model, which only continues text.

Decides for files without a chat template, which nearly all chat models have. Knows nothing of templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Purpose = Literal["chat", "base", ""]

_CHAT = frozenset({
    "aligned", "assistant", "chat", "chatbot", "conversational", "dpo", "instruct", "instruction", "instructed", "it",
    "orpo", "rlhf", "sft",
})  # fmt: skip
_BASE = frozenset({"base", "foundation", "pretrain", "pretrained", "pt"})
_CHAT_TAGS = _CHAT - {"it"}
"""Tags include languages, and `it` is Italian."""
_WORD = re.compile(r"[a-z]+")


def purpose_of(names: Iterable[str], tags: Iterable[str] = ()) -> Purpose:
    """`names`: of the model, of its file, of its tuning. Empty: they say nothing. Where both are said, it chats."""
    words = {word for name in names for word in _WORD.findall(name.lower())}
    tagged = {word for tag in tags for word in _WORD.findall(tag.lower())}
    if words & _CHAT or tagged & _CHAT_TAGS:
        return "chat"
    return "base" if words & _BASE else ""
