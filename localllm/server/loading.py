"""Loads the models that a command line names. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.adapters.names import parse_all_given
from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings


async def load_all(
    runtime: Runtime, models: Sequence[str], settings: Settings, on_progress: Callable[[float], None]
) -> str | None:
    """Returns the first model's id, or its name with adapters; None without models.

    The first one gets the adapters of the settings. on_progress: from 0 to 1 for all of them together. Raises what
    loading raises.
    """
    given = parse_all_given(settings.lora, settings.control_vector)
    if given and not models:
        raise InvalidParameter(
            "--lora and --control-vector are for the first model of the command line; name it", param="lora"
        )
    names = []
    for number, model in enumerate(models):
        loaded = await runtime.load(model, on_progress=_part(number, len(models), on_progress))
        if number == 0:
            await runtime.adapters.give(loaded.id, Path(loaded.path), given)
        names.append(runtime.adapters.shown(model, loaded.id))
    return names[0] if names else None


def _part(number: int, count: int, on_progress: Callable[[float], None]) -> Callable[[float], None]:
    """Takes one model's progress."""
    return lambda fraction: on_progress((number + fraction) / count)
