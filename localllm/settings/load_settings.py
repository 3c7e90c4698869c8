"""Settings for loading a model, each of which may also be set for a single model.

Knows neither their sources nor their effect on a plan.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.settings.values import comma_list
from localllm.types import FlashAttn, GpuLayers, KvType, Pooling, Repack, RopeScaling, ThinkingDefault
from localllm.types.devices import Numa, Split, parse_overrides, parse_shares
from localllm.types.load_options import LoadOptions
from localllm.types.rpc_endpoints import parse_endpoints


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings with their defaults; `localllm.settings.config.Settings` adds all others."""

    ctx: int | None = None
    slots: int = 4
    threads: int | None = None
    threads_batch: int | None = None
    """Threads for prompts; None: as many as `threads`."""
    ubatch: int | None = None
    """Prompt tokens computed per batch; None: 512, or what `localllm tune` found to be faster."""
    gpu_layers: GpuLayers = "auto"
    device: str | None = None
    """Comma-separated names as `localllm doctor` prints them, in any case; a backend's (`cuda`) for all its devices;
    `rpc:HOST:PORT`; `cpu`. auto: all GPUs."""
    split: Split = "layer"
    """How a model is split over devices: by layers, by rows of matrices, by tensors in parallel, or not at all."""
    main_gpu: str | None = None
    """The device for the whole model (with `split` none) or for the unsplit parts (with row): its name, or its index
    among the devices."""
    tensor_split: str | None = None
    """Comma-separated shares of the devices (`3,1`); None: by their free memory."""
    override_tensor: str | None = None
    """Comma-separated, each `PATTERN=DEVICE`: tensors whose name contains a match of the regular expression go there.
    """
    mmap: bool | None = None
    """Whether the file is mapped into memory; None: if all devices support it."""
    mlock: bool = False
    """Weights in main memory are never swapped out, nor repacked; an error if the system's limit forbids it."""
    direct_io: bool = False
    """The file is read bypassing the system's page cache, which remains available to other programs."""
    numa: Numa | None = None
    """How threads are spread over the nodes of a machine that has several: distribute, isolate or numactl."""
    runtime: str = "auto"
    """The llama.cpp to use, by its name in `localllm runtime list`; auto: the fastest one that works here."""
    rpc: str | None = None
    """Comma-separated `HOST:PORT` of other machines whose devices `localllm worker` offers."""
    kv_ram_mb: int = 2048
    """Main memory, in MB, for idle conversations evicted from their slots, and for checkpoints; 0: none."""
    checkpoints: int = 8
    """Checkpoints per conversation, for models that cannot drop tokens (recurrent, sliding window); 0: none."""
    kv: Literal["auto", "partitioned", "unified"] = "auto"
    """One KV cache per slot, or one for all; auto: the faster one, as measured."""
    kv_type: KvType = "f16"
    """Type of keys and values in the cache: smaller types are less precise."""
    flash_attn: FlashAttn = "auto"
    """Whether to use flash attention; auto: if it is faster, as measured. Off needs memory for all scores of a step."""
    repack: Repack = "auto"
    """Whether weights are repacked for this CPU while loading; auto: if possible, and without mlock."""
    kv_cells: int | None = None
    """Size of a unified cache in tokens, shared by all slots; None: ctx for each."""
    context_shift: bool = False
    """An answer that reaches the end of its context continues without the oldest tokens, and reports it."""
    max_step_ms: int = 300
    """The longest planned duration of one step of the model."""
    prefill_step_ms: int = 100
    """The longest planned duration of a step that computes prompts while answers stream."""
    stream_interval_ms: int = 33
    """The shortest time between two parts of a streamed answer, but for its first and last; 0: every token at once."""
    pooling: Pooling | None = None
    """How embeddings are pooled: none, mean, cls, last or rank; None: as the model specifies."""
    embedding_ctx: int | None = None
    """Tokens of the longest text to embed; None: the trained context, at most 2,048."""
    chat_template: str | None = None
    """A Jinja template, a file with one, or a name (chatml, command-r, gemma, llama2, llama3, phi3), for every loaded
    model; None: the model's own."""
    thinking: ThinkingDefault = "auto"
    """Whether models that can think do so by default; auto: as each template does."""
    speculation: Literal["auto", "off"] = "auto"
    """Whether tokens are guessed and verified several at a time, if that is faster; the answer is the same."""
    mtp: Literal["auto", "off"] = "auto"
    """Whether the model's own NextN layers (multi-token prediction) guess tokens; auto: if llama.cpp supports them.
    """
    draft: str | None = None
    """A smaller model with the same vocabulary, an EAGLE-3 or DFlash draft, or a Gemma 4 assistant, that drafts tokens:
    its name or file; auto: the catalog's choice for the model, if it is on this machine; None: none."""
    rope_scaling: RopeScaling | None = None
    """RoPE scaling, so that the context may be longer than the trained one; None: as the model specifies."""
    rope_scale: float | None = None
    """Factor by which the context may exceed the trained one."""
    yarn_orig_ctx: int | None = None
    """The originally trained context in tokens, before any RoPE scaling; None: as the model specifies."""

    @property
    def devices(self) -> tuple[str, ...] | None:
        names = comma_list(self.device)
        return None if [name.lower() for name in names] == ["auto"] else names or None

    def load_options(self) -> LoadOptions:
        """The options for a worker. Raises `InvalidParameter`."""
        parse_endpoints(self.rpc)  # only checked here; the worker gets the text unchanged
        return LoadOptions(
            ctx=self.ctx,
            slots=self.slots,
            threads=self.threads,
            threads_batch=self.threads_batch,
            ubatch=self.ubatch,
            gpu_layers=self.gpu_layers,
            devices=self.devices,
            split=self.split,
            main_gpu=self.main_gpu,
            tensor_split=parse_shares(self.tensor_split),
            override_tensor=parse_overrides(self.override_tensor),
            mmap=self.mmap,
            mlock=self.mlock,
            direct_io=self.direct_io,
            numa=self.numa,
            kv_ram_mb=self.kv_ram_mb,
            checkpoints=self.checkpoints,
            kv=self.kv,
            kv_type=self.kv_type,
            flash_attn=self.flash_attn,
            repack=self.repack,
            kv_cells=self.kv_cells,
            context_shift=self.context_shift,
            max_step_ms=self.max_step_ms,
            prefill_step_ms=self.prefill_step_ms,
            stream_interval_ms=self.stream_interval_ms,
            pooling=self.pooling,
            embedding_ctx=self.embedding_ctx,
            chat_template=self.chat_template,
            thinking=self.thinking,
            speculation=self.speculation,
            mtp=self.mtp,
            draft=self.draft,
            rope_scaling=self.rope_scaling,
            rope_scale=self.rope_scale,
            yarn_orig_ctx=self.yarn_orig_ctx,
        )


LOADING = tuple(field.name for field in msgspec.structs.fields(LoadSettings))
"""Names of the settings for loading a model."""
