"""Which models llama.cpp computes in both directions, and what it makes of texts: pooling and scores.

The rules are those of llama.cpp's `llm_arch` cases in src/models/*.cpp and of src/llama-graph.cpp (`build_pooling`).
"""

from __future__ import annotations

from collections.abc import Collection

from localllm.types import Pooling
from localllm.types.upstream import POOLING_TYPES

NON_CAUSAL = frozenset({
    "bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "neo-bert", "modern-bert", "eurobert",
    "gemma-embedding", "t5encoder", "dream", "llada", "llada-moe", "rnd1",
})  # fmt: skip
"""Encoders and diffusion models, which attend in both directions even without the key `attention.causal`."""
SCORE_PROBABILITIES = frozenset({"qwen3", "qwen3vl"})
"""Architectures whose scores of a ranking llama.cpp passes through a softmax, so they are from 0 to 1."""
_RANKING_HEAD = frozenset({"cls.weight", "cls.output.weight"})
"""Tensors of a ranking head. Models have one or both."""


def is_causal(architecture: str, flag: bool | None) -> bool:
    """`flag`: what the header says of it, if anything."""
    if architecture == "dflash":
        return True  # there the key says how the tokens of a guess attend to each other
    return architecture not in NON_CAUSAL if flag is None else flag


def pooling_of(number: int | None) -> Pooling | None:
    """The pooling type of a header's number; None if it is missing or unknown to llama.cpp."""
    return POOLING_TYPES[number] if number is not None and 0 <= number < len(POOLING_TYPES) else None


def has_ranking_head(tensors: Collection[str]) -> bool:
    """Whether a model with these tensors scores texts."""
    return not _RANKING_HEAD.isdisjoint(tensors)
