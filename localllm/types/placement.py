"""Where a model's layers go: the plan that a worker is given. Plain frozen data."""

from __future__ import annotations

import msgspec

from localllm.types import (
    FlashAttn,
    KvLayout,
    ModelInfo,
    Pooling,
    ProjectorInfo,
)


class DeviceShare(msgspec.Struct, frozen=True):
    """What one device is planned to hold, in bytes."""

    device: str
    layers: int
    """Counts the output head as one."""
    weights: int
    kv: int
    """Keys, values and states of all slots."""
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute


class Placement(msgspec.Struct, frozen=True):
    """The supervisor's decision: what goes where. `gpu_layers` counts the output layer, as llama.cpp does."""

    ctx: int
    slots: int
    kv: KvLayout
    kv_reason: str
    flash_attn: FlashAttn
    """`auto`: with layers on GPUs as llama.cpp chooses, else the worker measures what is faster."""
    flash_attn_reason: str
    ubatch_tokens: int
    """Tokens of a batch that are computed at once."""
    max_outputs: int
    """The most rows of logits that one batch returns."""
    snapshots: int
    """Earlier recurrent states kept per slot for rollback."""
    plain_ubatch_tokens: int
    """`ubatch_tokens` if the worker finds that the model is faster without flash attention."""
    num_cells: int
    """Tokens that the whole KV cache holds."""
    gpu_layers: int
    devices: tuple[str, ...]
    must_offload: bool
    """The user insists on the layers, so fewer than `gpu_layers` on the devices is an error."""
    pooling: Pooling
    embedding_ctx: int
    """Tokens of the longest text to embed."""
    main_gpu: int = 0
    """Index among `devices`."""
    tensor_split: tuple[float, ...] = ()
    """Share of each of `devices`; empty: one has everything."""
    cpu_experts: tuple[int, ...] = ()
    """Layers on devices whose experts stay on the CPU."""
    device_experts: int = 0
    """Number of layers on devices whose experts are there too, as far as that was automatic."""
    overrides: tuple[tuple[str, str], ...] = ()
    """Pattern of tensors' names -> the device for them."""
    shares: tuple[DeviceShare, ...] = ()
    """One for each of `devices`, then the CPU."""
    heads_ctx: int = 0
    """Tokens that the model's own NextN layers look back; 0: they do not guess."""
    no_heads: str = ""
    """Why its NextN layers do not guess, if it has any."""
    note: str = ""
    """How it differs from a placement on an idle machine."""

    @property
    def has_cpu_tensors(self) -> bool:
        """Whether the CPU computes parts of layers that are on devices."""
        return any(device == "CPU" for _, device in self.overrides)


class DraftLoad(msgspec.Struct, frozen=True):
    """A smaller model that drafts for the one to be loaded."""

    id: str
    path: str
    info: ModelInfo
    placement: Placement


class ProjectorLoad(msgspec.Struct, frozen=True):
    """The projector for the model to be loaded; its encoder begins with the first picture or sound."""

    path: str
    info: ProjectorInfo
    device: str
    """`CPU`, or a name of `Hello.devices`."""
    share: DeviceShare
    """What it is planned to hold there: weights and compute buffers."""
