"""The transcript of one sound for a Python program. Knows no loading and no time limit."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from localllm.errors import InvalidParameter
from localllm.llm.arguments import check_callback, transcript_request
from localllm.llm.events import guarded
from localllm.llm.keywords import TranscribeArguments
from localllm.llm.pictures import bytes_of
from localllm.runtime.runtime import Answer, Runtime
from localllm.runtime.transcripts.instructions import Wanted
from localllm.runtime.transcripts.parts import in_order
from localllm.runtime.transcripts.planning import check, plan, sound_of
from localllm.types import GenerationRequest, LoadedModel
from localllm.types.transcripts import Transcript

SOUND = "sound"


async def transcribed(
    runtime: Runtime, loaded: Callable[[], LoadedModel], given: object, asked: TranscribeArguments
) -> Transcript:
    """`given`: the path of a file, or its bytes. Raises as `AsyncLLM.transcribe`."""
    on_segment = asked["on_segment"]
    check_callback("on_segment", on_segment)
    told = None if on_segment is None else guarded("on_segment", on_segment)
    fields, model_id, slots = transcript_request(asked), loaded().id, loaded().slots
    sound, file = sound_of(_bytes_of(given), SOUND)
    wanted = Wanted(
        "translate" if asked["translate"] else "transcribe", _text("prompt", asked), _text("language", asked)
    )
    check(wanted)
    growing, prompts = await plan(runtime, model_id, loaded, sound, file, wanted)
    requests = [GenerationRequest(media=(file,), **fields, **prompt) for prompt in prompts]

    async def ask(request: GenerationRequest) -> Answer:
        (answer,) = await runtime.submit(model_id, [request])
        return answer

    if requests:
        async with aclosing(in_order(await ask(requests[0]), requests[1:], ask, width=max(1, slots))) as deltas:
            async for index, delta in deltas:
                growing.feed(index, delta)
                if delta.finish is not None and told is not None:
                    told(growing.segment(index))
    return growing.whole()


def _bytes_of(given: object) -> bytes:
    if isinstance(given, str | os.PathLike):
        return bytes_of(Path(given), SOUND)
    if not isinstance(given, bytes | bytearray | memoryview):
        raise InvalidParameter(
            f"{SOUND} must be the path of a file, or its bytes, got {type(given).__name__}", param=SOUND
        )
    return bytes(given)


def _text(name: str, asked: Any) -> str:
    value = asked[name]
    if value is not None and not isinstance(value, str):
        raise InvalidParameter(f"{name} must be a string or None, got {type(value).__name__}", param=name)
    return value or ""
