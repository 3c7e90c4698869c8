"""Options and help of `localllm fit`. The body is imported when the command runs."""

from __future__ import annotations

from typing import Any

from typer import Exit

from localllm.cli.options import common as opt
from localllm.cli.options.settings import COMMON, takes


@takes(
    f"ctx slots kv_type kv flash_attn draft mmproj projector gpu_layers n_cpu_moe moe_cache_mb device {COMMON}",
    "lora control_vector image_min_tokens image_max_tokens media_ram_mb split main_gpu tensor_split override_tensor "
    "runtime rpc plugin_dir hub_endpoint hub_publishers insecure_registries proxy ca_file",
)
def fit(model: opt.Model, as_json: opt.AsJson = False, **settings: Any) -> None:
    """Say how much memory a model needs and whether it fits, without loading or downloading it."""
    from localllm.cli.commands.fit import show_fit
    from localllm.cli.shared import config

    raise Exit(show_fit(config.load(settings), model, as_json=as_json))
