"""Settings for loading a model, each of which may also be set for a single model.

Knows neither where they are from nor what a plan makes of them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.rpc.endpoints import parse_endpoints
from localllm.settings.values import comma_list
from localllm.types import FlashAttn, GpuLayers, KvType, Pooling, Repack, RopeScaling, ThinkingDefault
from localllm.types.devices import Numa, Split, parse_overrides, parse_shares
from localllm.types.load_options import LoadOptions


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults; `localllm.settings.config.Settings` combines them with all others."""

    ctx: int | None = None
    slots: int = 4
    threads: int | None = None
    threads_batch: int | None = None
    """Threads for prompts; None: as many as `threads`."""
    ubatch: int | None = None
    """Tokens of a prompt that are computed at once; None: 512, or what `localllm tune` found to be faster."""
    gpu_layers: GpuLayers = "auto"
    device: str | None = None
    """Comma-separated names as `localllm doctor` prints them, in any case; a backend's (`cuda`) for all its devices;
    `rpc:HOST:PORT`; `cpu`. auto: all GPUs."""
    split: Split = "layer"
    """How a model is split over devices: whole layers, rows of matrices, tensors in parallel, or not at all."""
    main_gpu: str | None = None
    """With `split` none the device for everything, with row the one for what is not split: its name, or its index among
    the devices."""
    tensor_split: str | None = None
    """Comma-separated shares of the devices (`3,1`); None: by their free memory."""
    override_tensor: str | None = None
    """Comma-separated, each `PATTERN=DEVICE`: tensors whose name contains a match of the regular expression go there.
    """
    mmap: bool | None = None
    """Whether the file is mapped into memory; None: where all devices can use it so."""
    mlock: bool = False
    """Weights in main memory are never swapped out; an error where the system's limit forbids it."""
    direct_io: bool = False
    """The file is read past the system's cache, which remains available to others."""
    numa: Numa | None = None
    """How threads are spread over the nodes of a machine that has several: distribute, isolate or numactl."""
    runtime: str = "auto"
    """Which llama.cpp, by its name in `localllm runtime list`; auto: what works here and is fastest."""
    rpc: str | None = None
    """Comma-separated `HOST:PORT`, where `localllm worker` offers devices of other machines to this one."""
    kv_ram_mb: int = 2048
    """Main memory, in MB, for idle conversations that had to leave their slots, and for checkpoints; 0: none."""
    checkpoints: int = 8
    """Per conversation, for models that cannot drop tokens (recurrent, sliding window); 0: none."""
    kv: Literal["auto", "partitioned", "unified"] = "auto"
    """Each slot with a KV cache of its own, or all with one; auto: what was measured to be faster."""
    kv_type: KvType = "f16"
    """Type of keys and values in the cache: smaller ones are less exact."""
    flash_attn: FlashAttn = "auto"
    """How attention is computed; auto: what was measured to be faster. Off needs memory for all scores of a step."""
    repack: Repack = "auto"
    """Whether weights are repacked for this CPU as they are loaded; auto: where that works."""
    kv_cells: int | None = None
    """Tokens that a unified cache holds for all slots together; None: ctx for each."""
    context_shift: bool = False
    """An answer that reaches the end of its context continues without the oldest tokens, and says so."""
    max_step_ms: int = 300
    """The longest planned duration of one step of the model."""
    prefill_step_ms: int = 100
    """The longest planned duration of a step that computes prompts while answers stream."""
    pooling: Pooling | None = None
    """How embeddings are made: none, mean, cls, last or rank; None: as the model says."""
    embedding_ctx: int | None = None
    """Tokens of the longest text to embed; None: what the model was trained for, at most 2,048."""
    chat_template: str | None = None
    """Jinja, a file of it, or the name of a template (chatml, command-r, gemma, llama2, llama3, phi3), for every model
    that is loaded; None: the model's own."""
    thinking: ThinkingDefault = "auto"
    """Whether models that can think do so where a request does not say; auto: as each template does."""
    speculation: Literal["auto", "off"] = "auto"
    """Whether tokens are guessed, and verified several at a time, where that pays: the answer is the same."""
    mtp: Literal["auto", "off"] = "auto"
    """Whether the model's own NextN layers (multi-token prediction) guess tokens; auto: where llama.cpp computes them.
    """
    draft: str | None = None
    """A smaller model with the same vocabulary that drafts tokens: its name or file; auto: the catalog's choice for the
    model, if it is on this machine; None: none."""
    rope_scaling: RopeScaling | None = None
    """RoPE scaling, so that the context may be longer than the trained one; None: as the model says."""
    rope_scale: float | None = None
    """Factor by which the context may exceed the trained one."""
    yarn_orig_ctx: int | None = None
    """Tokens that the model was trained for before any stretching; None: as it says."""

    @property
    def devices(self) -> tuple[str, ...] | None:
        names = comma_list(self.device)
        return None if [name.lower() for name in names] == ["auto"] else names or None

    def load_options(self) -> LoadOptions:
        """The options for a worker. Raises `InvalidParameter`."""
        parse_endpoints(self.rpc)  # checked here; its process gets the text unchanged
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
"""Their names."""
