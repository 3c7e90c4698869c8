"""Options and help of `localllm tune`. The body is imported when the command runs."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt
from localllm.errors import InvalidParameter


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
    ctx: opt.Ctx = None,
    slots: opt.Slots = None,
    threads: opt.Threads = None,
    threads_batch: opt.ThreadsBatch = None,
    ubatch: opt.Ubatch = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    kv_type: opt.KvType = None,
    flash_attn: opt.FlashAttn = None,
    repack: opt.Repack = None,
    speculation: opt.Speculation = None,
    mtp: opt.Mtp = None,
    runtime: opt.Runtime = None,
    plugin_dir: opt.PluginDir = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Measure which settings are fastest for a model on this machine, and use them from then on."""
    given = dict(locals())
    for own in ("model", "minutes", "kv", "listing", "forget", "as_json"):
        del given[own]
    from localllm.cli.commands import tune as tuning
    from localllm.cli.shared import tuned
    from localllm.settings import config

    settings = config.load(given)
    if listing and forget:
        raise InvalidParameter("--list and --forget cannot be combined", param="forget")
    if listing:
        raise Exit(tuned.list_tunings(settings, model, as_json=as_json))
    if forget:
        raise Exit(tuned.forget(settings, model))
    if model is None:
        raise InvalidParameter("name the model to tune, or use --list to show earlier results", param="model")
    raise Exit(tuning.tune_model(settings, model, minutes=minutes, kv=kv, as_json=as_json))
