"""Whether a model thinks before it answers, as its chat template shows, and whether a prompt has begun a thought.

Pure text: knows nothing of tokens or grammars.
"""

from __future__ import annotations

from localllm.structures import THOUGHTS, Preface, Tags


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


def preface_of(thought: Tags | None, prompt: str, budget: int | None, *, may_begin: bool = True) -> Preface | None:
    """What may stand before a structured answer to a rendered prompt; None: nothing.

    A prompt that ends with a closed thought, as templates write it to switch thinking off, has had its thought. Without
    `may_begin` there is none that the prompt did not begin: the model was not asked for one.
    """
    if thought is None:
        return None
    end = prompt.rstrip()
    if end.endswith(thought.opening):
        return Preface(thought=thought, is_open=True, budget=budget)
    if end.endswith(thought.closing) or budget == 0 or not may_begin:
        return None
    return Preface(thought=thought, budget=budget)
