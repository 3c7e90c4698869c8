"""One answer of a runtime to one prompt."""

from __future__ import annotations

from localllm.runtime.runtime import Answer, Runtime
from localllm.types import GenerationRequest, SamplingParams


async def complete(runtime: Runtime, model: str, prompt: str, params: SamplingParams) -> Answer:
    """The answer to a plain prompt."""
    (answer,) = await runtime.submit(model, [GenerationRequest(prompt=prompt, params=params)])
    return answer
