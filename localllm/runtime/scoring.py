"""Scores of texts behind one prompt: a request for each, of which the prompt's part is computed once.

Knows neither how requests are sent nor what the scores are for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from localllm.errors import InvalidParameter
from localllm.runtime.answer_reader import Answer
from localllm.types import GenerationRequest, TokenLogprob, Usage


class TextScore(msgspec.Struct, frozen=True):
    """Of one text."""

    text: str
    tokens: tuple[TokenLogprob, ...]
    """Each with its log-probability (natural) behind the prompt and those before it."""

    @property
    def logprob(self) -> float:
        """Log-probability of the text: that an answer begins with it."""
        return math.fsum(each.logprob for each in self.tokens)

    @property
    def per_token(self) -> float:
        """The mean of its tokens' log-probabilities, by which texts of different lengths compare."""
        return self.logprob / len(self.tokens)


class Scores(msgspec.Struct, frozen=True):
    """Of several texts behind one prompt, in the given order."""

    texts: tuple[TextScore, ...]
    usage: Usage
    """The prompt counts once. No tokens are generated."""


class Selection(msgspec.Struct, frozen=True):
    """The likeliest of several texts."""

    index: int
    text: str
    scores: tuple[TextScore, ...]
    probabilities: tuple[float, ...]
    """Of each text, as if one of them had to come: e to the power of what was compared, scaled to a sum of 1."""
    usage: Usage

    def __str__(self) -> str:
        return self.text


def check(texts: Sequence[str], param: str) -> None:
    """Raises `InvalidParameter`."""
    if not texts:
        raise InvalidParameter(f"{param} must have at least one text", param=param)
    for index, text in enumerate(texts):
        if not text:
            raise InvalidParameter(f"{param}[{index}] is empty; leave it out", param=f"{param}[{index}]")


def to_score(request: GenerationRequest, texts: Sequence[str]) -> list[GenerationRequest]:
    """The requests, one for each text behind the prompt of `request`."""
    return [replace(request, scored=text, comes_whole=True) for text in texts]


async def scores_of(answers: Sequence[Answer], texts: Sequence[str]) -> Scores:
    """Read to their ends. Raises the error of the first that fails; the caller closes the answers."""
    found: list[TextScore] = []
    usage = Usage(0, 0)
    for answer, text in zip(answers, texts, strict=True):
        tokens: list[TokenLogprob] = []
        async for delta in answer:
            tokens += delta.prompt_logprobs
            if delta.finish is not None:
                usage = _with(usage, delta.finish.usage, len(tokens), is_first=not found)
        found.append(TextScore(text, tuple(tokens)))
    return Scores(tuple(found), usage)


def _with(usage: Usage, more: Usage, num_scored: int, *, is_first: bool) -> Usage:
    """Adds a text's tokens, and once the prompt's."""
    return more if is_first else replace(usage, prompt_tokens=usage.prompt_tokens + num_scored)


def selected(scores: Scores, *, per_token: bool) -> Selection:
    """The likeliest text; of several the first. `per_token`: compares means instead of sums, so that a text is not less
    likely because it has more tokens."""
    compared = [each.per_token if per_token else each.logprob for each in scores.texts]
    best = max(range(len(compared)), key=compared.__getitem__)
    return Selection(best, scores.texts[best].text, scores.texts, _shares(compared), scores.usage)


def _shares(compared: Sequence[float]) -> tuple[float, ...]:
    most = max(compared)
    weights = [1.0 if each == most else math.exp(each - most) for each in compared]  # all may be minus infinity
    return tuple(weight / math.fsum(weights) for weight in weights)
