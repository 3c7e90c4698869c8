"""Predicted speeds as a sentence, as table cells and as an object. Knows nothing of how they are predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from localllm.planning.speeds import NotPredicted, Speed


def speed_sentence(speed: Speed | NotPredicted) -> str:
    """`About 32 tokens/s (27 to 37), prompts 114 tokens/s (97 to 131), predicted for one answer at a time.`"""
    if isinstance(speed, NotPredicted):
        return f"Its speed is not predicted: {speed.reason}."
    answer, prompt = (_range(each, speed.error) for each in (speed.answer_tokens_per_s, speed.prompt_tokens_per_s))
    return f"About {answer}, prompts {prompt}: predicted for one answer at a time."


def speed_cells(speed: Speed | NotPredicted) -> tuple[str, str]:
    """The cells for answers and for prompts."""
    if isinstance(speed, NotPredicted):
        return "?", "?"
    answer, prompt = (
        _give_or_take(each, speed.error) for each in (speed.answer_tokens_per_s, speed.prompt_tokens_per_s)
    )
    return answer, prompt


def why_no_speed(speeds: Sequence[Speed | NotPredicted]) -> Iterator[str]:
    """One line per distinct reason."""
    for reason in dict.fromkeys(each.reason for each in speeds if isinstance(each, NotPredicted) and each.reason):
        yield f"Some speeds (?) are not predicted: {reason}."


def speed_object(speed: Speed | NotPredicted) -> dict[str, Any]:
    """For scripts."""
    if isinstance(speed, NotPredicted):
        return {"answer_tokens_per_s": None, "prompt_tokens_per_s": None, "error": None, "why_not": speed.reason}
    return {
        "answer_tokens_per_s": round(speed.answer_tokens_per_s, 2),
        "prompt_tokens_per_s": round(speed.prompt_tokens_per_s, 2),
        "error": round(speed.error, 3),
        "why_not": None,
    }


def _range(tokens_per_s: float, error: float) -> str:
    low, high = tokens_per_s * (1 - error), tokens_per_s * (1 + error)
    return f"{_number(tokens_per_s)} tokens/s ({_number(low)} to {_number(high)})"


def _give_or_take(tokens_per_s: float, error: float) -> str:
    return f"{_number(tokens_per_s)} ± {_number(tokens_per_s * error)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
