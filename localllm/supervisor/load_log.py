"""What is logged about a loaded model. Knows nothing of processes."""

from __future__ import annotations

import logging

from localllm.types import LoadedModel

logger = logging.getLogger("localllm")


def log_load(model: LoadedModel, *, asked_ctx: int | None) -> None:
    """Log its context, if it has slots, why it has no draft model, if one was requested, and its chat format, if it
    chats. `asked_ctx`: the requested context; None: none was."""
    if model.info.causal:
        fields = {"model": model.id, "ctx": model.ctx, "slots": model.slots}
        logger.info("context", extra={"fields": fields | ({"chosen": "by memory"} if asked_ctx is None else {})})
        if asked_ctx not in (None, model.ctx):
            rounded = {"model": model.id, "asked": asked_ctx, "ctx": model.ctx, "reason": "llama.cpp's step is 256"}
            logger.warning("context_rounded", extra={"fields": rounded})
    if model.draft_reason:
        logger.warning("no_draft", extra={"fields": {"model": model.id, "reason": model.draft_reason}})
    if "default" in model.info.chat_templates:
        found = model.format
        how = {"model": model.id, "format": found.name, "origin": found.origin}
        logger.info("chat_format", extra={"fields": how | ({"note": found.note} if found.note else {})})
