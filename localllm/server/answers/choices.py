"""Several answers to one request: generated in parallel, the best chosen, streams merged, usage summed.

Answers to the same prompt are adjacent. Knows nothing of HTTP or the format of a choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from localllm.errors import InternalError
from localllm.runtime.runtime import Answer
from localllm.types import CallDelta, Delta, Finish, TokenLogprob, ToolCall, Usage, whole_calls

LARGE_LOGPROBS = 2000
"""Number of log-probabilities that take about ten milliseconds to serialize."""


class CompleteAnswer(NamedTuple):
    """One complete answer."""

    text: str
    finish: Finish
    logprobs: list[TokenLogprob]
    prompt_logprobs: Sequence[TokenLogprob] = ()
    thought: str = ""
    num_thought_logprobs: int = 0
    """How many of the log-probabilities, at the start, belong to the thought's tokens."""
    calls: tuple[ToolCall, ...] = ()
    notes: tuple[str, ...] = ()


async def collect(answers: Sequence[Answer]) -> list[CompleteAnswer]:
    """All answers, in order. Raises the error of the first that fails."""
    return [await _collect(answer) for answer in answers]  # the others are generated while one is awaited


async def _collect(answer: Answer) -> CompleteAnswer:
    pieces: list[str] = []
    thoughts: list[str] = []
    logprobs: list[TokenLogprob] = []
    prompt_logprobs: list[TokenLogprob] = []
    num_before_text: int | None = None
    calls, notes = list[CallDelta](), list[str]()
    async for _, delta in merged([answer]):
        if (delta.text or delta.calls) and num_before_text is None:
            num_before_text = len(logprobs)
        pieces.append(delta.text)
        thoughts.append(delta.thought)
        logprobs += delta.logprobs
        prompt_logprobs += delta.prompt_logprobs
        notes += delta.notes
        calls += delta.calls
        if delta.finish is not None:
            thought = "".join(thoughts)
            of_thought = (len(logprobs) if num_before_text is None else num_before_text) if thought else 0
            return CompleteAnswer(
                "".join(pieces),
                delta.finish,
                logprobs,
                prompt_logprobs,
                thought,
                of_thought,
                whole_calls(calls),
                tuple(notes),
            )
    raise AssertionError("`merged` does not end before the answer does")


def best(made: Sequence[CompleteAnswer], num_candidates: int, num_choices: int) -> list[CompleteAnswer]:
    """For each prompt, the candidates with the highest log-probability per token, as OpenAI defines `best_of`."""
    if num_candidates == num_choices:
        return list(made)
    chosen: list[CompleteAnswer] = []
    for start in range(0, len(made), num_candidates):
        candidates = made[start : start + num_candidates]
        chosen += sorted(candidates, key=_mean_logprob, reverse=True)[:num_choices]
    return chosen


def _mean_logprob(whole: CompleteAnswer) -> float:
    return sum(item.logprob for item in whole.logprobs) / max(1, len(whole.logprobs))


def is_large(made: Sequence[CompleteAnswer]) -> bool:
    """Whether serializing the answers would block the loop too long: log-probabilities are many objects."""
    lists = [items for whole in made for items in (whole.logprobs, whole.prompt_logprobs) if items]
    # The last entry, since the first token of a prompt has no alternatives.
    return sum(len(items) * (1 + len(items[-1].top)) for items in lists) > LARGE_LOGPROBS


OF_PROMPTS = frozenset(
    {
        "prompt_tokens", "cached_tokens", "image_tokens", "audio_tokens", "document_pages", "document_pages_omitted",
        "document_chars",
    }
)  # fmt: skip
"""Counts of `Usage` that answers to one prompt share."""


def usage(finishes: Sequence[Finish], num_candidates: int) -> Usage:
    """Each prompt counts once; every generated token counts."""
    answers = [finish.usage for finish in finishes]
    prompts = answers[::num_candidates]
    return Usage(
        *(
            sum(getattr(each, name) for each in (prompts if name in OF_PROMPTS else answers))
            for name in Usage.__struct_fields__
        )
    )


async def merged(answers: Sequence[Answer]) -> AsyncGenerator[tuple[int, Delta], None]:
    """The deltas of all answers as they arrive, each with its answer's index; the last of each has a finish.

    Raises the first error.
    """
    if len(answers) == 1:  # needs no tasks
        async for delta in answers[0]:
            yield 0, delta
            if delta.finish is not None:
                return
        raise _without_finish()
    awaited = {asyncio.ensure_future(answer.__anext__()): index for index, answer in enumerate(answers)}
    try:
        while awaited:
            done, _ = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                index = awaited.pop(task)
                try:
                    delta = task.result()
                except StopAsyncIteration:
                    raise _without_finish() from None
                if delta.finish is None:
                    awaited[asyncio.ensure_future(answers[index].__anext__())] = index
                yield index, delta
    finally:
        for task in awaited:
            task.cancel()
        await asyncio.gather(*awaited, return_exceptions=True)


def _without_finish() -> InternalError:
    return InternalError("the answer ended without a finish reason")
