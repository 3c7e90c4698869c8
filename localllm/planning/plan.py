"""Where a model's layers go and how long its slots are: a pure function of its header, the options and the devices.

Raises an error if an explicit request cannot be met, and never settles for less. Knows no processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from localllm.errors import DeviceUnavailable, InvalidParameter, LoadFailed
from localllm.planning import buffers, device_choice, encoders, placing
from localllm.planning.buffers import Step, scores_bytes
from localllm.planning.experts import fit_experts, overrides_of_experts
from localllm.planning.nextn_heads import HeadsBytes, context_of_heads, heads_bytes, why_none
from localllm.planning.placing import CPU, Demand, PlacingResult, Sizes, Wish, fit_layers, put_layers, sizes_of
from localllm.planning.snapshots import snapshots_of
from localllm.types import DeviceInfo, FlashAttn, KvLayout, KvType, LayerMemory, ModelInfo, Pooling
from localllm.types.load_options import LoadOptions
from localllm.types.placement import DeviceShare, Placement

DEFAULT_SLOTS = 4
MAX_DEFAULT_CTX = 8192
MAX_DEFAULT_EMBEDDING_CTX = 2048
"""Limited by time, not memory (a text of that length takes 34 MB with 33 M parameters): an encoder computes a text in
one step, and every other request waits for it (10 s for that model, on one slow core)."""
CTX_STEP = 256
"""llama.cpp pads each stream to this many cells."""
KV_BYTES: dict[KvType, float] = {"f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Bytes per number in the cache, in ggml's block formats."""
SHORT_CTX = 1024
"""Below this many tokens per slot, flash attention makes too little difference to be worth measuring."""
MAX_SCORES_BYTES = 512 * 1024 * 1024
"""Limit for a step's scores without flash attention: the ubatch is made smaller instead, down to `LEAST_UBATCH`."""
LEAST_UBATCH = 32
SLOT_OUTPUTS = 8
"""Rows of logits that one stream may have in a step: `engine.scheduling.rows.MOST_ROWS`."""
MORE_OUTPUTS, LEAST_MORE_OUTPUTS = 64, 8
"""Further rows of a step. llama.cpp allocates for the most that a step may have."""
MORE_OUTPUTS_BYTES = 32 * 1024 * 1024
"""Memory for those further rows."""
EMBEDDING_STATES = 4
"""Texts computed at once if a layer is recurrent: `llama.embedding.MAX_STATES`."""


def plan(
    info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo], most_layers: int | None = None
) -> Placement:
    """The placement to ask the worker for. Raises `LoadFailed`, `DeviceUnavailable`, `InvalidParameter`."""
    if info.tokenizer in (None, "none", "no_vocab"):  # llama.cpp would abort on the first text
        raise LoadFailed("the file has no tokenizer, so it cannot read or write text")
    pooling, embedding_ctx = pooling_of(info, options), embedding_context_of(info, options)
    kv, reason = _layout(options)
    num_cells = cells_of(info, options)
    gpus, placed, must = place(info, options, devices, most_layers)
    layers = placed.layers
    overrides = device_choice.overrides_of(options, devices, gpus) | overrides_of_experts(placed.cpu_experts)
    uses_gpus = layers > 0 or any(device != CPU for device in overrides.values())
    flash_attn, flash_attn_reason = _flash_attn(info, options, uses_gpus=uses_gpus)
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
        heads_ctx=context_of_heads(info, options, context_of(info, options)),
        no_heads=why_none(info, options),
        plain_ubatch_tokens=ubatch_of(info, options),
        num_cells=num_cells,
        gpu_layers=layers,
        devices=tuple(gpu.name for gpu in gpus) if uses_gpus else (),
        must_offload=must,
        pooling=pooling,
        embedding_ctx=embedding_ctx,
        main_gpu=device_choice.main_of(options, gpus) if layers else 0,
        tensor_split=device_choice.split_given(options, placed, gpus),
        cpu_experts=placed.cpu_experts,
        device_experts=placed.device_experts,
        overrides=tuple(overrides.items()),
        shares=placed.shares if uses_gpus else placed.shares[-1:],
    )


def _layout(options: LoadOptions) -> tuple[KvLayout, str]:
    """How the slots share the KV cache, and why. Figures: benchmarks/log/kv.md#layouts."""
    if options.kv != "auto":
        return options.kv, "as requested"
    if options.kv_cells is not None:
        return "unified", "kv_cells asks for one cache for all slots"
    return "partitioned", (
        "measured with 16 streams of 700 tokens: twice as fast as unified where prompts differ, "
        "a tenth slower where they are the same"
    )


def _flash_attn(info: ModelInfo, options: LoadOptions, *, uses_gpus: bool) -> tuple[FlashAttn, str]:
    """How attention is computed, and why. On the CPU `auto` leaves it to the worker's measurement."""
    if options.flash_attn != "auto":
        return options.flash_attn, "as requested"
    if uses_gpus:
        return "auto", "on GPUs as llama.cpp chooses"
    if options.kv_type != "f16":
        return "on", f"kv_type {options.kv_type} needs it"
    if _layout(options)[0] == "unified":
        return "on", "it skips other slots' cells in a unified cache"
    if context_of(info, options) < SHORT_CTX:
        return "on", f"slots of fewer than {SHORT_CTX:,} tokens are too short to measure what is faster"
    return "auto", "measured at load"


def ubatch_of(info: ModelInfo, options: LoadOptions) -> int:
    """Rows computed at once without flash attention, such that their scores stay bounded."""
    row_bytes = scores_bytes(info, most_seen(info, options), 1)
    rows = options.ubatch_tokens if row_bytes == 0 else min(options.ubatch_tokens, MAX_SCORES_BYTES // row_bytes)
    return max(rows - rows % LEAST_UBATCH, LEAST_UBATCH, options.media_rows)


def outputs_of(info: ModelInfo, options: LoadOptions) -> int:
    """Rows of logits in a step: those of each slot's stream, and more for log-probabilities of prompts."""
    slots = slots_of(info, options)
    more = MORE_OUTPUTS_BYTES // (4 * max(1, info.vocabulary_size))
    return min(
        SLOT_OUTPUTS * slots + min(max(more, LEAST_MORE_OUTPUTS), MORE_OUTPUTS), max(options.ubatch_tokens, slots)
    )


def _snapshots(info: ModelInfo, options: LoadOptions, *, flash: bool) -> int:
    return snapshots_of(info, slots=slots_of(info, options), ubatch_tokens=step_rows(info, options, flash=flash))


def is_unified(options: LoadOptions) -> bool:
    """Whether all slots share one KV cache."""
    return _layout(options)[0] == "unified"


def most_seen(info: ModelInfo, options: LoadOptions) -> int:
    """Cells that a row attends to at most: in a unified cache those of all slots."""
    return cells_of(info, options) if is_unified(options) else context_of(info, options)


def step_rows(info: ModelInfo, options: LoadOptions, *, flash: bool) -> int:
    """The most tokens computed at once."""
    return max(options.ubatch_tokens if flash else ubatch_of(info, options), slots_of(info, options))


def windowed_cells(info: ModelInfo, options: LoadOptions, *, flash: bool) -> int:
    """Cells that a layer with a sliding window has for all slots."""
    slots, unified = slots_of(info, options), is_unified(options)
    streams = 1 if unified else slots
    seen = info.sliding_window * (slots if unified else 1) + step_rows(info, options, flash=flash)
    return streams * _round_up(min(cells_of(info, options) // streams, seen))


def step_of(info: ModelInfo, options: LoadOptions, *, flash: bool) -> Step:
    """The largest step."""
    streams = 1 if is_unified(options) else slots_of(info, options)
    return Step(
        rows=step_rows(info, options, flash=flash),
        seen=most_seen(info, options),
        windowed=windowed_cells(info, options, flash=flash) // streams,
        outputs=outputs_of(info, options),
        states=slots_of(info, options),
        snapshots=_snapshots(info, options, flash=flash),
    )


def compute_bytes(info: ModelInfo, options: LoadOptions, *, flash: bool, copied: int = 0, experts: int = 0) -> int:
    """Size of a device's compute buffer; 0 for an encoder, which gets one with its first text."""
    if not info.causal:
        return 0
    return buffers.compute_bytes(info, step_of(info, options, flash=flash), flash=flash, copied=copied, experts=experts)


def cpu_compute_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """Size of the CPU's compute buffer; the larger size if `auto` may choose flash attention or not."""
    return max(compute_bytes(info, options, flash=flash) for flash in _possible_flash(info, options))


def heads_of(info: ModelInfo, options: LoadOptions) -> HeadsBytes:
    """Memory that the model's own NextN layers add, if they guess."""
    return heads_bytes(info, options, ctx=context_of(info, options), slots=slots_of(info, options))


def output_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """Size of the logits buffer: one row per slot at first; it grows when a step has more."""
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
    """Number of slots; 0 for an encoder, whatever the options say."""
    return (options.slots or DEFAULT_SLOTS) if info.causal else 0


def pooling_of(info: ModelInfo, options: LoadOptions) -> Pooling:
    """The requested pooling, else the model's, else the usual one for such models.

    Raises `InvalidParameter` for ranking with a model that has no head for it.
    """
    pooling = options.pooling or info.pooling or ("last" if info.causal else "mean")
    if pooling == "rank" and not info.has_ranking_head:
        if options.pooling is None:  # the header asks for a head that the file lacks
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
    """Tokens that each slot holds. For an encoder, which has no slots, `embedding_context_of`.

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
    """The most tokens a slot can have: what the model was trained for, or what RoPE scaling stretches that to."""
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


def place(
    info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo], most_layers: int | None = None
) -> tuple[list[DeviceInfo], PlacingResult, bool]:
    """The GPUs in use, what each holds, and whether the user insists. Raises `DeviceUnavailable`, `InvalidParameter`.

    `most_layers`: upper bound for layers on GPUs, if their number is automatic; where the CPU keeps as many experts as
    do not fit, for layers and layers with experts together.
    """
    gpus = device_choice.gpus_of(options, devices)
    wish = Wish(options.split, device_choice.shares_of(options, gpus))
    demand = demand_of(info, options, sizes_of(info, device_choice.overrides_of(options, devices, gpus)))
    every, cpu_experts = info.num_layers + 1, _cpu_experts(info, options)
    if options.gpu_layers == "auto":
        if options.n_cpu_moe == "auto":
            placed = fit_experts(demand, gpus, wish, most_layers)
        else:
            most = every if most_layers is None else min(most_layers, every)
            placed = fit_layers(demand, gpus, wish, most, cpu_experts)
        named = options.devices is not None and bool(gpus)  # naming a GPU means insisting on it
        if named and not placed.layers and most_layers is None:
            raise DeviceUnavailable(f"no layer of the model fits on {gpus[0].name}", param="device")
        return gpus, placed, named and placed.layers > 0
    wanted = every if options.gpu_layers == "all" else min(options.gpu_layers, every)
    if wanted and not gpus:
        raise DeviceUnavailable(
            f"gpu_layers {options.gpu_layers} was requested, but no GPU is in use; `localllm doctor` lists devices, "
            "--gpu-layers 0 runs on the CPU",
            param="gpu_layers",
        )
    return gpus, put_layers(demand, gpus, wish, wanted, cpu_experts), wanted > 0


def _cpu_experts(info: ModelInfo, options: LoadOptions) -> range:
    """Layers whose experts are to stay on the CPU by request."""
    wanted = {"auto": 0, "all": info.num_layers}.get(str(options.n_cpu_moe), options.n_cpu_moe)
    return range(min(int(wanted), info.num_layers))


def shares_without_heads(
    info: ModelInfo, options: LoadOptions, placement: Placement, devices: Sequence[DeviceInfo]
) -> tuple[DeviceShare, ...]:
    """What a placement, planned for the same devices, holds if the model's own NextN layers do not guess after all."""
    layers = {share.device: share.layers for share in placement.shares}
    gpus = device_choice.gpus_of(options, devices)
    wish = Wish(options.split, device_choice.shares_of(options, gpus))
    overrides = device_choice.overrides_of(options, devices, gpus)
    demand = demand_of(info, msgspec.structs.replace(options, mtp="off"), sizes_of(info, overrides))
    counts = [layers.get(gpu.name, 0) for gpu in gpus]
    return placing.place(demand, gpus, wish, counts, placement.cpu_experts).shares[-len(layers) :]


def demand_of(info: ModelInfo, options: LoadOptions, sizes: Sizes) -> Demand:
    """What a placement must hold with these options."""
    flash = options.flash_attn != "off"
    if not info.causal:
        return encoders.demand_of(info, sizes, embedding_context_of(info, options), flash=flash)
    kept, heads = memory_bytes(info, options, flash=flash), heads_of(info, options)
    if kept:
        kept[-1] += heads.kept
    step, experts = step_of(info, options, flash=flash), sizes.largest_experts
    copies = buffers.MORE_COPIES * buffers.input_bytes(info, step, flash=flash)
    return Demand(
        sizes=sizes,
        kept=kept,
        compute=compute_bytes(info, options, flash=flash) + heads.compute,
        compute_partly=compute_bytes(info, options, flash=flash, copied=max(kept, default=0), experts=experts)
        + heads.compute,
        compute_experts=compute_bytes(info, options, flash=flash, experts=experts) + heads.compute,
        compute_output=buffers.head_bytes(info, step),
        copies=copies,
        copies_later=buffers.MORE_COPIES * buffers.mask_bytes(info, step, flash=flash),
        copies_host=copies,
        host=buffers.host_bytes(info, step, flash=flash),
        host_alone=cpu_compute_bytes(info, options) + heads.compute,
        outputs=output_bytes(info, options) + heads.host,
        expert_cache=options.moe_cache_mb * 10**6,
    )


def cpu_memory_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """Keys, values and states of all slots, for a model on the CPU; the larger size if `auto` may choose flash
    attention or not."""
    return max(sum(memory_bytes(info, options, flash=flash)) for flash in _possible_flash(info, options))


def _possible_flash(info: ModelInfo, options: LoadOptions) -> tuple[bool, ...]:
    """Whether the worker uses flash attention on the CPU; both answers if it is to measure."""
    return {"on": (True,), "off": (False,), "auto": (True, False)}[_flash_attn(info, options, uses_gpus=False)[0]]


def memory_bytes(info: ModelInfo, options: LoadOptions, *, flash: bool) -> list[int]:
    """Keys, values and states of all slots, per layer, as llama.cpp allocates them (llama-kv-cache*.cpp).

    Without flash attention the values of every layer take as much as those of the widest layer.
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
    """Keys, values and states of the embedding context: F16, and windowed layers keep all cells."""
    states = 4 * EMBEDDING_STATES
    return sum(_cells_bytes(layer, cells, "f16", 0) + states * layer.state for layer in info.layer_memory)
