"""Options and help of `localllm fit`. The body is imported when the command runs."""

from __future__ import annotations

from typer import Exit

from localllm.cli.options import common as opt
from localllm.cli.options import devices as place
from localllm.cli.options import pull as get


def fit(
    model: opt.Model,
    ctx: opt.Ctx = None,
    slots: opt.Slots = None,
    kv_type: opt.KvType = None,
    kv: opt.Kv = None,
    flash_attn: opt.FlashAttn = None,
    draft: opt.Draft = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    split: place.Split = None,
    main_gpu: place.MainGpu = None,
    tensor_split: place.TensorSplit = None,
    override_tensor: place.OverrideTensor = None,
    as_json: opt.AsJson = False,
    runtime: opt.Runtime = None,
    rpc: opt.Rpc = None,
    plugin_dir: opt.PluginDir = None,
    hub_endpoint: get.HubEndpoint = None,
    insecure_registries: get.InsecureRegistries = None,
    proxy: get.Proxy = None,
    ca_file: get.CaFile = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Say how much memory a model needs and whether it fits, without loading or downloading it."""
    given = dict(locals())
    name, shown_as_json = given.pop("model"), given.pop("as_json")
    from localllm.cli.commands.fit import show_fit
    from localllm.settings import config

    raise Exit(show_fit(config.load(given), name, as_json=shown_as_json))
