"""RoPE scaling, so that a context may be longer than the trained one."""

from __future__ import annotations

from typing import Any, NamedTuple

from localllm.types import RopeScaling
from localllm.types.load_options import LoadOptions


class Rope(NamedTuple):
    """The fields of `LoadOptions` with these names; None: the model's own values."""

    scaling: RopeScaling | None = None
    scale: float | None = None
    yarn_orig_ctx: int | None = None

    def apply(self, api: Any, params: Any) -> None:
        """Write it into a `llama_context_params` whose values are the model's."""
        if self.scaling is not None:
            params.rope_scaling_type = getattr(api, f"LLAMA_ROPE_SCALING_TYPE_{self.scaling.upper()}")
        if self.scale is not None:
            params.rope_freq_scale = 1 / self.scale
        if self.yarn_orig_ctx is not None:
            params.yarn_orig_ctx = self.yarn_orig_ctx

    def text(self) -> str:
        """Its part of fingerprints of what is computed with it."""
        return f"{self.scaling} {self.scale} {self.yarn_orig_ctx}"


AS_TRAINED = Rope()


def rope_of(options: LoadOptions) -> Rope:
    """The scaling in these options."""
    return Rope(options.rope_scaling, options.rope_scale, options.yarn_orig_ctx)
