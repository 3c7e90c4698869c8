"""How much memory a model needs on this machine, whether it fits, and with which options it would. Pure functions of
the header and the free memory.

Uses the same planning functions as every load. Knows nothing of files, networks and processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from localllm.errors import LocalLLMError
from localllm.planning.draft_plan import DraftModel, beside, draft_bytes, place_draft, states_bytes
from localllm.planning.needs import FIXED_BYTES, embedding_bytes
from localllm.planning.placing import CPU, DRIVER_BYTES, sizes_of
from localllm.planning.plan import (
    CTX_STEP,
    context_of,
    cpu_compute_bytes,
    cpu_memory_bytes,
    heads_of,
    output_bytes,
    plan,
    slots_of,
)
from localllm.planning.projector_plan import Projector, host_bytes, place_projector, projector_bytes, with_rows
from localllm.types import DeviceInfo, KvType, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.types.loading import MAX_CTX
from localllm.types.placement import DeviceShare

LEAST_CTX = 1024
"""The smallest context of an alternative: a shorter one is too small for a conversation."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, by purpose."""

    weights: int
    kv: int
    """Keys, values and states of all slots."""
    compute: int
    """Compute buffers and logits."""
    process: int = 0
    """The worker process itself."""
    draft: int = 0
    """The draft model, with all its buffers."""
    projector: int = 0
    """The encoder of pictures and sounds: weights, buffers, its process, and rows that are kept."""
    adapters: int = 0
    """LoRA adapters, which lie where the layers do that they change."""

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute + self.process + self.draft + self.projector + self.adapters


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one device holds."""

    device: str
    layers: int
    """Including the output head, which counts as one."""
    needs: Needs
    free_bytes: int | None
    """None if the system does not report it."""

    @property
    def fits(self) -> bool:
        return self.free_bytes is None or self.needs.total <= self.free_bytes


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """Other options with which the model would fit."""

    ctx: int
    slots: int
    kv_type: KvType
    need_bytes: int


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model fits, and what it needs."""

    ctx: int
    slots: int
    kv_type: KvType
    shares: tuple[Share, ...]
    """GPUs first, main memory last."""
    fits: bool
    largest_ctx: int | None
    """The largest context per slot with the requested number of slots, at most the model's trained context; None if not
    even the smallest fits."""
    alternatives: tuple[Alternative, ...] = ()
    """Only if it does not fit."""
    cpu_experts: int = 0
    """Layers on GPUs whose experts stay in main memory."""
    per_gb: float | None = None
    """Layers, or with `cpu_experts` layers' experts, that a further GB on a GPU would hold; None if all is there, or
    no GPU is in use."""

    @property
    def need_bytes(self) -> int:
        return sum(share.needs.total for share in self.shares)


def needs(info: ModelInfo, options: LoadOptions) -> Needs:
    """The need in main memory alone; the larger one if the worker chooses by measuring. Raises as `plan`."""
    if not info.causal:
        return Needs(weights=info.size_bytes, kv=0, compute=embedding_bytes(info, options), process=FIXED_BYTES)
    heads = heads_of(info, options)
    return Needs(
        weights=info.size_bytes,
        kv=cpu_memory_bytes(info, options) + heads.kept,
        compute=cpu_compute_bytes(info, options) + output_bytes(info, options) + heads.compute + heads.host,
        process=FIXED_BYTES,
    )


def fits(info: ModelInfo, options: LoadOptions, free_bytes: int | None) -> bool:
    """Whether it can be loaded into that much main memory; None (unknown) counts as yes. Raises as `plan`."""
    return free_bytes is None or needs(info, options).total <= free_bytes


def measure(options: LoadOptions) -> Callable[[ModelInfo], int]:
    """A function that returns a model's least need with these options: with one slot unless a number is given."""
    least = msgspec.structs.replace(options, slots=options.slots or 1)
    return lambda info: needs(info, least).total


class Memory(NamedTuple):
    """The memory available, and what is to be loaded besides."""

    devices: Sequence[DeviceInfo]
    free_bytes: int | None
    """Main memory."""
    draft: DraftModel | None
    projector: Projector | None = None
    adapter_bytes: int = 0


def fit_in_memory(
    info: ModelInfo,
    options: LoadOptions,
    *,
    devices: Sequence[DeviceInfo] = (),
    free_bytes: int | None,
    draft: DraftModel | None = None,
    projector: Projector | None = None,
    adapter_bytes: int = 0,
) -> Fit:
    """`devices`: as listed by `localllm doctor`; `free_bytes`: main memory; `adapter_bytes`: of LoRA adapters. Raises
    as `plan` does."""
    options = with_rows(options, projector)
    memory = Memory(devices, free_bytes, draft, projector, adapter_bytes)
    shares = _shares(info, options, memory)
    fitting = all(share.fits for share in shares)
    cpu_experts, per_gb = _per_gb(info, options, memory)
    return Fit(
        ctx=context_of(info, options),
        slots=slots_of(info, options),
        kv_type=options.kv_type,
        shares=shares,
        fits=fitting,
        largest_ctx=_largest_ctx(info, options, memory),
        alternatives=() if fitting else tuple(_alternatives(info, options, memory)),
        cpu_experts=cpu_experts,
        per_gb=per_gb,
    )


def _per_gb(info: ModelInfo, options: LoadOptions, memory: Memory) -> tuple[int, float | None]:
    """`Fit.cpu_experts` and `Fit.per_gb`."""
    placement = plan(info, beside(memory.draft, options), memory.devices)
    if not placement.devices:
        return 0, None
    sizes, away = sizes_of(info), placement.cpu_experts
    if away:
        return len(away), 1e9 * len(away) / sum(sizes.experts[block] for block in away)
    left = info.num_layers + 1 - placement.gpu_layers
    cpu = next(share for share in placement.shares if share.device == CPU)
    return 0, 1e9 * left / (sum(sizes.layers[:left]) + cpu.kv) if left and info.num_layers else None


def largest_ctx(
    info: ModelInfo, options: LoadOptions, *, devices: Sequence[DeviceInfo] = (), free_bytes: int | None
) -> int | None:
    """Tokens per slot, a multiple of `CTX_STEP`, by binary search; None if not even the smallest fits."""
    return _largest_ctx(info, options, Memory(devices, free_bytes, None))


def _largest_ctx(info: ModelInfo, options: LoadOptions, memory: Memory) -> int | None:
    if not info.causal:
        return None
    trained = min(info.context_length or context_of(info, options), MAX_CTX)
    low, high = 0, max(1, -(-trained // CTX_STEP))
    while low < high:
        middle = (low + high + 1) // 2
        if _all_fit(info, _with_ctx(options, min(middle * CTX_STEP, max(trained, CTX_STEP))), memory):
            low = middle
        else:
            high = middle - 1
    return low * CTX_STEP or None


def _alternatives(info: ModelInfo, options: LoadOptions, memory: Memory) -> Iterator[Alternative]:
    """Alternatives, least disruptive first: a smaller KV type, a shorter context, fewer slots, then all of these."""
    if not info.causal:
        return
    slots = slots_of(info, options)
    quantized = () if options.flash_attn == "off" or options.kv_type != "f16" else ("q8_0",)
    tried: list[LoadOptions] = [msgspec.structs.replace(options, kv_type=kind) for kind in quantized]
    for kind in (options.kv_type, *quantized):
        for count in sorted({slots, 1}, reverse=True):
            other = msgspec.structs.replace(options, kv_type=kind, slots=count)
            ctx = _largest_ctx(info, other, memory)
            if ctx is not None and ctx >= LEAST_CTX:
                tried.append(_with_ctx(other, min(ctx, context_of(info, options))))
    seen: set[tuple[int, int, KvType]] = set()
    for one in tried:
        key = context_of(info, one), slots_of(info, one), one.kv_type
        if key not in seen and _all_fit(info, one, memory):
            seen.add(key)
            total = sum(share.needs.total for share in _shares(info, one, memory))
            yield Alternative(ctx=key[0], slots=key[1], kv_type=key[2], need_bytes=total)


def _with_ctx(options: LoadOptions, ctx: int) -> LoadOptions:
    return msgspec.structs.replace(options, ctx=ctx, kv_cells=None)


def _all_fit(info: ModelInfo, options: LoadOptions, memory: Memory) -> bool:
    try:
        return all(share.fits for share in _shares(info, options, memory))
    except LocalLLMError:  # a device named in the options would hold no layer
        return False


def _shares(info: ModelInfo, options: LoadOptions, memory: Memory) -> tuple[Share, ...]:
    """The need of a load on each GPU, then in main memory."""
    *gpus, cpu = _shares_without_adapters(info, options, memory)
    if not memory.adapter_bytes:
        return (*gpus, cpu)
    given = [memory.adapter_bytes * share.layers // (info.num_layers + 1) for share in gpus]
    given.append(memory.adapter_bytes - sum(given))
    return tuple(
        msgspec.structs.replace(share, needs=msgspec.structs.replace(share.needs, adapters=size))
        for share, size in zip((*gpus, cpu), given, strict=True)
    )


def _shares_without_adapters(info: ModelInfo, options: LoadOptions, memory: Memory) -> tuple[Share, ...]:
    options = beside(memory.draft, options)
    devices, free_bytes, on_gpu, in_main = memory.devices, memory.free_bytes, dict[str, int](), 0
    if memory.draft is not None:
        placed = place_draft(info, options, memory.draft, devices)
        devices = placed.devices
        if placed.share is None:
            in_main = draft_bytes(info, options, memory.draft)
        else:
            on_gpu[placed.share.device] = placed.share.total + DRIVER_BYTES
            in_main = states_bytes(info, options, memory.draft)
    media_on_gpu, media = dict[str, int](), 0
    if memory.projector is not None:
        encoder = place_projector(memory.projector, options, devices)
        devices, media = encoder.devices, projector_bytes(memory.projector, options)
        if encoder.share is not None:
            media_on_gpu[encoder.share.device] = encoder.share.total + DRIVER_BYTES
            media = host_bytes(options)
    placement = plan(info, options, devices)
    known = {device.name: device.free_bytes for device in memory.devices}
    given = {one.device: one for one in placement.shares if placement.devices and one.device != CPU and one.total}
    shares = [
        Share(
            device=name,
            layers=given[name].layers if name in given else 0,
            needs=_on_gpu(given.get(name), on_gpu.get(name, 0), media_on_gpu.get(name, 0)),
            free_bytes=known[name],
        )
        for name in dict.fromkeys((*given, *on_gpu, *media_on_gpu))
    ]
    if not placement.devices:
        rest = msgspec.structs.replace(needs(info, options), draft=in_main, projector=media)
        return (*shares, Share(device=CPU, layers=info.num_layers + 1, needs=rest, free_bytes=free_bytes))
    here = next(one for one in placement.shares if one.device == CPU)
    rest = Needs(
        weights=here.weights, kv=here.kv, compute=here.compute, process=FIXED_BYTES, draft=in_main, projector=media
    )
    return (*shares, Share(device=CPU, layers=here.layers, needs=rest, free_bytes=free_bytes))


def _on_gpu(share: DeviceShare | None, draft: int, projector: int) -> Needs:
    if share is None:
        return Needs(weights=0, kv=0, compute=0, draft=draft, projector=projector)
    compute = share.compute + DRIVER_BYTES
    return Needs(weights=share.weights, kv=share.kv, compute=compute, draft=draft, projector=projector)
