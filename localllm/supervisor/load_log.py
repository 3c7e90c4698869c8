"""What is logged about a loaded model. Knows nothing of processes."""

from __future__ import annotations

import logging

from localllm.types import LoadedModel

logger = logging.getLogger("localllm")


def log_load(model: LoadedModel, *, chose_ctx: bool) -> None:
    """Log its context, if it has slots, why it has no draft model, if one was requested, and its chat format, if it
    chats. `chose_ctx`: no context was requested."""
    if model.info.causal:
        fields = {"model": model.id, "ctx": model.ctx, "slots": model.slots}
        logger.info("context", extra={"fields": fields | ({"chosen": "by memory"} if chose_ctx else {})})
    if model.draft_reason:
        logger.warning("no_draft", extra={"fields": {"model": model.id, "reason": model.draft_reason}})
    if "default" in model.info.chat_templates:
        found = model.format
        how = {"model": model.id, "format": found.name, "origin": found.origin}
        logger.info("chat_format", extra={"fields": how | ({"note": found.note} if found.note else {})})
