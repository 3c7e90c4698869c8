"""From a `Load` message to a model in memory with its slots, and the `LoadedModel` that describes the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from localllm.engine.backend import BackendError, Piece
from localllm.errors import LoadFailed
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.drafts.making import KeptVectors
from localllm.llama.embedding import LlamaEmbedder
from localllm.llama.library import Library
from localllm.llama.media.opening import why_no_media
from localllm.llama.model import LlamaModel
from localllm.llama.rope import rope_of
from localllm.llama.spread import Spread, use_numa
from localllm.llama.tokens.grammar_tokens import GrammarTokens
from localllm.llama.tokens.vocab import Vocab
from localllm.system import cpu
from localllm.types import ChatFormat, LoadedModel, SamplingParams
from localllm.worker.attention import AttentionChoice, settle
from localllm.worker.drafts.guess_sources import GuessLoader, GuessSources
from localllm.worker.grammars.constraints import Later
from localllm.worker.messages import Load
from localllm.worker.prompts.sampling import resolve_sampling, with_defaults
from localllm.worker.prompts.template_child import TemplateChild

WHOLE_BATCH = 2048
"""Tokens that llama.cpp gets at once for a single prompt, computed in ubatches of `batch_tokens`."""


class ModelInMemory(NamedTuple):
    """A model in memory."""

    report: LoadedModel
    vocab: Vocab
    backend: LlamaBackend | None
    """None for an encoder, which does not generate."""
    make_embedder: Callable[[], LlamaEmbedder]
    """Makes a context for embeddings, when the first text arrives. Raises `LoadFailed`."""
    grammar_tokens: Later[GrammarTokens] | None
    """None for an encoder."""
    guesses: GuessSources


def load_model(
    library: Library,
    load: Load,
    on_progress: Callable[[float], None],
    data_dir: Path,
    templates: TemplateChild | None = None,
) -> ModelInMemory:
    """Loads, decides how attention is computed, allocates the KV cache and reports.

    `templates`: determines how the model writes its answers, if it has a chat template. Raises `LoadFailed`,
    `DeviceUnavailable`.
    """
    started = time.perf_counter()
    threads = load.options.threads or cpu.num_physical_cores()
    threads_batch = load.options.threads_batch or threads
    if load.options.numa is not None:
        use_numa(library.api, library.ggml, load.options.numa)
    guessing = GuessLoader(library, load)
    model = LlamaModel(
        library,
        Path(load.path),
        gpu_layers=load.placement.gpu_layers,
        devices=load.placement.devices,
        must_offload=load.placement.must_offload,
        spread=_spread(load),
        has_heads=guessing.loads_heads,
        on_progress=on_progress,
    )
    attention = settle(library, model, load, threads, data_dir) if load.info.causal else None
    tokens = None
    if attention is not None:  # concurrently with what follows, but after the measurements
        tokens = Later(lambda: GrammarTokens(library.api, model.vocab), "grammar-tokens")
    vocab = Vocab(library.api, model.vocab)
    format = Later(lambda: _format(templates, load, vocab), "chat-format")
    guessing.check(model)
    backend = None if attention is None else _backend(library, model, load, threads, attention, guessing.kept)
    guesses = guessing.sources(model, backend, threads)
    report = _report(
        load,
        model,
        backend,
        vocab=vocab,
        format=format(),
        flash_attn_reason="" if attention is None or backend is None else _reason(attention, backend),
        guesses=guesses,
        threads=threads,
        threads_batch=threads_batch,
        no_media="" if load.projector is None else why_no_media(library),
        load_s=time.perf_counter() - started,
    )
    make_embedder = partial(_embedder, library, model, load, threads_batch)
    return ModelInMemory(report, vocab if backend is None else backend.vocab, backend, make_embedder, tokens, guesses)


def _report(
    load: Load,
    model: LlamaModel,
    backend: LlamaBackend | None,
    *,
    vocab: Vocab,
    format: ChatFormat,
    flash_attn_reason: str,
    guesses: GuessSources,
    threads: int,
    threads_batch: int,
    no_media: str,
    load_s: float,
) -> LoadedModel:
    """What was loaded. `no_media`: why the library reads no pictures and sounds; empty: it does."""
    placement = load.placement
    projector = None if no_media else load.projector
    return LoadedModel(
        id=load.model_id,
        path=load.path,
        info=load.info,
        ctx=placement.ctx if backend is None else backend.cells.slot_capacity,
        slots=placement.slots,
        memory="attention" if backend is None else backend.cells.memory_kind,
        kv=placement.kv,
        kv_reason=placement.kv_reason,
        format=format,
        flash_attn="on"
        if (load.options.flash_attn != "off" if backend is None else backend.context.flash_attn)
        else "off",
        flash_attn_reason=flash_attn_reason,
        speculation="off" if guesses.is_off else "auto",
        speculation_reason=guesses.why_off,
        draft=guesses.draft_id,
        draft_reason=guesses.no_draft,
        sources=guesses.names,
        mtp_reason=guesses.no_heads,
        threads=threads,
        threads_batch=threads_batch,
        ubatch=0 if backend is None else backend.decoder.ubatch_capacity,
        tuned=load.tuned,
        layers_per_device=model.layers_per_device,
        cpu_experts=len(placement.cpu_experts),
        placement_note=placement.note,
        backend=model.backend,
        load_s=load_s,
        created_unix_s=int(time.time()),
        pooling=placement.pooling,
        embedding_ctx=placement.embedding_ctx,
        dimensions=model.dimensions,
        defaults=load.defaults.params,
        sampling=resolve_sampling(with_defaults(SamplingParams(), load.defaults.params), load.info.sampling),
        bos_text=vocab.bos_text,
        eos_text=vocab.eos_text,
        projector=None if projector is None else projector.info,
        projector_device=projector.device if projector else "",
        no_media=load.no_media or no_media,
    )


def _embedder(library: Library, model: LlamaModel, load: Load, threads: int) -> LlamaEmbedder:
    placement = load.placement
    return LlamaEmbedder(
        library,
        model,
        causal=load.info.causal,
        pooling=placement.pooling,
        ctx=placement.embedding_ctx,
        threads=threads,
        is_offloaded=bool(placement.devices),
        flash_attn=load.options.flash_attn,
    )


def _spread(load: Load) -> Spread:
    options, placement = load.options, load.placement
    return Spread(
        split=options.split if placement.devices else "layer",
        main_gpu=placement.main_gpu,
        tensor_split=placement.tensor_split,
        overrides=placement.overrides,
        mmap=options.mmap,
        mlock=options.mlock,
        direct_io=options.direct_io,
        repack=options.repack,
    )


def _format(templates: TemplateChild | None, load: Load, vocab: Vocab) -> ChatFormat:
    if templates is None or not load.info.causal:
        return ChatFormat()
    return templates.format_of_model(load.info.chat_templates, vocab.bos_text, vocab.eos_text)


def _reason(attention: AttentionChoice, backend: LlamaBackend) -> str:
    if attention.flash_attn == "auto" and not backend.context.flash_attn:
        return "llama.cpp does not support flash attention for this model here"
    return attention.reason


def _backend(
    library: Library, model: LlamaModel, load: Load, threads: int, attention: AttentionChoice, kept: KeptVectors | None
) -> LlamaBackend:
    options, placement = load.options, load.placement
    return open_backend(
        library,
        model,
        KvMemory(
            placement.ctx,
            placement.slots,
            num_cells=placement.num_cells if placement.kv == "unified" else None,
            kv_type=options.kv_type,
            snapshots=placement.snapshots,
            states_bytes=options.kv_ram_mb * 10**6,
            expert_cache_bytes=options.moe_cache_mb * 10**6 if placement.cpu_experts else 0,
        ),
        Batching(max(WHOLE_BATCH, options.ubatch_tokens), attention.ubatch_tokens, placement.max_outputs),
        threads=threads,
        attention=Attention(attention.flash_attn, rope_of(options)),
        kept=kept,
        adapter_bytes=options.lora_mb * 10**6,
    )


def warm_up_embedder(embedder: LlamaEmbedder) -> LlamaEmbedder:
    """Computes one token; returns it. Raises `LoadFailed`."""
    try:
        embedder.compute([Piece(0, 0, [0], is_last=True)])
    except BackendError as error:
        raise LoadFailed(f"the model is loaded but cannot compute: {error}") from error
    return embedder
