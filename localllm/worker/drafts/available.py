"""Refuses sources of guesses that a model does not have, and notes why nothing is guessed. Knows nothing of how tokens
are guessed."""

from __future__ import annotations

import msgspec

from localllm.errors import UnsupportedParameter
from localllm.types import LoadedModel, Speculative


def check_sources(wanted: Speculative, model: LoadedModel) -> None:
    """Raises `UnsupportedParameter` for a named source that this model does not have."""
    for source in wanted.sources or ():
        if source in ("draft", "mtp") and source not in model.sources:
            raise UnsupportedParameter(
                f"speculative.sources names {source}, but {_why_not(source, model)}; leave it out",
                param="speculative.sources",
            )


def without_drafts(model: LoadedModel, reason: str) -> LoadedModel:
    """The model after its draft model, or its own NextN layers, failed."""
    sources = tuple(source for source in model.sources if source not in ("draft", "mtp"))
    failed = f"it failed: {reason}"
    if "draft" in model.sources:
        return msgspec.structs.replace(model, sources=sources, draft="", draft_reason=failed)
    return msgspec.structs.replace(model, sources=sources, mtp_reason=failed)


def notes_on(wanted: Speculative, model: LoadedModel, *, takes_guesses: bool) -> tuple[str, ...]:
    """Why nothing is guessed for an answer, if its request has the field."""
    if not wanted.is_named or wanted.is_off:
        return ()
    if model.speculation == "off":
        return (f"speculative: nothing is guessed: {model.speculation_reason}",)
    return () if takes_guesses else ("speculative: nothing is guessed with mirostat",)


def _why_not(source: str, model: LoadedModel) -> str:
    if model.speculation == "off":
        return f"{model.id} guesses nothing: {model.speculation_reason}"
    if source == "draft":
        return f"{model.id} has no draft model" + (f": {model.draft_reason}" if model.draft_reason else "")
    if model.mtp_reason:
        return f"the NextN layers of {model.id} do not guess: {model.mtp_reason}"
    return f"{model.id} has no NextN layers"
