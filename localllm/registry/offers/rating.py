"""Rates downloadable models: their memory needs and predicted speed on this machine. Knows nothing of networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from localllm.errors import LocalLLMError
from localllm.planning.contexts import Memory, with_context
from localllm.planning.draft_plan import DraftModel
from localllm.planning.memory_fit import Fit, fit_in_memory
from localllm.planning.prediction import speeds
from localllm.planning.projector_plan import Projector, fitted, misfit, projector_bytes, with_rows
from localllm.planning.speeds import NotPredicted, Speed
from localllm.registry.sources.headers import Offer
from localllm.settings.config import Settings
from localllm.system import memory
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.load_options import LoadOptions


class RatedModel(NamedTuple):
    """A downloadable model with its rating."""

    offer: Offer
    fit: Fit | str
    """Whether it fits, or why that is unknown."""
    speed: Speed | NotPredicted


def rated(
    settings: Settings, offers: Sequence[Offer], devices: Sequence[DeviceInfo], *, may_measure: bool = True
) -> list[RatedModel]:
    """Rates the offers, in order. Blocks for about 0.2 s per tensor type not yet measured on this machine.

    With `may_measure` false (other work would distort a measurement), only speeds already known are used.
    """
    options, free_bytes = settings.load_options(), memory.available_memory()
    known = [one.info for one in offers if one.info is not None]
    predicted = iter(speeds(settings, options, known, devices, may_measure=may_measure))
    return [
        RatedModel(
            one,
            _fit_or_reason(one, options, devices, free_bytes),
            NotPredicted(one.why_not or "") if one.info is None else next(predicted),
        )
        for one in offers
    ]


def chosen_options(
    info: ModelInfo,
    options: LoadOptions,
    free_bytes: int | None,
    draft: DraftModel | None = None,
    projector: Projector | None = None,
) -> LoadOptions:
    """The options with the context that a load would choose, and the ubatch that the projector needs. Raises
    `LoadFailed` if the draft cannot guess for it."""
    free_bytes = None if free_bytes is None else free_bytes - projector_bytes(projector, options)
    return with_context(info, with_rows(options, projector), Memory(memory.total_memory(), free_bytes), draft)


def _fit_or_reason(
    one: Offer, options: LoadOptions, devices: Sequence[DeviceInfo], free_bytes: int | None
) -> Fit | str:
    if one.info is None:
        return one.why_not or "its header could not be read"
    try:
        projector = None
        if one.projector is not None and options.projector != "off" and not misfit(one.info, one.projector):
            projector = Projector(Path(), fitted(one.info, one.projector))
        wanted = chosen_options(one.info, options, free_bytes, projector=projector)
        return fit_in_memory(one.info, wanted, devices=devices, free_bytes=free_bytes, projector=projector)
    except LocalLLMError as error:
        return error.message
