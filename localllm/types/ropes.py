"""Settings of RoPE scaling, which extends a context beyond the trained one."""

from __future__ import annotations

from typing import Literal

from localllm.errors import InvalidParameter

RopeScaling = Literal["none", "linear", "yarn"]
"""`none` also overrides the scaling in the model's file."""


def check_rope(scaling: RopeScaling | None, scale: float | None, orig_ctx: int | None) -> None:
    """Raises `InvalidParameter` for settings that do not go together."""
    if scaling in ("linear", "yarn") and scale is None:
        raise InvalidParameter(
            f"rope_scaling {scaling} needs a rope_scale, such as 4 for a context four times the trained one",
            param="rope_scaling",
        )
    if scale is not None and scaling not in ("linear", "yarn"):
        raise InvalidParameter("rope_scale needs rope_scaling, yarn or linear", param="rope_scale")
    if orig_ctx is not None and scaling != "yarn":
        raise InvalidParameter("yarn_orig_ctx needs rope_scaling yarn", param="yarn_orig_ctx")
