"""Where an answer to a prompt begins: with a thought or with text.

Pure text: knows nothing of tokens or grammars.
"""

from __future__ import annotations

from localllm.types import Beginning, ChatFormat, Message


def beginning_of(format: ChatFormat, ending: str, continued: Message | None = None) -> Beginning:
    """Where an answer to a rendered prompt begins, by how the prompt ends.

    A prompt that ends with a closed thought, as templates write it to switch thinking off, has had its thought.
    `continued`: the message whose text the answer goes on with.
    """
    if format.thought is None:
        return "text"
    opening, closing = format.thought.opening.strip(), format.thought.closing.strip()
    if continued is not None and continued.content:
        is_inside = bool(opening) and continued.content.rfind(opening) > continued.content.rfind(closing)
        return "thought" if is_inside else "text"
    if continued is not None and continued.thought:
        return "thought"
    end = ending.rstrip()
    if opening and end.endswith(opening):
        return "thought"
    had = [closing, "" if format.text is None else format.text.opening.strip()]
    if any(each and end.endswith(each) for each in had):
        return "text"
    return "text" if format.begins_thought else "either"
