"""Suggestions for the name of a model that is not among the known ones. Knows nothing of where models come from."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from localllm.errors import ModelNotFound, clipped

MAX_NAMED = 3
"""Names in an error message."""
MAX_COMPARED_CHARS = 200


def similar(name: str, here: Collection[str]) -> list[str]:
    """The few models whose names are most like it, or contain it."""
    typed, by_lower = name.lower(), {id.lower(): id for id in here}
    close = difflib.get_close_matches(typed, by_lower, MAX_NAMED) if len(name) <= MAX_COMPARED_CHARS else []
    longer = [id for id in by_lower if len(typed) > 1 and typed in id]
    return [by_lower[id] for id in dict.fromkeys([*close, *longer])][:MAX_NAMED]


def listed(here: Collection[str]) -> str:
    """The first few of these names."""
    return ", ".join([*here][:MAX_NAMED]) + (", ..." if len(here) > MAX_NAMED else "")


def not_loaded(name: str, loaded: Collection[str]) -> ModelNotFound:
    """The error for a name that is none of the loaded models."""
    meant = similar(name, loaded)
    remedy = f"did you mean {' or '.join(meant)}?" if meant else f"loaded: {listed(loaded) or 'no model'}"
    return ModelNotFound(f"the model {clipped(name)!r} is not loaded; {remedy}", param="model")
