"""Where a model's layers go, how long its slots are: a pure function of its header, the wishes and the devices.

Raises what cannot be had; never settles for less than what was asked by name. Knows nothing of processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.errors import DeviceUnavailable, InvalidParameter, LoadFailed
from localllm.load_options import LoadOptions
from localllm.supervisor import buffers
from localllm.supervisor.buffers import Step, scores_bytes
from localllm.supervisor.snapshots import snapshots_of
from localllm.types import DeviceInfo, FlashAttn, KvLayout, KvType, LayerMemory, ModelInfo, Pooling
from localllm.worker.messages import Placement

DEFAULT_SLOTS = 4
MAX_DEFAULT_CTX = 8192
MAX_DEFAULT_EMBEDDING_CTX = 2048
"""Not for memory (a text of so many tokens takes 34 MB with 33 M parameters), but for time: an encoder computes a text
at once, and whoever else asks waits as long (10 s there, on one slow core)."""
CTX_STEP = 256
"""llama.cpp pads each stream to this many cells."""
KV_BYTES: dict[KvType, float] = {"f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Of one number in the cache, as ggml's blocks have it."""
SHORT_CTX = 1024
"""Slots that hold fewer tokens than this are too short for a difference worth a measurement: flash attention."""
MAX_SCORES_BYTES = 512 * 1024 * 1024
"""For a step's scores without flash attention: fewer rows are computed at once rather than more, down to the least."""
LEAST_UBATCH = 32
SLOT_OUTPUTS = 8
"""Rows of logits of one stream in a step: `engine.scheduling.rows.MOST_ROWS`."""
MORE_OUTPUTS, LEAST_MORE_OUTPUTS = 64, 8
"""Rows of a step besides those. llama.cpp makes room for all that a step may have."""
MORE_OUTPUTS_BYTES = 32 * 1024 * 1024
"""Of these rows."""
DRIVER_BYTES = 128 * 1024 * 1024
"""Of each GPU, for what its driver and backend keep, which no header tells. An allowance, not a measurement."""
EMBEDDING_STATES = 4
"""Texts at a time where a layer is recurrent: `llama.embedding.MAX_STATES`."""


def plan(info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo]) -> Placement:
    """The placement to ask the worker for. Raises `LoadFailed`, `DeviceUnavailable`, `InvalidParameter`."""
    if info.tokenizer in (None, "none", "no_vocab"):  # llama.cpp aborts on the first text it is given
        raise LoadFailed("the file has no tokenizer, so it cannot read or write text")
    pooling, embedding_ctx = pooling_of(info, options), embedding_context_of(info, options)
    kv, reason = _layout(options)
    num_cells = cells_of(info, options)
    chosen = _devices(options, devices)
    layers, must = _layers(info, options, chosen)
    flash_attn, flash_attn_reason = _flash_attn(info, options, layers)
    return Placement(
        ctx=context_of(info, options),
        slots=slots_of(info, options),
        kv=kv,
        kv_reason=reason,
        flash_attn=flash_attn,
        flash_attn_reason=flash_attn_reason,
        ubatch_tokens=ubatch_of(info, options) if flash_attn == "off" else options.ubatch_tokens,
        max_outputs=outputs_of(info, options),
        snapshots=_snapshots(info, options, flash=flash_attn != "off"),
        plain_ubatch_tokens=ubatch_of(info, options),
        num_cells=num_cells,
        gpu_layers=layers,
        devices=tuple(device.name for device in chosen) if layers else (),
        must_offload=must,
        pooling=pooling,
        embedding_ctx=embedding_ctx,
    )


def _layout(options: LoadOptions) -> tuple[KvLayout, str]:
    """How the slots share the KV cache, and why; the figures are of benchmarks/LOG.md."""
    if options.kv != "auto":
        return options.kv, "as asked for"
    if options.kv_cells is not None:
        return "unified", "kv_cells asks for one cache for all slots"
    return "partitioned", (
        "measured with 16 streams of 700 tokens: twice as fast as unified where prompts differ, "
        "a tenth slower where they are the same"
    )


def _flash_attn(info: ModelInfo, options: LoadOptions, layers: int) -> tuple[FlashAttn, str]:
    """How attention is computed, and why; `layers` are on GPUs. On the CPU `auto` is for the worker to measure."""
    if options.flash_attn != "auto":
        return options.flash_attn, "as asked for"
    if layers:
        return "auto", "on GPUs as llama.cpp chooses"
    if options.kv_type != "f16":
        return "on", f"kv_type {options.kv_type} needs it"
    if _layout(options)[0] == "unified":
        return "on", "it skips what is other slots' in a unified cache"
    if context_of(info, options) < SHORT_CTX:
        return "on", f"slots of fewer than {SHORT_CTX:,} tokens are too short to measure what is faster"
    return "auto", "measured when it is loaded"


def ubatch_of(info: ModelInfo, options: LoadOptions) -> int:
    """Rows that are computed at once without flash attention, so that their scores are bounded."""
    row_bytes = scores_bytes(info, most_seen(info, options), 1)
    rows = options.ubatch_tokens if row_bytes == 0 else min(options.ubatch_tokens, MAX_SCORES_BYTES // row_bytes)
    return max(rows - rows % LEAST_UBATCH, LEAST_UBATCH)


def outputs_of(info: ModelInfo, options: LoadOptions) -> int:
    """Rows of logits of a step: those of each slot's stream, and others that prompts' log-probabilities want."""
    slots = slots_of(info, options)
    more = MORE_OUTPUTS_BYTES // (4 * max(1, info.vocabulary_size))
    return min(
        SLOT_OUTPUTS * slots + min(max(more, LEAST_MORE_OUTPUTS), MORE_OUTPUTS), max(options.ubatch_tokens, slots)
    )


def _snapshots(info: ModelInfo, options: LoadOptions, *, flash: bool) -> int:
    return snapshots_of(info, slots=slots_of(info, options), ubatch_tokens=step_rows(info, options, flash=flash))


def is_unified(options: LoadOptions) -> bool:
    """One KV cache for all slots."""
    return _layout(options)[0] == "unified"


def most_seen(info: ModelInfo, options: LoadOptions) -> int:
    """Cells that a row looks at: in a unified cache all slots'."""
    return cells_of(info, options) if is_unified(options) else context_of(info, options)


def step_rows(info: ModelInfo, options: LoadOptions, *, flash: bool) -> int:
    """Tokens that are computed at once, at most."""
    return max(options.ubatch_tokens if flash else ubatch_of(info, options), slots_of(info, options))


def windowed_cells(info: ModelInfo, options: LoadOptions, *, flash: bool) -> int:
    """Tokens that a layer with a window keeps, of all slots."""
    slots, unified = slots_of(info, options), is_unified(options)
    streams = 1 if unified else slots
    seen = info.sliding_window * (slots if unified else 1) + step_rows(info, options, flash=flash)
    return streams * _round_up(min(cells_of(info, options) // streams, seen))


def compute_bytes(info: ModelInfo, options: LoadOptions, *, flash: bool) -> int:
    """Of the buffer that a device computes in; 0 for an encoder, which gets one with its first text."""
    if not info.causal:
        return 0
    streams = 1 if is_unified(options) else slots_of(info, options)
    step = Step(
        rows=step_rows(info, options, flash=flash),
        seen=most_seen(info, options),
        windowed=windowed_cells(info, options, flash=flash) // streams,
        outputs=outputs_of(info, options),
        states=slots_of(info, options),
        snapshots=_snapshots(info, options, flash=flash),
    )
    return buffers.compute_bytes(info, step, flash=flash)


def cpu_compute_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """If the model is on the CPU; of what `auto` may be the larger."""
    return max(compute_bytes(info, options, flash=flash) for flash in _possible_flash(info, options))


def output_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """Of the logits that are read: a row for each slot from the start, more when a step has more."""
    return 4 * slots_of(info, options) * info.vocabulary_size if info.causal else 0


def cells_of(info: ModelInfo, options: LoadOptions) -> int:
    """Tokens that the whole KV cache holds. Raises `InvalidParameter`."""
    ctx = context_of(info, options)
    if options.kv_cells is None:
        return ctx * slots_of(info, options)
    if options.kv_cells < ctx:
        raise InvalidParameter(
            f"kv_cells {options.kv_cells} is less than one slot's ctx, {ctx}; ask for more cells or a smaller ctx",
            param="kv_cells",
        )
    return _round_up(options.kv_cells)


def slots_of(info: ModelInfo, options: LoadOptions) -> int:
    """None for an encoder, whatever is wished for generating models."""
    return (options.slots or DEFAULT_SLOTS) if info.causal else 0


def pooling_of(info: ModelInfo, options: LoadOptions) -> Pooling:
    """As asked for, else as the model says, else as such models are usually trained.

    Raises `InvalidParameter` for ranking with a model that has no head for it.
    """
    pooling = options.pooling or info.pooling or ("last" if info.causal else "mean")
    if pooling == "rank" and not info.has_ranking_head:
        if options.pooling is None:  # the header promises what the file does not hold
            raise LoadFailed("the file has no ranking head; load it with another --pooling")
        raise InvalidParameter("the model has no ranking head; leave out --pooling", param="pooling")
    return pooling


def embedding_context_of(info: ModelInfo, options: LoadOptions) -> int:
    """Tokens of the longest text to embed. Raises `InvalidParameter` for more than the model was trained for."""
    trained = info.context_length
    if options.embedding_ctx is None:
        return min(trained or MAX_DEFAULT_EMBEDDING_CTX, MAX_DEFAULT_EMBEDDING_CTX)
    if trained is not None and options.embedding_ctx > trained:
        raise InvalidParameter(
            f"embedding_ctx {options.embedding_ctx} is more than the {trained} tokens the model was trained for",
            param="embedding_ctx",
        )
    return options.embedding_ctx


def context_of(info: ModelInfo, options: LoadOptions) -> int:
    """Tokens each slot holds; an encoder has none, and reads texts of `embedding_context_of`.

    Raises `InvalidParameter` for more than the model was trained for.
    """
    if not info.causal:
        return embedding_context_of(info, options)
    trained = info.context_length
    if options.ctx is None:
        wanted = min(trained or MAX_DEFAULT_CTX, MAX_DEFAULT_CTX, options.kv_cells or MAX_DEFAULT_CTX)
    elif trained is not None and options.ctx > _round_up(most := longest_context(trained, options)):
        raise InvalidParameter(_too_long(options, trained, most), param="ctx")
    else:
        wanted = options.ctx
    return _round_up(wanted)


def longest_context(trained: int, options: LoadOptions) -> int:
    """Tokens that a slot can have: what the model was trained for, or as far as its positions are stretched."""
    if options.rope_scale is None:
        return trained
    return max(trained, int((options.yarn_orig_ctx or trained) * options.rope_scale))


def _too_long(options: LoadOptions, trained: int, most: int) -> str:
    if options.rope_scale is not None:
        return (
            f"ctx {options.ctx} is more than the {most} tokens that rope_scale {options.rope_scale:g} makes of the "
            f"{options.yarn_orig_ctx or trained} the model was trained for"
        )
    return (
        f"ctx {options.ctx} is more than the {trained} tokens the model was trained for; "
        f"--rope-scaling yarn --rope-scale {-(-(options.ctx or 0) // trained)} stretches them, at some loss"
    )


def _round_up(ctx: int) -> int:
    return -(-ctx // CTX_STEP) * CTX_STEP


def _devices(options: LoadOptions, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The GPUs to use: those named, else the dedicated ones, else the integrated ones, as llama.cpp chooses."""
    gpus = [device for device in devices if device.kind in ("gpu", "igpu")]
    if options.devices is None:
        return [device for device in gpus if device.kind == "gpu"] or gpus
    known = {device.name.lower(): device for device in devices}
    chosen = []
    for name in options.devices:
        device = known.get(name.lower())
        if device is None:
            raise DeviceUnavailable(
                f"there is no device {name!r}; there are {', '.join(d.name for d in devices)} (`localllm doctor`)",
                param="device",
            )
        if device in gpus:
            chosen.append(device)
    return chosen


def _layers(info: ModelInfo, options: LoadOptions, gpus: list[DeviceInfo]) -> tuple[int, bool]:
    """(layers to offload, whether the user insists). The output head counts as one layer more."""
    every = info.num_layers + 1
    if options.gpu_layers == "auto":
        if options.devices is not None and gpus:  # a GPU named is a GPU asked for
            layers = _fitting_layers(info, options, gpus)
            if layers == 0:
                raise DeviceUnavailable(f"no layer of the model fits on {gpus[0].name}", param="device")
            return layers, True
        return _fitting_layers(info, options, gpus), False
    wanted = every if options.gpu_layers == "all" else min(options.gpu_layers, every)
    if wanted and not gpus:
        raise DeviceUnavailable(
            f"gpu_layers {options.gpu_layers} was asked for, but no GPU is in use; `localllm doctor` lists devices, "
            "--gpu-layers 0 runs on the CPU",
            param="gpu_layers",
        )
    return wanted, wanted > 0


def _fitting_layers(info: ModelInfo, options: LoadOptions, gpus: list[DeviceInfo]) -> int:
    """As many layers as the free memory holds, last ones first, as llama.cpp assigns them."""
    room = sum(max(0, device.free_bytes - device_bytes(info, options)) for device in gpus)
    need, layers = info.other_bytes, 0
    if need > room:
        return 0
    memory = memory_bytes(info, options, flash=options.flash_attn != "off")
    for layer_bytes, kept_bytes in zip(reversed(info.layer_bytes), reversed(memory), strict=True):
        need += layer_bytes + kept_bytes
        if need > room:
            break
        layers += 1
    return layers + 1


def device_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """Set aside on each GPU: for computing, and for what its driver takes."""
    return compute_bytes(info, options, flash=options.flash_attn != "off") + DRIVER_BYTES


def cpu_memory_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """Of keys, values and states of all slots, if the model is on the CPU; of what `auto` may be the larger."""
    return max(sum(memory_bytes(info, options, flash=flash)) for flash in _possible_flash(info, options))


def _possible_flash(info: ModelInfo, options: LoadOptions) -> tuple[bool, ...]:
    """What the worker may choose on the CPU: it measures where nothing else decides."""
    return {"on": (True,), "off": (False,), "auto": (True, False)}[_flash_attn(info, options, 0)[0]]


def memory_bytes(info: ModelInfo, options: LoadOptions, *, flash: bool) -> list[int]:
    """Of keys, values and states of all slots, layer by layer, as llama.cpp allocates them (llama-kv-cache*.cpp).

    Without flash attention every layer's values take as much as the widest layer's.
    """
    if not info.causal:
        return [0] * info.num_layers
    slots, cells = slots_of(info, options), cells_of(info, options)
    windowed = windowed_cells(info, options, flash=flash)
    widest = max((layer.values for layer in info.layer_memory), default=0)
    snapshots = _snapshots(info, options, flash=flash)
    return [
        _cells_bytes(layer, windowed if layer.is_windowed else cells, options.kv_type, 0 if flash else widest)
        + 4 * layer.state * slots * (1 + snapshots)
        for layer in info.layer_memory
    ] or [0] * info.num_layers


def _cells_bytes(layer: LayerMemory, cells: int, kv_type: KvType, least_values: int) -> int:
    values = max(layer.values, least_values) if layer.values else 0
    return int(cells * (layer.keys + values) * KV_BYTES[kv_type])


def embedding_memory_bytes(info: ModelInfo, cells: int) -> int:
    """Of keys, values and states of the context that embeds: F16, its windowed layers keep all cells."""
    states = 4 * EMBEDDING_STATES
    return sum(_cells_bytes(layer, cells, "f16", 0) + states * layer.state for layer in info.layer_memory)
