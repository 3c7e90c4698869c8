"""Options for loading a model, as sent to its worker.

Knows neither settings nor plans.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.errors import InvalidParameter
from localllm.types import FlashAttn, GpuLayers, GrammarLimits, KvType, Pooling, Repack, ThinkingDefault
from localllm.types.devices import Numa, Split, check_devices, check_overrides, check_reading, check_split
from localllm.types.ranges import check_range
from localllm.types.ropes import RopeScaling, check_rope

DEFAULT_UBATCH = 512
"""Tokens."""


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to load a model. `ctx`: tokens of each slot; None: the model's own, at most 8,192, or what
    `supervisor.contexts` finds memory for."""

    ctx: int | None = None
    slots: int | None = None
    gpu_layers: GpuLayers = "auto"
    devices: tuple[str, ...] | None = None
    """As `localllm.types.devices.named` reads them; None: all GPUs."""
    split: Split = "layer"
    """How a model is split over several devices; `none`: it is on a single one."""
    main_gpu: str | None = None
    """The device for `split` none, or for tensors that `split` row does not divide: name, or index in `devices`."""
    tensor_split: tuple[float, ...] | None = None
    """Share of each device, in order; None: by free memory."""
    override_tensor: tuple[tuple[str, str], ...] = ()
    """Pattern for names of tensors -> their device; the first matching pattern counts."""
    mmap: bool | None = None
    """Whether the file is mapped into memory instead of read; None: if all devices support that."""
    mlock: bool = False
    """Whether to lock weights in main memory, so that they are never swapped out."""
    direct_io: bool = False
    """Whether reading bypasses the page cache."""
    numa: Numa | None = None
    """How threads are spread over NUMA nodes; None: as the system does it."""
    threads: int | None = None
    threads_batch: int | None = None
    """Threads for prompts; None: as many as `threads`."""
    ubatch: int | None = None
    """Tokens computed together: llama.cpp's ubatch; None: 512. A prompt alone is passed in batches of up to 2,048."""
    kv_ram_mb: int = 2048
    """Main memory, in MB, for conversations evicted from their slots, and for checkpoints; 0: none."""
    checkpoints: int = 8
    """Checkpoints per conversation, for memories that cannot drop their tail; 0: it is only continued or recomputed."""
    kv: Literal["auto", "partitioned", "unified"] = "auto"
    kv_type: KvType = "f16"
    """Type of keys and values in the cache."""
    flash_attn: FlashAttn = "auto"
    repack: Repack = "auto"
    """Whether to repack weights for the CPU during loading; auto: if it works and they are not locked."""
    kv_cells: int | None = None
    """Capacity in tokens of a unified cache, for all slots together; None: `ctx` per slot."""
    kv_disk_mb: int = 0
    """Disk space, in MB, for conversations and saved slots of all models, which outlive the process; 0: none."""
    context_shift: bool = False
    """Whether an answer that fills its slot continues without the oldest tokens, and reports that."""
    max_step_ms: int = 300
    """Limit for steps that cannot be interrupted, and so for the wait of a cancellation or a new request. On the CPU,
    prompt steps can be interrupted while no answer streams (except with recurrent and hybrid models); they take as
    long as their batch."""
    prefill_step_ms: int = 100
    """Limit for steps that compute prompts while answers stream: lower makes streams smoother and prompts slower."""
    stream_interval_ms: int = 33
    """The shortest time between two parts of an answer, but for the first and the last; tokens of fast models are sent
    together. 0: each step's at once."""
    pooling: Pooling | None = None
    """Pooling of embeddings; None: as the model states, else `mean` for encoders and `last` for others."""
    embedding_ctx: int | None = None
    """Length limit in tokens for texts to embed; None: the trained context, at most 2,048."""
    grammar: GrammarLimits = GrammarLimits()
    chat_template: str | None = None
    """Jinja, its file, or a name (`chatml`, `command-r`, `gemma`, `llama2`, `llama3`, `phi3`); None: its own."""
    thinking: ThinkingDefault = "auto"
    """Whether the model thinks if a request does not say; auto: as its template decides."""
    speculation: Literal["auto", "off"] = "auto"
    mtp: Literal["auto", "off"] = "auto"
    """Whether the model's own NextN layers guess tokens; auto: if llama.cpp supports them."""
    draft: str | None = None
    """A smaller model with the same vocabulary, an EAGLE-3 or DFlash draft, or a Gemma 4 assistant, that drafts tokens:
    its name or file; `auto`: the catalog's choice for this model, if it is on this machine; None: none."""
    rope_scaling: RopeScaling | None = None
    """None: as the model states. Contexts for embedding are never scaled."""
    rope_scale: float | None = None
    """Factor by which the context may exceed the trained one."""
    yarn_orig_ctx: int | None = None
    """The trained context in tokens, before any scaling; None: as the model states."""

    @property
    def ubatch_tokens(self) -> int:
        """Tokens computed together."""
        return DEFAULT_UBATCH if self.ubatch is None else self.ubatch

    def __post_init__(self) -> None:
        check_range("ctx", self.ctx, 8, 2**24)
        check_range("slots", self.slots, 1, 256)
        check_range("threads", self.threads, 1, 1024)
        check_range("threads_batch", self.threads_batch, 1, 1024)
        check_range("ubatch", self.ubatch, 32, 8192)
        check_range("kv_ram_mb", self.kv_ram_mb, 0, 2**24)
        check_range("kv_disk_mb", self.kv_disk_mb, 0, 2**30)
        check_range("checkpoints", self.checkpoints, 0, 256)
        check_range("kv_cells", self.kv_cells, 256, 2**28)
        if self.kv_cells is not None and self.kv == "partitioned":
            raise InvalidParameter("kv_cells is for a unified cache; leave out kv_cells or kv", param="kv_cells")
        if self.kv_type != "f16" and self.flash_attn == "off":
            raise InvalidParameter(f"kv_type {self.kv_type} needs flash attention; leave one out", param="flash_attn")
        if self.draft not in (None, "auto") and self.speculation == "off":
            raise InvalidParameter("a draft has no effect with speculation off; leave one out", param="draft")
        check_range("max_step_ms", self.max_step_ms, 10, 60_000)
        check_range("prefill_step_ms", self.prefill_step_ms, 10, 60_000)
        check_range("stream_interval_ms", self.stream_interval_ms, 0, 1000)
        check_range("embedding_ctx", self.embedding_ctx, 8, 2**20)
        check_rope(self.rope_scaling, self.rope_scale, self.yarn_orig_ctx)
        check_devices(self.devices)
        check_split(self.split, self.main_gpu, self.tensor_split)
        check_overrides(self.override_tensor)
        check_reading(mmap=self.mmap, mlock=self.mlock, direct_io=self.direct_io)
        if self.mlock and self.repack == "on":
            raise InvalidParameter("repack: repacked weights cannot be locked (mlock); leave one out", param="repack")
        if isinstance(self.gpu_layers, int):
            check_range("gpu_layers", self.gpu_layers, 0, 2**31 - 1)
