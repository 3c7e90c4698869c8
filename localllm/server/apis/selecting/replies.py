"""The reply of `POST /v1/select`."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from localllm.runtime.scoring import Selection, TextScore
from localllm.server.answers.logprobs import LEAST, ChatLogprob, chat_logprobs
from localllm.server.apis.openai.replies import UsageObject, usage_object


class ScoredChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One of the texts."""

    index: int
    text: str
    logprob: float
    """Natural logarithm of the probability that an answer begins with it."""
    num_tokens: int
    probability: float
    """As if one of the texts had to come: of what was compared, scaled to a sum of 1."""
    tokens: list[ChatLogprob] | UnsetType = UNSET
    """With `logprobs`."""


class SelectionObject(msgspec.Struct, frozen=True, kw_only=True):
    """The likeliest text, and how likely all are, in their order in the request."""

    object: Literal["selection"] = "selection"
    model: str
    index: int
    text: str
    choices: list[ScoredChoice]
    usage: UsageObject


def selection_object(made: Selection, model: str, *, logprobs: bool) -> SelectionObject:
    """`logprobs`: with those of each token."""
    return SelectionObject(
        model=model,
        index=made.index,
        text=made.text,
        choices=[
            _choice(index, score, probability, logprobs=logprobs)
            for index, (score, probability) in enumerate(zip(made.scores, made.probabilities, strict=True))
        ],
        usage=usage_object(made.usage),
    )


def _choice(index: int, score: TextScore, probability: float, *, logprobs: bool) -> ScoredChoice:
    return ScoredChoice(
        index=index,
        text=score.text,
        logprob=max(score.logprob, LEAST),
        num_tokens=len(score.tokens),
        probability=probability,
        tokens=chat_logprobs(score.tokens).content if logprobs else UNSET,
    )
