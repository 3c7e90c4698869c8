"""From a `Load` message to a model in memory with its slots, and the `LoadedModel` that describes the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localllm.engine.backend import BackendError, Piece
from localllm.engine.speculation.draft_backend import DraftBackend
from localllm.engine.speculation.head_streams import HeadStreams
from localllm.engine.speculation.streams import DraftStreams
from localllm.errors import LoadFailed
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.drafts.draft_model import LlamaDraft
from localllm.llama.drafts.nextn import LlamaHeads
from localllm.llama.drafts.target_vectors import KeptVectors
from localllm.llama.embedding import LlamaEmbedder
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.rope import rope_of
from localllm.llama.spread import Spread, use_numa
from localllm.llama.tokens.grammar_tokens import GrammarTokens
from localllm.llama.tokens.vocab import Vocab
from localllm.planning.tuned import AS_TUNED
from localllm.system import cpu
from localllm.types import ChatFormat, LoadedModel, SamplingParams, SourceName
from localllm.worker.attention import AttentionChoice, settle
from localllm.worker.drafts.draft_model import check_layers, load_draft
from localllm.worker.drafts.nextn_context import has_heads, kept_for, load_heads
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
    draft: DraftBackend | None
    """The draft model, or the model's own heads."""
    streams: DraftStreams | None
    """The streams of heads or of a draft that guesses from hidden states; None for others."""


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
    placement = load.placement
    threads = load.options.threads or cpu.num_physical_cores()
    threads_batch = load.options.threads_batch or threads
    if load.options.numa is not None:
        use_numa(library.api, library.ggml, load.options.numa)
    kept = kept_for(library, load)
    model = LlamaModel(
        library,
        Path(load.path),
        gpu_layers=placement.gpu_layers,
        devices=placement.devices,
        must_offload=placement.must_offload,
        spread=_spread(load),
        has_heads=has_heads(load, kept),
        on_progress=on_progress,
    )

    def make_embedder() -> LlamaEmbedder:
        return LlamaEmbedder(
            library,
            model,
            causal=load.info.causal,
            pooling=placement.pooling,
            ctx=placement.embedding_ctx,
            threads=threads_batch,
            is_offloaded=bool(placement.devices),
            flash_attn=load.options.flash_attn,
        )

    attention = settle(library, model, load, threads, data_dir) if load.info.causal else None
    tokens = None
    if attention is not None:  # concurrently with what follows, but after the measurements
        tokens = Later(lambda: GrammarTokens(library.api, model.vocab), "grammar-tokens")
    vocab = Vocab(library.api, model.vocab)
    format = Later(lambda: _format(templates, load, vocab), "chat-format")
    wanted, no_draft = load.draft, load.no_draft
    if wanted is not None:
        try:
            check_layers(library, wanted, model, load.info.architecture)
        except LoadFailed as error:
            wanted, kept, no_draft = None, None, _excused(load, error)
    backend = None if attention is None else _backend(library, model, load, threads, attention, kept)
    draft: LlamaDraft | LlamaHeads | None = None
    if wanted is not None and backend is not None:
        try:
            draft = load_draft(library, load, wanted, model, backend, threads)
        except LoadFailed as error:
            no_draft = _excused(load, error)
    heads, no_heads = load_heads(library, model, load, backend, threads)
    if backend is not None and backend.vectors is not None and draft is None and heads is None:
        backend.vectors.stop()
    report = LoadedModel(
        id=load.model_id,
        path=load.path,
        info=load.info,
        ctx=placement.ctx if backend is None else backend.cells.slot_capacity,
        slots=placement.slots,
        memory="attention" if backend is None else backend.cells.memory_kind,
        kv=placement.kv,
        kv_reason=placement.kv_reason,
        format=format(),
        flash_attn="on"
        if (load.options.flash_attn != "off" if backend is None else backend.context.flash_attn)
        else "off",
        flash_attn_reason="" if attention is None or backend is None else _reason(attention, backend),
        speculation="off" if backend is None or _why_no_guesses(load, backend) else "auto",
        speculation_reason="" if backend is None else _why_no_guesses(load, backend),
        draft="" if load.draft is None or draft is None else load.draft.id,
        draft_reason=no_draft,
        sources=() if backend is None or _why_no_guesses(load, backend) else _sources(draft, heads),
        mtp_reason=no_heads,
        threads=threads,
        threads_batch=threads_batch,
        ubatch=0 if backend is None else backend.decoder.ubatch_capacity,
        tuned=load.tuned,
        layers_per_device=model.layers_per_device,
        placement_note=placement.note,
        backend=model.backend,
        load_s=time.perf_counter() - started,
        created_unix_s=int(time.time()),
        pooling=placement.pooling,
        embedding_ctx=placement.embedding_ctx,
        dimensions=model.dimensions,
        defaults=load.defaults.params,
        sampling=resolve_sampling(with_defaults(SamplingParams(), load.defaults.params), load.info.sampling),
        bos_text=vocab.bos_text,
        eos_text=vocab.eos_text,
    )
    following = draft if isinstance(draft, LlamaHeads) else heads
    streams = None if following is None else HeadStreams(following)
    vocab = vocab if backend is None else backend.vocab
    return ModelInMemory(report, vocab, backend, make_embedder, tokens, heads if draft is None else draft, streams)


def _excused(load: Load, error: LoadFailed) -> str:
    """Why the model is loaded without its draft; raises the error again if the user named the draft."""
    if load.options.draft != "auto":
        raise error
    return error.message


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


def _why_no_guesses(load: Load, backend: LlamaBackend) -> str:
    """Empty if guesses are made."""
    if load.options.speculation == "off":
        return AS_TUNED if "speculation" in load.tuned_settings else "as requested"
    if not backend.cells.max_rollback:
        return f"a {backend.cells.memory_kind} memory of this architecture cannot roll back wrong guesses"
    return ""


def _sources(draft: object | None, heads: object | None) -> tuple[SourceName, ...]:
    found: tuple[SourceName, ...] = ("lookup", "prediction")
    return (*found, "draft") if draft is not None else (*found, "mtp") if heads is not None else found


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
        ),
        Batching(max(WHOLE_BATCH, options.ubatch_tokens), attention.ubatch_tokens, placement.max_outputs),
        threads=threads,
        attention=Attention(attention.flash_attn, rope_of(options)),
        kept=kept,
    )


def warm_up_embedder(embedder: LlamaEmbedder) -> LlamaEmbedder:
    """Computes one token; returns it. Raises `LoadFailed`."""
    try:
        embedder.compute([Piece(0, 0, [0], is_last=True)])
    except BackendError as error:
        raise LoadFailed(f"the model is loaded but cannot compute: {error}") from error
    return embedder
