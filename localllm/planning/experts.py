"""Where a mixture's experts go: into main memory while the rest of their layers is on devices.

A token needs few of a layer's experts and all of its attention, so attention is worth a device's memory first; experts
get what is left, layer by layer from the last. Knows no options.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from localllm.gguf.rules.products import EXPERTS
from localllm.planning.placing import CPU, Demand, PlacingResult, Wish, fit_layers, fits, place, ways
from localllm.types import DeviceInfo

_SPLITS = ("layer", "none")
"""Splits in which a layer is on one device."""


def fit_experts(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, most: int | None) -> PlacingResult:
    """Whole layers if all of them fit; else as many layers as fit without their experts, and then experts.

    `most`: upper bound for layers and layers with experts together, after a device ran out of memory.
    """
    sizes = demand.sizes
    every, mixtures = len(sizes.layers) + 1, [block for block, size in enumerate(sizes.experts) if size]
    if not mixtures or wish.split not in _SPLITS:
        return fit_layers(demand, gpus, wish, every if most is None else min(most, every))
    if most is None or most >= every + len(mixtures):
        whole = fit_layers(demand, gpus, wish, every)
        if whole.layers == every or not gpus:
            return whole._replace(device_experts=len(mixtures) if whole.layers else 0)
    without = fit_layers(demand, gpus, wish, every if most is None else min(most, every), mixtures)
    if without.layers < every:
        return without
    room = len(mixtures) if most is None else most - every
    fuller = (
        _filled(demand, gpus, wish, counts.counts, room)
        for counts in ways(demand, gpus, wish, every, mixtures)
        if fits(counts, gpus)
    )
    fullest = min(fuller, key=lambda placed: len(placed.cpu_experts))
    return fullest._replace(device_experts=len(mixtures) - len(fullest.cpu_experts))


def _filled(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, counts: Sequence[int], room: int) -> PlacingResult:
    """All layers, divided so, with the experts of as many of them as fit, at most `room`."""
    away = {block for block, size in enumerate(demand.sizes.experts) if size}
    placed = place(demand, gpus, wish, counts, away)
    for block in sorted(away, reverse=True):
        if room == 0:
            break
        tried = place(demand, gpus, wish, counts, away - {block})
        if fits(tried, gpus):
            placed, away, room = tried, away - {block}, room - 1
    return placed


def overrides_of_experts(blocks: Collection[int]) -> dict[str, str]:
    """What keeps the experts of these blocks on the CPU, as `tensor_buft_overrides`."""
    if not blocks:
        return {}
    return {rf"blk\.({'|'.join(map(str, sorted(blocks)))}){EXPERTS}": CPU}
