"""How a model is loaded, as its worker is told.

Knows neither settings nor what a plan makes of them.
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
    """As `localllm.types.devices.names_device` reads them; None: all GPUs there are."""
    split: Split = "layer"
    """How a model is split over several devices; none: it is on a single one."""
    main_gpu: str | None = None
    """The device for `split` none, or for what `split` row does not divide: its name, or its index among the devices.
    """
    tensor_split: tuple[float, ...] | None = None
    """Shares of the devices, in their order; None: by their free memory."""
    override_tensor: tuple[tuple[str, str], ...] = ()
    """Pattern found in tensors' names -> the device they go to; the first matching pattern counts."""
    mmap: bool | None = None
    """Whether the file is mapped into memory, not read; None: where all devices can use it so."""
    mlock: bool = False
    """The weights in main memory are never swapped out."""
    direct_io: bool = False
    """The file is read past the system's cache."""
    numa: Numa | None = None
    """How threads are spread over the nodes of a machine with several; None: as the system does it."""
    threads: int | None = None
    threads_batch: int | None = None
    """For prompts; None: as many as `threads`."""
    ubatch: int | None = None
    """Computed at once: llama.cpp's ubatch; None: 512. A prompt alone is given to it in batches of up to 2,048."""
    kv_ram_mb: int = 2048
    """Main memory, in MB, for conversations that had to leave their slots, and for checkpoints; 0: none."""
    checkpoints: int = 8
    """Per conversation, where the memory cannot drop its tail; 0: it is only continued or recomputed."""
    kv: Literal["auto", "partitioned", "unified"] = "auto"
    kv_type: KvType = "f16"
    """Type of keys and values in the cache."""
    flash_attn: FlashAttn = "auto"
    repack: Repack = "auto"
    """Whether weights are repacked for the CPU as they are loaded; auto: where that works."""
    kv_cells: int | None = None
    """Tokens that a unified cache holds for all slots together; None: `ctx` for each."""
    kv_disk_mb: int = 0
    """Disk, in MB, for all models' conversations and saved slots, so that they outlive the process; 0: none."""
    context_shift: bool = False
    """An answer that reaches the end of its slot continues without the oldest tokens, and says so."""
    max_step_ms: int = 300
    """No step that cannot be interrupted is planned longer, so that a cancel or a new request never waits longer. On
    the CPU a prompt step can be interrupted while nothing streams (except of recurrent and hybrid models), and is as
    long as its batch."""
    prefill_step_ms: int = 100
    """Limit for a step that computes prompts while answers stream: a lower one is smoother for the streams, and delays
    the prompts."""
    pooling: Pooling | None = None
    """How embeddings are made; None: as the model says, else the mean for encoders and the last token for others."""
    embedding_ctx: int | None = None
    """Tokens of the longest text to embed; None: what the model was trained for, at most 2,048."""
    grammar: GrammarLimits = GrammarLimits()
    chat_template: str | None = None
    """Jinja, its file, or a name (`chatml`, `command-r`, `gemma`, `llama2`, `llama3`, `phi3`); None: its own."""
    thinking: ThinkingDefault = "auto"
    """Whether the model thinks where a request does not say; auto: as its template does."""
    speculation: Literal["auto", "off"] = "auto"
    mtp: Literal["auto", "off"] = "auto"
    """Whether the model's own NextN layers guess tokens; auto: where llama.cpp computes them."""
    draft: str | None = None
    """A smaller model with the same vocabulary that drafts tokens: its name or file; `auto`: the catalog's choice for
    this model, if it is on this machine; None: none."""
    rope_scaling: RopeScaling | None = None
    """None: as the model says. Texts to embed are never stretched."""
    rope_scale: float | None = None
    """Factor by which the context may exceed the trained one."""
    yarn_orig_ctx: int | None = None
    """Tokens of the trained context before any stretching; None: as the model says."""

    @property
    def ubatch_tokens(self) -> int:
        """Tokens that are computed at once."""
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
            raise InvalidParameter("kv_cells is the size of a unified cache; leave it out, or kv", param="kv_cells")
        if self.kv_type != "f16" and self.flash_attn == "off":
            raise InvalidParameter(f"kv_type {self.kv_type} needs flash attention; leave out one", param="flash_attn")
        if self.draft not in (None, "auto") and self.speculation == "off":
            raise InvalidParameter("with speculation off a draft has no effect; leave out one", param="draft")
        check_range("max_step_ms", self.max_step_ms, 10, 60_000)
        check_range("prefill_step_ms", self.prefill_step_ms, 10, 60_000)
        check_range("embedding_ctx", self.embedding_ctx, 8, 2**20)
        check_rope(self.rope_scaling, self.rope_scale, self.yarn_orig_ctx)
        check_devices(self.devices)
        check_split(self.split, self.main_gpu, self.tensor_split)
        check_overrides(self.override_tensor)
        check_reading(mmap=self.mmap, mlock=self.mlock, direct_io=self.direct_io)
        if isinstance(self.gpu_layers, int):
            check_range("gpu_layers", self.gpu_layers, 0, 2**31 - 1)
