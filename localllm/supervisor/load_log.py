"""What the log says of a model that is loaded. Knows nothing of processes."""

from __future__ import annotations

import logging

from localllm.types import LoadedModel

logger = logging.getLogger("localllm")


def log_load(model: LoadedModel, *, chose_ctx: bool) -> None:
    """How long its slots are, if it has any, and how it writes, if it chats. `chose_ctx`: nobody asked for them."""
    if model.info.causal:
        fields = {"model": model.id, "ctx": model.ctx, "slots": model.slots}
        logger.info("context", extra={"fields": fields | ({"chosen": "by memory"} if chose_ctx else {})})
    if "default" in model.info.chat_templates:
        found = model.format
        how = {"model": model.id, "format": found.name, "origin": found.origin}
        logger.info("chat_format", extra={"fields": how | ({"note": found.note} if found.note else {})})
