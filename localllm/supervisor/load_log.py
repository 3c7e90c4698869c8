"""What is logged about a loaded model. Knows nothing of processes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from localllm.planning.plan import CTX_STEP
from localllm.types import DeviceInfo, LoadedModel
from localllm.types.load_options import LoadOptions


class Change(NamedTuple):
    """An option that has another value than asked for."""

    option: str
    asked: int
    used: int
    reason: str


def changed_options(model: LoadedModel, options: LoadOptions, asked_ctx: int | None) -> Iterator[Change]:
    """The options that the model was loaded with otherwise."""
    if not model.info.causal:
        if options.ctx is not None:
            yield Change("ctx", options.ctx, model.embedding_ctx, "for an encoder, embedding_ctx counts")
        return
    if asked_ctx is not None and asked_ctx != model.ctx:
        yield Change("ctx", asked_ctx, model.ctx, "llama.cpp's step is 256")
    if options.kv_cells is not None and options.kv_cells % CTX_STEP:
        yield Change(
            "kv_cells", options.kv_cells, -(-options.kv_cells // CTX_STEP) * CTX_STEP, "llama.cpp's step is 256"
        )
    if options.ubatch is not None and 0 < model.ubatch < options.ubatch:
        yield Change("ubatch", options.ubatch, model.ubatch, "without flash attention, more would take too much memory")


logger = logging.getLogger("localllm")


def log_load(model: LoadedModel, options: LoadOptions, *, chose_ctx: bool = False) -> None:
    """Log its context, if it has slots, which options have other values than asked for, why it has no draft model, if
    one was requested, and its chat format, if it chats. `chose_ctx`: the context of `options` is by memory."""
    asked_ctx = None if chose_ctx else options.ctx
    if model.info.causal:
        fields = {"model": model.id, "ctx": model.ctx, "slots": model.slots}
        logger.info("context", extra={"fields": fields | ({"chosen": "by memory"} if asked_ctx is None else {})})
    for change in changed_options(model, options, asked_ctx):
        logger.warning("option_changed", extra={"fields": {"model": model.id, **change._asdict()}})
    if model.draft_reason:
        logger.warning("no_draft", extra={"fields": {"model": model.id, "reason": model.draft_reason}})
    if "default" in model.info.chat_templates:
        found = model.format
        how = {"model": model.id, "format": found.name, "origin": found.origin}
        logger.info("chat_format", extra={"fields": how | ({"note": found.note} if found.note else {})})


def log_devices(model_id: str, absent: Iterable[str], devices: Iterable[DeviceInfo]) -> None:
    """Log why backends are absent, and which of these devices are not used by themselves."""
    for reason in absent:
        logger.warning("backend_not_loaded", extra={"fields": {"model": model_id, "reason": reason}})
    for device in devices:
        if not device.is_automatic:
            fields = {"model": model_id, "device": device.name, "reason": device.trial}
            logger.warning("device_not_used", extra={"fields": fields})
