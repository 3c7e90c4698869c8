"""Whether a model thinks before it answers, as its chat template shows, and whether a prompt has begun a thought.

Pure text: knows nothing of tokens or grammars.
"""

from __future__ import annotations

from localllm.structures import THOUGHTS, Preface, Thought


def thought_of(template: str) -> Thought | None:
    """How the model of a chat template marks its thoughts: as its template writes those of earlier answers, or opens
    one. None: it has none, or none of `THOUGHTS`.
    """
    return next((each for each in THOUGHTS if each.opening in template and each.closing in template), None)


def preface_of(thought: Thought | None, prompt: str, budget: int | None) -> Preface | None:
    """What may stand before a structured answer to a rendered prompt; None: nothing.

    A prompt that ends with a closed thought, as templates write it to switch thinking off, has had its thought.
    """
    if thought is None:
        return None
    end = prompt.rstrip()
    if end.endswith(thought.opening):
        return Preface(thought=thought, is_open=True, budget=budget)
    if end.endswith(thought.closing) or budget == 0:
        return None
    return Preface(thought=thought, budget=budget)
