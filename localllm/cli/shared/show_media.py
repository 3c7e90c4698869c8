"""What `localllm show` says of pictures and sound: what a model reads, and how much of its context that takes."""

from __future__ import annotations

from typing import Any

import msgspec

from localllm.cli.render.units import size
from localllm.planning.plan import context_of
from localllm.planning.projector_plan import PROCESS_BYTES, Companion, encoder_bytes
from localllm.settings.config import Settings
from localllm.types import ModelInfo, ProjectorInfo
from localllm.types.load_options import LoadOptions

NO_LIBRARY = "text only: the llama.cpp in use has no libmtmd; localllm runtime list shows what others have"


def as_media_object(companion: Companion) -> dict[str, Any] | None:
    """For scripts; None: it has no projector, or one that is not used."""
    if companion.projector is None:
        return None
    info: dict[str, Any] = msgspec.to_builtins(companion.projector.info)
    return {**info, "reads": companion.projector.info.reads, "need_bytes": encoder_bytes(companion.projector)}


def media_rows(
    settings: Settings, info: ModelInfo, options: LoadOptions, companion: Companion, file_name: str
) -> list[tuple[str, str]]:
    """The rows of a model that writes text. `file_name`: the projector's at its source; empty: as on disk."""
    from localllm.llama.probes.selftest import lacks_media

    if not info.causal:
        return []
    projector = companion.projector
    if projector is None:
        return [("input", f"text only: {companion.no_media}" if companion.is_unused else "text")]
    if lacks_media(settings.data_dir, settings.runtime):
        return [("input", NO_LIBRARY)]
    rows = [("input", ", ".join(["text", *_inputs(projector.info)]))]
    if projector.info.vision is not None:
        ctx = context_of(info, options)
        fitting = ctx // projector.info.vision.max_rows
        count = f"about {fitting:,}" if fitting else "none"
        smaller = "" if fitting else "; a larger --ctx or --image-max-tokens makes room"
        rows.append(("pictures", f"{count} of the largest in a context of {ctx:,} tokens{smaller}"))
    kinds = " and ".join(each.type for each in (projector.info.vision, projector.info.audio) if each is not None)
    parts = [file_name or projector.path.name, kinds, projector.info.file_type, size(projector.info.size_bytes)]
    need = size(encoder_bytes(projector) + PROCESS_BYTES)
    reserved = f"{need} are reserved by a load, and used from the first picture or sound on"
    rows.append(("projector", f"{', '.join(part for part in parts if part)}; {reserved}"))
    return rows


def _inputs(info: ProjectorInfo) -> list[str]:
    found = []
    if info.vision is not None:
        found.append(f"image (up to {info.vision.max_rows:,} tokens)")
        found += ["video"] * ("video" in info.reads)
    if info.audio is not None:
        rows = f"{info.audio.rows_per_s:.3g} tokens a second"
        found.append(f"audio ({info.audio.sample_rate_hz / 1000:g} kHz, {rows})")
    return found
