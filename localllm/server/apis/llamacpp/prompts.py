"""Converts prompts and biases with mixed texts, media and tokens for the runtime.

A lone text stays a text; mixtures of texts and tokens become tokens, and only a text at the start gets the model's BOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from localllm.errors import InvalidParameter
from localllm.runtime.runtime import Runtime
from localllm.server.apis.llamacpp.completion_requests import AnswerFields, PromptText
from localllm.server.requests.biases import FORBIDS, MAX_DIGITS
from localllm.server.requests.marked_prompts import MarkedPrompt


async def source_of(runtime: Runtime, model: str, prompt: PromptText) -> dict[str, Any]:
    """The prompt, as fields of `GenerationRequest`. Raises as `Runtime.tokenize`."""
    if isinstance(prompt, str):
        return {"prompt": prompt}
    if isinstance(prompt, MarkedPrompt):
        return prompt.source()
    return {"prompt_tokens": tuple(await tokens_of(runtime, model, prompt))}


async def tokens_of(
    runtime: Runtime, model: str, items: Sequence[str | int], *, add_special: bool = True, parse_special: bool = True
) -> list[int]:
    """The tokens of texts and tokens. Raises as `Runtime.tokenize`."""
    tokens: list[int] = []
    for number, item in enumerate(items):
        if isinstance(item, int):
            tokens.append(item)
        else:
            is_first = add_special and number == 0
            tokens += await runtime.tokenize(model, item, add_special=is_first, parse_special=parse_special)
    return tokens


async def with_biased_tokens(runtime: Runtime, model: str, body: AnswerFields) -> AnswerFields:
    """The request with each text's bias applied to its tokens. Raises `InvalidParameter`.

    Repeated biases of a token are added, as in llama.cpp, and clamped to the allowed range.
    """
    given = body.logit_bias
    if not given:
        return body
    sums: dict[int | str, float] = {}
    for key, bias in given.items() if isinstance(given, dict) else given:
        if bias is True:
            raise InvalidParameter("logit_bias: give a number, or false to forbid the token", param="logit_bias")
        number = FORBIDS if bias is False else bias
        for token in await _tokens_of(runtime, model, key):
            total = sums.get(token, 0.0) + number
            sums[token] = min(max(total, FORBIDS), -FORBIDS) if abs(number) <= -FORBIDS else number
    return msgspec.structs.replace(body, logit_bias=list(sums.items()))


async def _tokens_of(runtime: Runtime, model: str, key: int | str) -> list[int]:
    if isinstance(key, int):
        return [key]
    if key.isdecimal() and len(key) <= MAX_DIGITS:
        return [int(key)]
    return await runtime.tokenize(model, key, add_special=False, parse_special=False)
