"""One model in memory, ready to compute: the parts of `engine.backend.Backend`, made together and freed together.

    context -> adapters -> batch -> states -> cells -> decoder          made in this order, freed in the reverse one

What else lives as long as a context enters here. Knows nothing of what parts do.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from localllm.engine.backend import BackendError, Segment
from localllm.errors import LoadFailed
from localllm.llama.adapters.lora import LlamaAdapters
from localllm.llama.batch import Batch, RowsBatch
from localllm.llama.cells import LlamaCells
from localllm.llama.context import Attention, Batching, KvMemory, LlamaContext
from localllm.llama.decoder import LlamaDecoder
from localllm.llama.drafts.target_vectors import CellsWithVectors, KeptVectors, TargetVectors
from localllm.llama.interrupts import Interrupt
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.states.memory_trial import try_memory
from localllm.llama.states.saved import SavedStates
from localllm.llama.tokens.vocab import Vocab
from localllm.types.loading import Loading

AS_SUPPORTED = Attention()
DEFAULT_ADAPTER_BYTES = Loading().lora_mb * 10**6


@dataclass(frozen=True)
class LlamaBackend:
    """Implements `engine.backend.Backend`. Made by `open_backend`; `free` it before its model is closed."""

    context: LlamaContext
    decoder: LlamaDecoder
    cells: LlamaCells
    vocab: Vocab
    adapters: LlamaAdapters
    vectors: TargetVectors | None
    """What drafts guess from; None: not kept."""
    _lifetime: ExitStack

    def free(self) -> None:
        """Release all but the model. Saved states remain valid. Idempotent."""
        self._lifetime.close()


def open_backend(
    library: Library,
    model: LlamaModel,
    kv: KvMemory,
    batching: Batching,
    *,
    threads: int,
    attention: Attention = AS_SUPPORTED,
    kept: KeptVectors | None = None,
    adapter_bytes: int = DEFAULT_ADAPTER_BYTES,
) -> LlamaBackend:
    """Allocates the KV cache and computes two tokens. `kept`: vectors for drafts. `adapter_bytes`: limit of loaded
    adapters. Raises `LoadFailed`."""
    is_asynchronous = not model.has_cpu_tensors and library.is_asynchronous(model.layers_per_device)
    with ExitStack() as lifetime:
        context = LlamaContext(library, model, kv, batching, threads=threads, attention=attention)
        lifetime.callback(context.free)
        adapters = LlamaAdapters(library, model, context, max_bytes=adapter_bytes)
        lifetime.callback(adapters.free)
        batch = Batch(context.api, context.batch_capacity)
        lifetime.callback(batch.free)
        interrupt = Interrupt(context.api, context.handle, context.memory, wanted=not model.devices)
        traits = try_memory(context, model, batch)
        if kv.num_cells is not None and not traits.can_rewind:
            raise LoadFailed(
                f"a {traits.kind} memory has no unified layout here; leave out --kv and --kv-cells", param="kv"
            )
        states = SavedStates(context, traits, kv.states_bytes, competes=not is_asynchronous)
        lifetime.callback(states.close)
        vectors = None if kept is None else TargetVectors(context, model, batch, kept)
        cells = (
            LlamaCells(context, traits, states)
            if vectors is None
            else CellsWithVectors(context, traits, states, vectors)
        )
        vocab = Vocab(context.api, model.vocab)
        decoder = LlamaDecoder(
            context,
            cells,
            batch,
            RowsBatch(context.api, context.batch_capacity, model.input_width, model.position_sections)
            if model.takes_rows
            else None,
            interrupt,
            adapters=adapters,
            vocab_size=vocab.size,
            threads=threads,
            is_asynchronous=is_asynchronous,
        )
        backend = LlamaBackend(context, decoder, cells, vocab, adapters, vectors, lifetime.pop_all())
    if vectors is not None:
        _warm_up(backend)
    return backend


def _warm_up(backend: LlamaBackend) -> None:
    """llama.cpp allocates memory for vectors with the next decode: with this one."""
    try:
        backend.decoder.decode([Segment(0, 0, [0], num_outputs=1)])
        backend.decoder.synchronize()
    except BackendError as error:
        backend.free()
        raise LoadFailed(f"the model is loaded but cannot compute: {error}") from error
    backend.cells.truncate(0, 0)
