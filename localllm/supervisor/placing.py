"""Which layers go to which device, and what each then holds: pure functions of sizes, free bytes and wishes.

llama.cpp gives the last layers to devices, the first device the lowest of those, and the output head, which counts as
one layer more, to the last. What reads tokens (the embedding) stays on the CPU. Knows nothing of contexts and slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.devices import Split
from localllm.worker.messages import DeviceShare

CPU = "CPU"
DRIVER_BYTES = 128 * 1024 * 1024
"""Of each GPU, for what its driver and backend keep, which no header tells. An allowance, not a measurement."""
_BLOCK = re.compile(r"blk\.(\d{1,4})\.")
_READS_TOKENS = ("token_embd.", "position_embd.", "token_types.", "per_layer_token_embd.")


class Sizes(NamedTuple):
    """Bytes of a model's weights, by what decides where they go."""

    layers: tuple[int, ...]
    reading: int
    """Of the embedding and what else stays on the CPU."""
    output: int
    output_copy: int
    """Of the embedding again, where it is the output head as well and that is elsewhere."""
    moved: dict[str, int]
    """Device -> what is there by name."""


class Demand(NamedTuple):
    """What a placement has to hold."""

    sizes: Sizes
    kept: Sequence[int]
    """Keys, values and states, layer by layer."""
    compute: int
    """On each device that computes all layers or its part of all."""
    compute_partly: int
    """On each where the CPU has layers as well: theirs are brought over for long prompts."""
    compute_output: int
    """On one that has the output head alone."""
    host: int
    """On the CPU, where devices compute."""
    copies: int
    """Of a step's inputs, where llama.cpp prepares the next ubatches' while several devices compute."""
    copies_later: int
    """The same on a device that others compute before."""
    host_alone: int
    """On the CPU, where it computes alone."""
    outputs: int
    """Logits, in main memory."""


class Wish(NamedTuple):
    """How layers are divided."""

    split: Split = "layer"
    shares: tuple[float, ...] | None = None


class Placed(NamedTuple):
    """An answer."""

    counts: tuple[int, ...]
    """Layers on each GPU."""
    shares: tuple[DeviceShare, ...]
    """Of the GPUs in their order, the CPU's last."""

    @property
    def layers(self) -> int:
        return sum(self.counts)


def sizes_of(info: ModelInfo, overrides: Mapping[str, str] | Sequence[tuple[str, str]] = ()) -> Sizes:
    """Raises `InvalidParameter` for a pattern (of `overrides`, each with its device) that no tensor's name has."""
    pairs = [(re.compile(pattern), device) for pattern, device in dict(overrides).items()]
    if not info.tensors:  # of a file that is not there yet, or of a test
        return Sizes(tuple(info.layer_bytes), info.other_bytes, 0, info.other_bytes, {})
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
        elif name.startswith(_READS_TOKENS):
            reading += size
        else:
            output += size
    for pattern, is_found in found.items():
        if not is_found and not any(re.search(pattern, name) for name in info.tensors):
            some = ", ".join(list(info.tensors)[1:4])
            raise InvalidParameter(
                f"override_tensor: no tensor's name has {pattern!r}; they are called as {some}", param="override_tensor"
            )
    is_tied = info.causal and "output.weight" not in info.tensors
    return Sizes(tuple(layers), reading, output, info.tensors.get("token_embd.weight", 0) if is_tied else 0, moved)


def fit_layers(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, most: int) -> Placed:
    """As many of the last `most` layers as the free memory holds; none of them, where not even the output head fits."""
    for count in range(most if gpus else 0, 0, -1):
        placed = next((one for one in _ways(demand, gpus, wish, count) if fits(one, gpus)), None)
        if placed is not None:
            return placed
    return place(demand, gpus, wish, (0,) * len(gpus))


def put_layers(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, count: int) -> Placed:
    """So many, divided as they fit best; whether they fit is not asked."""
    if not count:
        return place(demand, gpus, wish, (0,) * len(gpus))
    ways = list(_ways(demand, gpus, wish, count))
    return next((one for one in ways if fits(one, gpus)), ways[0])


def fits(placed: Placed, gpus: Sequence[DeviceInfo]) -> bool:
    """Whether each has room for its share. Devices that share their memory share the room as well."""
    need: dict[str, int] = {}
    room: dict[str, int] = {}
    for share, gpu in zip(placed.shares, gpus, strict=False):
        if share.total:
            need[gpu.memory_key] = need.get(gpu.memory_key, 0) + share.total + DRIVER_BYTES
            room[gpu.memory_key] = gpu.free_bytes
    return all(need[key] <= room[key] for key in need)


def _ways(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, count: int) -> Iterator[Placed]:
    """By the shares that are asked for; else by the free memory, then each device filled before the next."""
    if wish.shares is not None or len(gpus) < 2:
        yield place(demand, gpus, wish, divided(count, wish.shares or (1.0,) * len(gpus)))
        return
    rooms = [max(0, gpu.free_bytes - demand.compute - DRIVER_BYTES) for gpu in gpus]
    yield place(
        demand, gpus, wish, divided(count, [float(room) for room in rooms] if any(rooms) else [1.0] * len(gpus))
    )
    yield place(demand, gpus, wish, _filled(demand, rooms, count))


def divided(count: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Layers of each device, as llama.cpp divides them (llama-model.cpp, load_tensors)."""
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


def place(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, counts: Sequence[int]) -> Placed:
    """What each device holds with so many layers on each."""
    sizes, every, on_gpus = demand.sizes, len(demand.sizes.layers) + 1, sum(counts)
    if wish.split in ("row", "tensor") and on_gpus:
        return _in_parallel(demand, gpus, wish, counts)
    shares: list[DeviceShare] = []
    first = every - on_gpus
    is_pipelined = on_gpus == every and sum(map(bool, counts)) > 1 and not sizes.moved
    for gpu, count in zip(gpus, counts, strict=True):
        end = first + count
        has_output = count > 0 and end == every
        weights = sum(sizes.layers[first:end]) + sizes.moved.get(gpu.name, 0)
        if has_output:
            weights += sizes.output + sizes.output_copy
        compute = 0
        if count == 1 and has_output and len(gpus) > 1:
            compute = demand.compute_output
        elif count or gpu.name in sizes.moved:
            compute = demand.compute if on_gpus == every else demand.compute_partly
            if is_pipelined:
                compute += demand.copies if not any(share.layers for share in shares) else demand.copies_later
        shares.append(DeviceShare(gpu.name, count, weights, sum(demand.kept[first:end]), compute))
        first = end
    cpu = _cpu_share(demand, every - on_gpus, uses_gpus=any(share.total for share in shares))
    if is_pipelined:
        cpu = msgspec.structs.replace(cpu, compute=cpu.compute + demand.copies)
    return Placed(tuple(counts), (*shares, cpu))


def _in_parallel(demand: Demand, gpus: Sequence[DeviceInfo], wish: Wish, counts: Sequence[int]) -> Placed:
    """Each device has its share of every layer; with rows the cache goes by layers all the same."""
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
    return Placed(tuple(counts), (*shares, _cpu_share(demand, first, uses_gpus=True)))


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
