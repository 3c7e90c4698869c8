"""Options and help of `localllm tune`. The body is imported when the command runs."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt
from localllm.cli.options.settings import COMMON, takes
from localllm.errors import InvalidParameter


@takes(
    f"ctx slots threads gpu_layers device kv_type {COMMON}",
    "threads_batch ubatch flash_attn repack speculation mtp mmproj projector runtime plugin_dir",
)
def tune(
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="A name, a path, or demo; with --list or --forget: all by default")
    ] = None,
    minutes: Annotated[
        float, Option("--minutes", metavar="N", help="Time to spend [default: 3]", show_default=False)
    ] = 3.0,
    kv: Annotated[bool, Option("--kv", help="Also measure a q8_0 KV cache; it is suggested, never applied")] = False,
    listing: Annotated[bool, Option("--list", help="Show earlier results without measuring")] = False,
    forget: Annotated[bool, Option("--forget", help="Load MODEL, or every model, with the defaults again")] = False,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Measure which settings are fastest for a model on this machine, and use them from then on."""
    from localllm.cli.commands import tune as tuning
    from localllm.cli.shared import config, tuned

    loaded = config.load(settings)
    if listing and forget:
        raise InvalidParameter("--list and --forget cannot be combined", param="forget")
    if listing:
        raise Exit(tuned.list_tunings(loaded, model, as_json=as_json))
    if forget:
        raise Exit(tuned.forget(loaded, model))
    if model is None:
        raise InvalidParameter("name the model to tune, or use --list to show earlier results", param="model")
    raise Exit(tuning.tune_model(loaded, model, minutes=minutes, kv=kv, as_json=as_json))
