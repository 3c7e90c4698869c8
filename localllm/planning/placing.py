"""Which layers go to which device, and what each device then holds: pure functions of sizes, free memory and options.

llama.cpp puts the last layers on devices, the lowest of those on the first device, and the output head, which counts as
one more layer, on the last. The token embedding stays on the CPU. Knows nothing of contexts and slots.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter
from localllm.gguf.rules.products import EXPERTS, LOOKED_UP_BY_TOKEN
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.devices import Split
from localllm.types.placement import DeviceShare

CPU = "CPU"
DRIVER_BYTES = 128 * 1024 * 1024
"""Memory of each GPU that its driver and backend take, unknown from headers. An allowance, not a measurement."""
_BLOCK = re.compile(r"blk\.(\d{1,4})\.")
_EXPERTS = re.compile(EXPERTS)


class Sizes(NamedTuple):
    """Bytes of a model's weights, grouped by what decides where they go."""

    layers: tuple[int, ...]
    reading: int
    """The embedding and other tensors that stay on the CPU."""
    output: int
    output_copy: int
    """The embedding a second time, if it also serves as the output head and that is on another device."""
    moved: dict[str, int]
    """Device -> bytes sent there by `override_tensor`."""
    experts: tuple[int, ...] = ()
    """Those of each layer's bytes that are experts; 0 for a layer without any."""
    largest_experts: int = 0
    """The largest tensor of experts."""


class Demand(NamedTuple):
    """What a placement must hold, in bytes."""

    sizes: Sizes
    kept: Sequence[int]
    """Keys, values and states, per layer."""
    compute: int
    """Compute buffer of a device if GPUs compute all layers."""
    compute_partly: int
    """Compute buffer of a device if the CPU has layers too, whose weights are copied to the device for long prompts."""
    compute_experts: int
    """Compute buffer of a device if it has all layers, but experts are copied to it for long prompts."""
    compute_output: int
    """Compute buffer of a device that has only the output head."""
    host: int
    """Buffers of the CPU if devices compute."""
    copies: int
    """Copies of a step's inputs on the first of several devices: llama.cpp prepares the next ubatches meanwhile."""
    copies_later: int
    """Such copies on each device after the first."""
    copies_host: int
    """Such copies in main memory."""
    host_alone: int
    """Compute buffer of the CPU if it computes alone."""
    outputs: int
    """Logits, in main memory."""
    expert_cache: int = 0
    """What GPUs together may keep of experts that stay on the CPU."""


class Wish(NamedTuple):
    """How layers are to be split."""

    split: Split = "layer"
    shares: tuple[float, ...] | None = None


class PlacingResult(NamedTuple):
    """A resulting placement."""

    counts: tuple[int, ...]
    """Layers on each GPU."""
    shares: tuple[DeviceShare, ...]
    """One per GPU in order, then the CPU's."""
    cpu_experts: tuple[int, ...] = ()
    """Layers on GPUs whose experts stay on the CPU."""
    device_experts: int = 0
    """Number of layers whose experts were put on GPUs for want of a reason to keep them (`planning.experts`)."""

    @property
    def layers(self) -> int:
        return sum(self.counts)


def sizes_of(info: ModelInfo, overrides: Mapping[str, str] | Sequence[tuple[str, str]] = ()) -> Sizes:
    """Sizes of the weights. Raises `InvalidParameter` for a pattern of `overrides` that matches no tensor's name."""
    pairs = [(re.compile(pattern), device) for pattern, device in dict(overrides).items()]
    if not info.tensors:  # a file that is not downloaded yet, or a test
        return Sizes(tuple(info.layer_bytes), info.other_bytes, 0, info.other_bytes, {})
    experts, largest = [0] * info.num_layers, 0
    layers, reading, output, found = [0] * info.num_layers, 0, 0, dict.fromkeys(dict(overrides), False)
    moved: dict[str, int] = {}
    for name, size in info.tensors.items():
        hit = next(((pattern, device) for pattern, device in pairs if pattern.search(name)), None)
        block = _BLOCK.match(name)
        if hit is not None:
            found[hit[0].pattern] = True
            moved[hit[1]] = moved.get(hit[1], 0) + size
        elif block is not None and int(block[1]) < info.num_layers:
            layers[int(block[1])] += size
            if _EXPERTS.match(name, block.end() - 1):
                experts[int(block[1])] += size
                largest = max(largest, size)
        elif name.startswith(LOOKED_UP_BY_TOKEN):
            reading += size
        else:
            output += size
    for pattern, is_found in found.items():
        if not is_found and not any(re.search(pattern, name) for name in info.tensors):
            some = ", ".join(list(info.tensors)[1:4])
            raise InvalidParameter(
                f"override_tensor: no tensor's name matches {pattern!r}; names look like {some}",
                param="override_tensor",
            )
    is_tied = info.causal and "output.weight" not in info.tensors
    copy = info.tensors.get("token_embd.weight", 0) if is_tied else 0
    return Sizes(tuple(layers), reading, output, copy, moved, tuple(experts), largest)


def fit_layers(
    demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, most: int, cpu_experts: Collection[int] = ()
) -> PlacingResult:
    """As many of the last `most` layers as free memory holds; none if not even the output head fits.

    `cpu_experts`: layers whose experts stay on the CPU, wherever the layer is.
    """
    for count in range(most if gpus else 0, 0, -1):
        placed = next((one for one in ways(demand, gpus, wish, count, cpu_experts) if fits(one, gpus)), None)
        if placed is not None:
            return placed
    return place(demand, gpus, wish, (0,) * len(gpus))


def put_layers(
    demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, count: int, cpu_experts: Collection[int] = ()
) -> PlacingResult:
    """Exactly `count` layers, split as they fit best; they are placed even if they do not fit."""
    if not count:
        return place(demand, gpus, wish, (0,) * len(gpus))
    found = list(ways(demand, gpus, wish, count, cpu_experts))
    return next((one for one in found if fits(one, gpus)), found[0])


def fits(placed: PlacingResult, gpus: Sequence[DeviceInfo]) -> bool:
    """Whether each device has room for its share. Devices that share a memory share its room."""
    need: dict[str, int] = {}
    room: dict[str, int] = {}
    for share, gpu in zip(placed.shares, gpus, strict=False):
        if share.total:
            need[gpu.memory_key] = need.get(gpu.memory_key, 0) + share.total + DRIVER_BYTES
            room[gpu.memory_key] = gpu.free_bytes
    return all(need[key] <= room[key] for key in need)


def ways(
    demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, count: int, cpu_experts: Collection[int] = ()
) -> Iterator[PlacingResult]:
    """Placements to try: the requested shares; else in proportion to free memory, then filling device by device."""
    if wish.shares is not None or len(gpus) < 2:
        yield place(demand, gpus, wish, divided(count, wish.shares or (1.0,) * len(gpus)), cpu_experts)
        return
    rooms = [max(0, gpu.free_bytes - demand.compute - DRIVER_BYTES) for gpu in gpus]
    by_room = [float(room) for room in rooms] if any(rooms) else [1.0] * len(gpus)
    yield place(demand, gpus, wish, divided(count, by_room), cpu_experts)
    yield place(demand, gpus, wish, _filled(demand, rooms, count), cpu_experts)


def divided(count: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Layers of each device, divided as llama.cpp does it (llama-model.cpp, load_tensors)."""
    whole = sum(shares)
    ends = [end / whole for end in accumulate(shares)]
    counts = [0] * len(shares)
    for layer in range(count):
        counts[next((index for index, end in enumerate(ends) if layer / count < end), len(shares) - 1)] += 1
    return tuple(counts)


def _filled(demand: Demand, rooms: Sequence[int], count: int) -> tuple[int, ...]:
    costs = _costs(demand)[-count:]
    counts = [0] * len(rooms)
    device, used = 0, 0
    for cost in costs:
        while device < len(rooms) - 1 and used + cost > rooms[device]:
            device, used = device + 1, 0
        counts[device] += 1
        used += cost
    return tuple(counts)


def _costs(demand: Demand) -> list[int]:
    sizes = demand.sizes
    blocks = [weights + kept for weights, kept in zip(sizes.layers, demand.kept, strict=True)]
    return [*blocks, sizes.output + sizes.output_copy]


def place(
    demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, counts: Sequence[int], cpu_experts: Collection[int] = ()
) -> PlacingResult:
    """What each device holds with this many layers on each."""
    sizes, every, on_gpus = demand.sizes, len(demand.sizes.layers) + 1, sum(counts)
    if wish.split in ("row", "tensor") and on_gpus:
        return _in_parallel(demand, gpus, wish, counts)
    shares: list[DeviceShare] = []
    first = every - on_gpus
    away = sorted(block for block in cpu_experts if block >= first and sizes.experts[block])
    caches = _expert_caches(demand, counts, away)
    is_pipelined = on_gpus == every and sum(map(bool, counts)) > 1 and not sizes.moved and not away
    for gpu, count, cache in zip(gpus, counts, caches, strict=True):
        end = first + count
        has_output = count > 0 and end == every
        weights = sum(sizes.layers[first:end]) + sizes.moved.get(gpu.name, 0)
        weights += cache - sum(sizes.experts[block] for block in away if first <= block < end)
        if has_output:
            weights += sizes.output + sizes.output_copy
        compute = 0
        if count == 1 and has_output and any(share.layers for share in shares):
            compute = demand.compute_output
        elif count or gpu.name in sizes.moved:
            compute = demand.compute_partly if on_gpus < every else demand.compute_experts if away else demand.compute
            if is_pipelined:
                compute += demand.copies if not any(share.layers for share in shares) else demand.copies_later
        shares.append(DeviceShare(gpu.name, count, weights, sum(demand.kept[first:end]), compute))
        first = end
    cpu = _cpu_share(demand, every - on_gpus, uses_gpus=any(share.total for share in shares))
    cpu = msgspec.structs.replace(cpu, weights=cpu.weights + sum(sizes.experts[block] for block in away))
    if is_pipelined:
        cpu = msgspec.structs.replace(cpu, compute=cpu.compute + demand.copies_host)
    return PlacingResult(tuple(counts), (*shares, cpu), tuple(away))


def _expert_caches(demand: Demand, counts: Sequence[int], away: Collection[int]) -> list[int]:
    """Bytes of each GPU's expert cache: its part of the whole by its layers, and at most all experts of its layers that
    are away (llama-moe-cache.cpp)."""
    sizes, first = demand.sizes, len(demand.sizes.layers) + 1 - sum(counts)
    most: list[int] = []
    for count in counts:
        most.append(sum(sizes.experts[block] for block in away if first <= block < first + count))
        first += count
    parts = [count if there else 0 for count, there in zip(counts, most, strict=True)]
    return [
        min(there, demand.expert_cache * part // max(sum(parts), 1)) for part, there in zip(parts, most, strict=True)
    ]


def _in_parallel(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, counts: Sequence[int]) -> PlacingResult:
    """Each device has its share of every layer; with split row the cache is still divided by layers."""
    sizes, on_gpus = demand.sizes, sum(counts)
    first = len(sizes.layers) + 1 - on_gpus
    weights = sum(sizes.layers[first:]) + sizes.output + sizes.output_copy
    kept = sum(demand.kept[first:])
    parts = wish.shares or (1.0,) * len(gpus)
    shares = tuple(
        DeviceShare(
            gpu.name,
            count,
            int(weights * part / sum(parts)) + sizes.moved.get(gpu.name, 0),
            int(kept * part / sum(parts)),
            demand.compute if first == 0 else demand.compute_partly,
        )
        for gpu, count, part in zip(gpus, counts, parts, strict=True)
    )
    return PlacingResult(tuple(counts), (*shares, _cpu_share(demand, first, uses_gpus=True)))


def _cpu_share(demand: Demand, layers: int, *, uses_gpus: bool) -> DeviceShare:
    sizes = demand.sizes
    has_output = layers == len(sizes.layers) + 1
    return DeviceShare(
        CPU,
        layers,
        sum(sizes.layers[:layers]) + sizes.reading + (sizes.output if has_output else 0) + sizes.moved.get(CPU, 0),
        sum(demand.kept[:layers]),
        (demand.host if uses_gpus else demand.host_alone) + demand.outputs,
    )
