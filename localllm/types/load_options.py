"""Options for loading a model, as sent to its worker.

Knows neither settings nor plans.
"""

from __future__ import annotations

from localllm.errors import InvalidParameter
from localllm.types import GrammarLimits
from localllm.types.declared import MAX_COUNT, check_ranges
from localllm.types.devices import check_devices, check_overrides, check_reading, check_split
from localllm.types.loading import KvDiskMb, Loading
from localllm.types.ropes import check_rope

DEFAULT_UBATCH = 512
"""Tokens."""


class LoadOptions(Loading, frozen=True, kw_only=True, omit_defaults=True):
    """How to load a model: the settings of `Loading`, and those that a worker gets in another form than users give.

    `ctx`: tokens of each slot; None: the model's own, at most 8,192, or what `planning.contexts` finds memory for.
    """

    devices: tuple[str, ...] | None = None
    """As `localllm.types.devices.named` reads them; None: all GPUs."""
    tensor_split: tuple[float, ...] | None = None
    """Share of each device, in order; None: by free memory."""
    override_tensor: tuple[tuple[str, str], ...] = ()
    """Pattern for names of tensors -> their device; the first matching pattern counts."""
    kv_disk_mb: KvDiskMb = 0
    grammar: GrammarLimits = GrammarLimits()
    media_rows: int = 0
    """Rows of a picture that must be computed in one ubatch: `ProjectorInfo.ubatch_rows`; 0: any number."""

    @property
    def ubatch_tokens(self) -> int:
        """Tokens computed together."""
        return max(DEFAULT_UBATCH if self.ubatch is None else self.ubatch, self.media_rows)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.kv_cells is not None and self.kv == "partitioned":
            raise InvalidParameter("kv_cells is for a unified cache; leave out kv_cells or kv", param="kv_cells")
        if self.kv_type != "f16" and self.flash_attn == "off":
            raise InvalidParameter(f"kv_type {self.kv_type} needs flash attention; leave one out", param="flash_attn")
        if self.draft not in (None, "auto") and self.speculation == "off":
            raise InvalidParameter("a draft has no effect with speculation off; leave one out", param="draft")
        if self.mmproj is not None and self.projector == "off":
            raise InvalidParameter("mmproj has no effect with projector off; leave one out", param="mmproj")
        if (self.image_min_tokens or 0) > (most := self.image_max_tokens or MAX_COUNT):
            raise InvalidParameter(
                f"image_min_tokens {self.image_min_tokens} is more than image_max_tokens {most}",
                param="image_min_tokens",
            )
        check_rope(self.rope_scaling, self.rope_scale, self.yarn_orig_ctx)
        check_devices(self.devices)
        check_split(self.split, self.main_gpu, self.tensor_split)
        check_overrides(self.override_tensor)
        if self.split in ("row", "tensor") and self.n_cpu_moe not in ("auto", 0):
            raise InvalidParameter(f"n_cpu_moe has no effect with split {self.split}; leave one out", param="n_cpu_moe")
        check_reading(mmap=self.mmap, mlock=self.mlock, direct_io=self.direct_io)
        if self.mlock and self.repack == "on":
            raise InvalidParameter("repack: repacked weights cannot be locked (mlock); leave one out", param="repack")
