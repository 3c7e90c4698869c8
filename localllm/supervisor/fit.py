"""What a model needs on this machine, whether it fits, and which options would fit: pure functions of header and
memory.

Plans with the same functions as every load. Knows nothing of files, networks and processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from localllm.errors import LocalLLMError
from localllm.supervisor.placing import CPU, DRIVER_BYTES
from localllm.supervisor.plan import (
    CTX_STEP,
    context_of,
    cpu_compute_bytes,
    cpu_memory_bytes,
    output_bytes,
    plan,
    slots_of,
)
from localllm.supervisor.room import FIXED_BYTES, USABLE_SHARE, embedding_bytes
from localllm.types import DeviceInfo, KvType, ModelInfo
from localllm.types.load_options import LoadOptions

LEAST_CTX = 1024
"""No alternative proposes less: a shorter context holds no conversation."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, by purpose."""

    weights: int
    kv: int
    """Keys, values and states of all slots."""
    compute: int
    """Compute buffers and logits."""
    process: int = 0
    """The worker process itself."""

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute + self.process


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one device holds."""

    device: str
    layers: int
    """The output head counts as one."""
    needs: Needs
    free_bytes: int | None
    """None where the system does not say."""

    @property
    def fits(self) -> bool:
        return self.free_bytes is None or self.needs.total <= self.free_bytes


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """Other options with which the model fits."""

    ctx: int
    slots: int
    kv_type: KvType
    need_bytes: int


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """The result."""

    ctx: int
    slots: int
    kv_type: KvType
    shares: tuple[Share, ...]
    """GPUs first, main memory last."""
    fits: bool
    largest_ctx: int | None
    """Largest context of a slot with the requested number of slots, at most what the model was trained for; None if
    even the smallest does not fit."""
    alternatives: tuple[Alternative, ...] = ()
    """Only where it does not fit."""

    @property
    def need_bytes(self) -> int:
        return sum(share.needs.total for share in self.shares)


def needs(info: ModelInfo, options: LoadOptions) -> Needs:
    """If all of it is in main memory; the larger need where the worker measures what is faster. Raises as `plan`."""
    if not info.causal:
        return Needs(weights=info.size_bytes, kv=0, compute=embedding_bytes(info, options), process=FIXED_BYTES)
    return Needs(
        weights=info.size_bytes,
        kv=cpu_memory_bytes(info, options),
        compute=cpu_compute_bytes(info, options) + output_bytes(info, options),
        process=FIXED_BYTES,
    )


def fits(info: ModelInfo, options: LoadOptions, free_bytes: int | None) -> bool:
    """Whether it can be loaded into that much main memory; None (unknown) counts as yes. Raises as `plan`."""
    return free_bytes is None or needs(info, options).total <= free_bytes


def measure(options: LoadOptions) -> Callable[[ModelInfo], int]:
    """A function for the least a model needs with these options: with one slot, where no number was asked for."""
    least = msgspec.structs.replace(options, slots=options.slots or 1)
    return lambda info: needs(info, least).total


def usable_bytes(total_bytes: int | None) -> int | None:
    """Memory that a model may use if it is alone on a machine."""
    return None if total_bytes is None else int(total_bytes * USABLE_SHARE)


def fit(info: ModelInfo, options: LoadOptions, *, devices: Sequence[DeviceInfo] = (), free_bytes: int | None) -> Fit:
    """`devices`: as `localllm doctor` lists them; `free_bytes`: main memory. Raises as `plan`."""
    shares = _shares(info, options, devices, free_bytes)
    fitting = all(share.fits for share in shares)
    return Fit(
        ctx=context_of(info, options),
        slots=slots_of(info, options),
        kv_type=options.kv_type,
        shares=shares,
        fits=fitting,
        largest_ctx=largest_ctx(info, options, devices=devices, free_bytes=free_bytes),
        alternatives=() if fitting else tuple(_alternatives(info, options, devices, free_bytes)),
    )


def largest_ctx(
    info: ModelInfo, options: LoadOptions, *, devices: Sequence[DeviceInfo] = (), free_bytes: int | None
) -> int | None:
    """Tokens of each slot, a multiple of `CTX_STEP`, found by bisection; None if not even the smallest fits."""
    if not info.causal:
        return None
    trained = info.context_length or context_of(info, options)
    low, high = 0, max(1, -(-trained // CTX_STEP))
    while low < high:
        middle = (low + high + 1) // 2
        if _all_fit(info, _with_ctx(options, min(middle * CTX_STEP, max(trained, CTX_STEP))), devices, free_bytes):
            low = middle
        else:
            high = middle - 1
    return low * CTX_STEP or None


def _alternatives(
    info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo], free_bytes: int | None
) -> Iterator[Alternative]:
    """Cheapest sacrifice first: smaller numbers in the cache, then less context, then fewer slots, then all
    together."""
    if not info.causal:
        return
    slots = slots_of(info, options)
    quantized = () if options.flash_attn == "off" or options.kv_type != "f16" else ("q8_0",)
    tried: list[LoadOptions] = [msgspec.structs.replace(options, kv_type=kind) for kind in quantized]
    for kind in (options.kv_type, *quantized):
        for count in sorted({slots, 1}, reverse=True):
            other = msgspec.structs.replace(options, kv_type=kind, slots=count)
            ctx = largest_ctx(info, other, devices=devices, free_bytes=free_bytes)
            if ctx is not None and ctx >= LEAST_CTX:
                tried.append(_with_ctx(other, min(ctx, context_of(info, options))))
    seen: set[tuple[int, int, KvType]] = set()
    for one in tried:
        key = context_of(info, one), slots_of(info, one), one.kv_type
        if key not in seen and _all_fit(info, one, devices, free_bytes):
            seen.add(key)
            total = sum(share.needs.total for share in _shares(info, one, devices, free_bytes))
            yield Alternative(ctx=key[0], slots=key[1], kv_type=key[2], need_bytes=total)


def _with_ctx(options: LoadOptions, ctx: int) -> LoadOptions:
    return msgspec.structs.replace(options, ctx=ctx, kv_cells=None)


def _all_fit(info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo], free_bytes: int | None) -> bool:
    try:
        return all(share.fits for share in _shares(info, options, devices, free_bytes))
    except LocalLLMError:  # a named device would hold no layer
        return False


def _shares(
    info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo], free_bytes: int | None
) -> tuple[Share, ...]:
    """The placement of a load in bytes: each GPU's, then main memory's."""
    placement = plan(info, options, devices)
    if not placement.devices:
        every = info.num_layers + 1
        return (Share(device=CPU, layers=every, needs=needs(info, options), free_bytes=free_bytes),)
    known = {device.name: device for device in devices}
    shares = [
        Share(
            device=one.device,
            layers=one.layers,
            needs=Needs(weights=one.weights, kv=one.kv, compute=one.compute + DRIVER_BYTES),
            free_bytes=known[one.device].free_bytes,
        )
        for one in placement.shares
        if one.device != CPU and one.total
    ]
    here = next(one for one in placement.shares if one.device == CPU)
    rest = Needs(weights=here.weights, kv=here.kv, compute=here.compute, process=FIXED_BYTES)
    return (*shares, Share(device=CPU, layers=here.layers, needs=rest, free_bytes=free_bytes))
