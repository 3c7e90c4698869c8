"""All available models and what is known of each, the basis of every API's list. Knows no API's format."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from localllm.errors import LocalLLMError, ModelNotFound
from localllm.registry import resolve
from localllm.runtime.runtime import ModelDescription, among
from localllm.server.state import ServerState
from localllm.types import Capability, LoadedModel, MediaKind, ModelInfo, capabilities
from localllm.types.states import AvailableModel

MOST_WAIT_S = 2.0
"""Time limit for reading headers of new files; later lists include what this one omits."""
_THINKS = ("enable_thinking", "<think>", "reasoning_content", "thinking")
"""Strings that occur in templates of models that think."""


class Entry(NamedTuple):
    """One model: `loaded`, or on this machine and loaded on demand."""

    id: str
    created_unix_s: int
    loaded: LoadedModel | None
    available: AvailableModel | None
    info: ModelInfo | None
    """None if its file cannot be read or has not been read yet."""
    settings: Mapping[str, Any] = {}
    """The model's own settings."""
    reads: tuple[MediaKind, ...] = ()
    """What it reads beside text."""
    base: str | None = None
    """The id of the model that this is under adapters."""

    @property
    def ctx(self) -> int | None:
        """Maximum tokens of prompt and answer, or of a text to embed; None if not loaded."""
        if self.loaded is None:
            return None
        return self.loaded.ctx if self.loaded.slots else self.loaded.embedding_ctx or self.loaded.ctx

    @property
    def capabilities(self) -> list[Capability] | None:
        if self.loaded is not None:
            return of_loaded(self.loaded)
        return None if self.info is None else of_file(self.info, self.reads)

    @property
    def size_bytes(self) -> int:
        if self.available is not None and self.base is None:
            return self.available.size_bytes
        return 0 if self.loaded is None else self.loaded.info.size_bytes

    @property
    def quant(self) -> str | None:
        found = None if self.info is None else self.info.file_type
        return found or (None if self.available is None else self.available.quant)


async def entries(state: ServerState) -> list[Entry]:
    """Loaded models first, then those loaded on demand."""
    loaded = state.runtime.loaded()
    there = {model.id for model in loaded}
    available = {model.id: model for model in await state.listing.run(state.runtime.available)}
    under_adapters = [model for model in available.values() if model.base is not None]
    others = [model for model in available.values() if model.id not in there and model.base is None]
    described = await _described(state, others)
    found = [
        Entry(model.id, model.created_unix_s, model, available.get(model.id), model.info, reads=model.reads)
        for model in loaded
    ]
    for model in others:
        found.append(Entry(model.id, model.created_unix_s, None, model, None))
        if (of_file := described.get(model.id)) is not None:
            found[-1] = found[-1]._replace(info=of_file.info, reads=of_file.reads)
    bases = {each.id: each for each in found}
    for model in under_adapters:
        if (base := bases.get(model.base or "")) is not None:
            found.append(base._replace(id=model.id, created_unix_s=model.created_unix_s, available=model, base=base.id))
    return [each._replace(settings=state.own_settings(each.id)) for each in found]


async def entry(state: ServerState, name: str) -> Entry | None:
    """The model with that name or alias, if any."""
    found = {each.id: each for each in await entries(state)}
    name = state.aliased(name)
    if (meant := among(found, name)) is not None:
        return found[meant]
    base = state.runtime.adapters.base(name)
    meant = None if base == name else among(found, base)
    return None if meant is None else found[meant]._replace(id=name, base=meant)


async def missing(state: ServerState, name: str) -> ModelNotFound:
    """The error for a name that no model here has."""
    loaded = [model.id for model in state.runtime.loaded()]
    there = await state.listing.run(state.runtime.available)
    return resolve.unknown(name, [*dict.fromkeys([*loaded, *(model.id for model in there)])])


def of_loaded(model: LoadedModel) -> list[Capability]:
    """Capabilities of a loaded model."""
    return capabilities(
        generates=bool(model.slots),
        chats=can_chat(model),
        thinks=model.format.thinking != "never",
        ranks=model.pooling == "rank",
        reads=model.reads,
    )


def of_file(info: ModelInfo, reads: Collection[MediaKind] = ()) -> list[Capability]:
    """Capabilities of a model that is not loaded, as far as its file shows; none if it only guesses for another."""
    if info.draft_head is not None:
        return []
    return capabilities(
        generates=info.causal and not info.has_ranking_head,
        chats="default" in info.chat_templates,
        thinks=seems_to_think(info),
        ranks=info.has_ranking_head,
        reads=reads,
    )


def seems_to_think(info: ModelInfo) -> bool:
    """Whether a model thinks, judged by words in its template until it is loaded."""
    template = info.chat_templates.get("default", "")
    return any(word in template for word in _THINKS)


def can_chat(model: LoadedModel) -> bool:
    """Whether it supports chat."""
    return bool(model.slots) and "default" in model.info.chat_templates


async def _described(state: ServerState, models: list[AvailableModel]) -> dict[str, ModelDescription]:
    """Reads the files' headers; a slow read continues in the background for the next list."""

    async def read(model: AvailableModel) -> ModelDescription | None:
        try:
            return await state.runtime.described(model)
        except LocalLLMError:  # the file is missing or damaged: only its name is known
            return None

    if not models:
        return {}
    reading = {asyncio.ensure_future(read(model)): model.id for model in models}
    try:
        done, late = await asyncio.wait(reading, timeout=MOST_WAIT_S)
    except asyncio.CancelledError:
        for task in reading:
            task.cancel()
        raise
    for task in late:
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    found = {reading[task]: task.result() for task in done}
    return {id: each for id, each in found.items() if each is not None}
