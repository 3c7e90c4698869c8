"""Names, options and help of `localllm tune`. Its body is imported when it runs."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Exit, Option

from localllm.cli import options as opt
from localllm.errors import InvalidParameter


def tune(
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="A name, a path, or demo; none with --list or --forget: all")
    ] = None,
    minutes: Annotated[
        float, Option("--minutes", metavar="N", help="For all of it [default: 3]", show_default=False)
    ] = 3.0,
    kv: Annotated[bool, Option("--kv", help="Measure a KV cache in q8_0 too; it is only suggested")] = False,
    listing: Annotated[bool, Option("--list", help="Show what was found so far, and measure nothing")] = False,
    forget: Annotated[bool, Option("--forget", help="Undo: load MODEL, or every model, as by default again")] = False,
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
    runtime: opt.Runtime = None,
    plugin_dir: opt.PluginDir = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Measure how a model is loaded fastest on this machine, and load it so from then on."""
    given = dict(locals())
    for own in ("model", "minutes", "kv", "listing", "forget", "as_json"):
        del given[own]
    from localllm.cli import tune as tuning
    from localllm.cli import tuned
    from localllm.settings import config

    settings = config.load(given)
    if listing and forget:
        raise InvalidParameter("--list shows and --forget removes: leave out one", param="forget")
    if listing:
        raise Exit(tuned.list_tunings(settings, model, as_json=as_json))
    if forget:
        raise Exit(tuned.forget(settings, model))
    if model is None:
        raise InvalidParameter("name the model to tune, or --list what was found so far", param="model")
    raise Exit(tuning.tune_model(settings, model, minutes=minutes, kv=kv, as_json=as_json))
