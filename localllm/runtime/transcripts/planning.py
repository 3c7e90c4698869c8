"""What a model is asked for the transcript of one sound: where it is cut, and a prompt for each part.

Knows no API's format and no sampling.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from localllm.chat.media_files import MediaReading
from localllm.errors import InvalidParameter, clipped
from localllm.runtime.runtime import Runtime
from localllm.runtime.transcripts.instructions import TASK_TOKENS, Wanted, prompt_of
from localllm.runtime.transcripts.parts import Growing, Part
from localllm.types import LoadedModel, Media, MediaFile

_WHAT = {"image": "picture", "video": "video", "document": "document"}
_LANGUAGE = re.compile(r"[A-Za-z]{2,20}([-_][A-Za-z]{2,8})?")


def check(wanted: Wanted) -> None:
    """Raises `InvalidParameter` for a language that could be more than that in a prompt."""
    if wanted.language and not _LANGUAGE.fullmatch(wanted.language):
        raise InvalidParameter(
            f"language must be a code or name such as de, got {clipped(wanted.language)!r}", param="language"
        )


def sound_of(data: bytes, param: str) -> tuple[Media, MediaFile]:
    """The file of a sound. Raises `InvalidParameter`."""
    reading = MediaReading()
    sound = reading.of(data, param, "audio")
    if sound.kind != "audio":
        raise InvalidParameter(f"{param} is no sound but a {_WHAT[sound.kind]}; send a recording", param=param)
    return sound, reading.files[0]


class Plan(NamedTuple):
    """`prompts`: the prompt of each part, as fields of `GenerationRequest`."""

    growing: Growing
    prompts: list[dict[str, Any]]


async def plan(
    runtime: Runtime,
    model_id: str,
    loaded: Callable[[], LoadedModel | None],
    sound: Media,
    file: MediaFile,
    wanted: Wanted,
) -> Plan:
    """Cuts the sound. `loaded`: the model, once it is loaded. Raises `InvalidParameter`, `UnsupportedParameter`."""
    cuts = await runtime.cut_sound(model_id, sound, file)
    model = loaded()
    projector = None if model is None else model.projector
    kind = "" if projector is None or projector.audio is None else projector.audio.type
    has_token = False
    if (token := TASK_TOKENS.get(kind)) is not None:
        has_token = len(await runtime.tokenize(model_id, token, add_special=False, parse_special=True)) == 1
    prompts = [
        prompt_of(kind, replace(sound, part_ms=part), wanted, has_task_token=has_token) for part in cuts.parts_ms
    ]
    growing = Growing(
        cuts.duration_ms / 1000,
        [Part(start / 1000, end / 1000) for start, end in cuts.parts_ms],
        prompts[0].begins_after if prompts else "",
    )
    return Plan(growing, [prompt.fields for prompt in prompts])
