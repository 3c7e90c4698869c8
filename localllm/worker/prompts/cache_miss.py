"""Explains why a prompt does not begin like earlier ones, by comparing it with the most similar conversation.

Knows nothing of what is in the KV cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.chat.differences import difference, rendering_difference
from localllm.types import Message, Rendering
from localllm.worker.prompts.answered import Turn


def reason(
    near: Turn | None,
    messages: Sequence[Message],
    rendering: Rendering,
    *,
    parent: Turn | None,
    head: Turn | None,
    is_begun: bool,
) -> str:
    """`near`: the turn that has most in common with these messages. Empty: nothing was lost, as far as is known.

    `parent` is the last answer in the messages, `head` the last one whose tokens are used; `is_begun`: the text begins
    like one that was answered.
    """
    if near is None:
        return ""
    before = near.conversation()
    found = difference((*before, near.answer) if near.is_whole else before, messages)
    given = rendering_difference(near.rendering, rendering)
    if given and (found is None or found.at > 0):
        return given
    if found is not None:
        return found.text
    if parent is None or head is parent:
        return ""
    if is_begun:
        number = 0 if head is None else len(head.conversation()) + 1
        first = next(at for at in range(number, len(messages)) if messages[at].role == "assistant")
        return f"the chat template does not write message {first} as it was generated, so its text is computed again"
    return ""
