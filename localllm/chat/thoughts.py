"""Whether a model thinks before it answers, as its chat template shows, and where an answer to a prompt begins.

Pure text: knows nothing of tokens or grammars.
"""

from __future__ import annotations

from localllm.structures import THOUGHTS, Tags
from localllm.types import Beginning, ChatFormat, Message


def thought_of(template: str) -> Tags | None:
    """How the model of a chat template marks its thoughts: as its template writes those of earlier answers, or opens
    one. None: it has none, or none of `THOUGHTS`.
    """
    return next((each for each in THOUGHTS if each.opening in template and each.closing in template), None)


def begins_thoughts(template: str, thought: Tags) -> bool:
    """Whether a chat template opens the thought itself where one is wanted (`enable_thinking`): behind what it looks
    up last, `add_generation_prompt`, it writes an opening tag that it does not close at once.
    """
    _, is_found, end = template.rpartition("add_generation_prompt")
    behind = [part.replace("\\n", "").lstrip() for part in end.split(thought.opening)[1:]] if is_found else []
    return any(not part.startswith(thought.closing) for part in behind)


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
