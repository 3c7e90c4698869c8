"""Decides whether a loaded model uses flash attention: as its placement says, or as measured here.

A measurement is remembered in the data directory per library build, CPU, model and thread count. Does not know how it
is made (`llama.probes.flash_attention_probe`) and judged (`llama.probes.flash_attention`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.probes import flash_attention, flash_attention_probe
from localllm.llama.probes.flash_attention import Choice, Figures
from localllm.llama.probes.flash_attention_probe import ProbeShape
from localllm.measuring.conditions import conditions_here
from localllm.measuring.result_store import ResultStore
from localllm.types import FlashAttn, ModelInfo
from localllm.worker.messages import Load
from localllm.worker.states.identity import model_identity

FILE_NAME = "attention.json"
MAX_REMEMBERED = 64
"""Number of measurements kept; the oldest is dropped."""


class AttentionChoice(NamedTuple):
    """How attention is computed."""

    flash_attn: FlashAttn
    """`auto`: with flash attention if llama.cpp supports it for this model."""
    ubatch_tokens: int
    """llama.cpp's ubatch size."""
    reason: str


def settle(library: Library, model: LlamaModel, load: Load, threads: int, data_dir: Path) -> AttentionChoice:
    """The placement's choice; if that is `auto` on the CPU, the faster one, as measured now or at an earlier load."""
    placed = load.placement
    if placed.flash_attn != "auto" or placed.gpu_layers > 0:
        return AttentionChoice(placed.flash_attn, placed.ubatch_tokens, placed.flash_attn_reason)
    choice = _choice(library, model, load, threads, data_dir)
    if choice.flash:
        return AttentionChoice("auto", placed.ubatch_tokens, choice.reason)
    return AttentionChoice("off", placed.plain_ubatch_tokens, choice.reason)


def _choice(library: Library, model: LlamaModel, load: Load, threads: int, data_dir: Path) -> Choice:
    shape, ctx = shape_of(load.info), load.placement.ctx
    if shape is None:
        return Choice(True, "no layer of this model attends to all tokens")
    max_rows = min(load.placement.ubatch_tokens, load.placement.plain_ubatch_tokens)
    memory = ResultStore(data_dir / FILE_NAME, Figures, most=MAX_REMEMBERED, subject="which attention is faster")
    threads_batch = load.options.threads_batch or threads
    counts = str(threads) if threads_batch == threads else f"{threads} {threads_batch}"
    here = conditions_here(library=library.build.fingerprint, backend=model.backend)
    depth = flash_attention_probe.depth_of(shape, ctx)
    name = here.key(model_identity(load), counts, str(depth), str(max_rows))
    figures = memory.get(name)
    if figures is None or not figures.is_final:
        measure = partial(
            flash_attention_probe.measure,
            library, model, shape, ctx=ctx, threads=threads, threads_batch=threads_batch, max_rows=max_rows,
        )  # fmt: skip
        now = measure()
        if not flash_attention.choose(
            now, ctx
        ).flash:  # of 16 measurements near the bound, noise alone decided 4 that way
            now = flash_attention.fastest(now, measure())
        figures = flash_attention.merged(figures, now, ctx)
        memory.put(name, figures)
    return flash_attention.choose(figures, ctx)


def shape_of(info: ModelInfo) -> ProbeShape | None:
    """What a measurement depends on; None if no layer attends to all tokens."""
    attending = [index for index, layer in enumerate(info.layer_memory) if layer.keys and not layer.is_windowed]
    if info.layer_memory and not attending:
        return None
    return ProbeShape(
        num_parameters=info.num_parameters,
        num_layers=info.num_layers,
        first_attention=attending[0] if attending else 0,
        token_bytes=2 * sum(info.layer_memory[index].keys + info.layer_memory[index].values for index in attending),
        num_heads=info.num_heads or 1,
    )
