"""Names, options and help of the commands on models: getting, listing, making, forgetting.

Bodies are imported when their command runs. Knows nothing of what the commands do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option

from localllm.cli import options as opt
from localllm.cli import pull_options as get

NAME = Argument(
    metavar="NAME...",
    help="qwen3:0.6b (localllm search), hf.co/USER/REPO[:QUANT], ollama:MODEL[:TAG], or https://...gguf",
)
ToPull = Annotated[list[str], NAME]
Names = Annotated[list[str], Argument(metavar="NAME...", help="Models, as localllm list calls them")]
Stored = Annotated[str, Argument(metavar="NAME", help="A model, as localllm list calls it")]


def add_to(commands: dict[str, Callable[..., None]]) -> None:
    """In the order of the help."""
    for command in (pull, list_, verify, rm, cp, search, import_, create, push, quantize, gc, kv, runtime, bench):
        commands[command.__name__.rstrip("_")] = command


def pull(
    names: ToPull,
    hub_endpoint: get.HubEndpoint = None,
    insecure_registries: get.InsecureRegistries = None,
    proxy: get.Proxy = None,
    ca_file: get.CaFile = None,
    download_connections: get.DownloadConnections = None,
    download_patience_s: get.DownloadPatience = None,
    max_download_kb_per_s: get.MaxDownload = None,
    allow_private_downloads: get.AllowPrivate = None,
    force: Annotated[bool, Option("--force", help="Also what this machine has too little memory for")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be downloaded")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say nothing unless something is wrong")] = False,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Download models; what was stopped goes on from where it was."""
    options = {"force": force, "dry_run": dry_run, "quiet": quiet, "as_json": as_json}
    given = {key: value for key, value in locals().items() if key not in {"names", "options", *options}}
    from localllm.cli.pull import pull_models
    from localllm.settings import config

    raise Exit(pull_models(config.load(given), names, **options))


def list_(as_json: opt.AsJson = False, home: opt.Home = None) -> None:
    """List the models on this machine."""
    from localllm.cli.models import list_models
    from localllm.settings import config

    raise Exit(list_models(config.load({"home": home}), as_json=as_json))


def verify(
    names: Annotated[list[str] | None, Argument(metavar="NAME...", help="None: all models on this machine")] = None,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Read models whole; what is damaged is set aside, and fetched again by the next pull."""
    from localllm.cli.verify import verify_models
    from localllm.settings import config

    raise Exit(verify_models(config.load({"home": home}), names or [], as_json=as_json))


def rm(
    names: Names,
    keep_files: Annotated[bool, Option("--keep-files", help="Leave the files for localllm gc")] = False,
    home: opt.Home = None,
) -> None:
    """Remove models."""
    from localllm.cli.models import remove_models
    from localllm.settings import config

    raise Exit(remove_models(config.load({"home": home}), names, keep_files=keep_files))


def cp(
    source: Stored,
    target: Annotated[str, Argument(metavar="NEW", help="Another name for it")],
    home: opt.Home = None,
) -> None:
    """Give a model another name."""
    from localllm.cli.models import copy_model
    from localllm.settings import config

    raise Exit(copy_model(config.load({"home": home}), source, target))


def search(
    words: Annotated[list[str] | None, Argument(metavar="WORDS...", help="None: the whole catalog")] = None,
    offline: Annotated[bool, Option("--offline", help="Only in the catalog that localllm carries")] = False,
    limit: Annotated[int, Option("--limit", metavar="N", min=1, max=100, help="Repositories at most")] = 20,
    hub_endpoint: get.HubEndpoint = None,
    proxy: get.Proxy = None,
    ca_file: get.CaFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Find models in the catalog and on Hugging Face."""
    from localllm.cli.models import search_models
    from localllm.settings import config

    settings = config.load({"hub_endpoint": hub_endpoint, "proxy": proxy, "ca_file": ca_file})
    text = " ".join(words or [])
    raise Exit(search_models(settings, text, offline=offline or not text, limit=limit, as_json=as_json))


def import_(
    wanted: Annotated[
        list[str] | None,
        Argument(metavar="MODEL...", help="Files, folders, or names as the list shows them; none: list what is found"),
    ] = None,
    every: Annotated[bool, Option("--all", help="Take in everything that is found")] = False,
    tool: Annotated[
        Literal["ollama", "huggingface", "lmstudio", "llama.cpp"] | None,
        Option("--tool", help="Look only where this program keeps its models"),
    ] = None,
    name: Annotated[str | None, Option("--name", metavar="NEW", help="What to call it here")] = None,
    how: Annotated[
        Literal["auto", "reference", "hardlink", "reflink", "copy"],
        Option("--how", help="auto shares the bytes on the disk, or refers to the file"),
    ] = "auto",
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Take in models that Ollama, LM Studio and others have on this disk, without copying them."""
    from localllm.cli.import_models import import_models
    from localllm.settings import config

    settings, list_only = config.load({"home": home}), not wanted and not every
    code = import_models(settings, wanted or (), list_only=list_only, tool=tool, name=name, how=how, as_json=as_json)
    raise Exit(code)


def create(
    name: Annotated[str, Argument(metavar="NAME", help="What to call it")],
    file: Annotated[Path, Option("--file", "-f", metavar="FILE", help="Modelfile, as Ollama's; - reads stdin")] = Path(
        "Modelfile"
    ),
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Make a model of another one, with parameters and a system message of its own, from a Modelfile."""
    from localllm.cli.create import create_model
    from localllm.settings import config

    raise Exit(create_model(config.load({"home": home}), name, file, as_json=as_json))


def push(
    name: Stored,
    target: Annotated[
        str | None, Argument(metavar="TARGET", help="ollama:HOST/NAMESPACE/MODEL:TAG [default: its own name]")
    ] = None,
    insecure_registries: get.InsecureRegistries = None,
    proxy: get.Proxy = None,
    ca_file: get.CaFile = None,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Upload a model to a registry, from where others pull it."""
    given = {"insecure_registries": insecure_registries, "proxy": proxy, "ca_file": ca_file, "home": home}
    from localllm.cli.push import push_model
    from localllm.settings import config

    raise Exit(push_model(config.load(given), name, target, as_json=as_json))


def quantize(
    source: Annotated[str, Argument(metavar="SRC", help="Path or name of a model in F32, F16 or BF16")],
    target: Annotated[Path, Argument(metavar="DST", help="The GGUF file to write")],
    type: Annotated[str, Argument(metavar="TYPE", help="Q8_0, Q4_K_M ...")],
    allow_requantize: Annotated[
        bool, Option("--allow-requantize", help="Also from a quantized file, at a loss")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace DST")] = False,
    imatrix: Annotated[
        Path | None, Option("--imatrix", metavar="FILE", help="What llama-imatrix measured: which weights matter most")
    ] = None,
    threads: opt.Threads = None,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Write a model in a smaller type."""
    from localllm.cli.quantize import quantize_named
    from localllm.settings import config

    code = quantize_named(
        config.load({"home": home}), source, target, type,
        allow_requantize=allow_requantize, force=force, threads=threads, imatrix=imatrix, as_json=as_json,
    )  # fmt: skip
    raise Exit(code)


def gc(
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go")] = False,
    keep_partials_days: Annotated[
        float, Option("--keep-partials-days", metavar="D", min=0, help="Unfinished downloads stay for so long")
    ] = 7,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Delete files that no model needs."""
    from localllm.cli.models import collect_garbage
    from localllm.settings import config

    settings = config.load({"home": home})
    raise Exit(collect_garbage(settings, dry_run=dry_run, keep_partials_days=keep_partials_days, as_json=as_json))


def runtime(
    action: Annotated[
        Literal["list", "test", "build", "stop", "install", "use", "remove"],
        Argument(metavar="list|test|build|stop|install|use|remove", help="What to do"),
    ] = "list",
    target: Annotated[
        str | None,
        Argument(
            metavar="TARGET",
            help="test, use, remove: a runtime's name (use auto: the fastest that works); build: cpu, vulkan, cuda, "
            "hip or rpc; stop: a build; install: a folder or archive of libraries",
        ),
    ] = None,
    name: Annotated[str | None, Option("--name", metavar="NAME", help="For build and install: how to call it")] = None,
    background: Annotated[
        bool, Option("--background", help="Build without this terminal; list shows how far it is")
    ] = False,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Show, test, build, install, choose or remove llama.cpp libraries."""
    from localllm.cli.runtimes import manage_runtimes
    from localllm.settings import config

    settings = config.load({"home": home})
    raise Exit(manage_runtimes(settings, action, target, name=name, background=background, as_json=as_json))


def kv(
    action: Annotated[Literal["list", "clear"], Argument(metavar="list|clear", help="Show them, or remove them")],
    model: Annotated[str | None, Argument(metavar="MODEL", help="Only of this one, as kv list calls it")] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Clear without asking")] = False,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """List or remove the conversations that are saved on disk, so that they go on without computing them again."""
    from localllm.cli.kv import clear_saved, list_saved
    from localllm.settings import config

    settings = config.load({"home": home})
    if action == "list":
        raise Exit(list_saved(settings, model, as_json=as_json))
    raise Exit(clear_saved(settings, model, sure=yes, as_json=as_json))


def bench(
    target: Annotated[str, Argument(metavar="TARGET", help="URL of an OpenAI-style server, or a model to serve")],
    concurrency: Annotated[
        str | None, Option("--concurrency", metavar="N,N...", help="Answers at a time [default: 1,2,4,8,16,32]")
    ] = None,
    requests: Annotated[
        int | None, Option("--requests", metavar="N", help="Per level, at least the highest concurrency")
    ] = None,
    duration_s: Annotated[
        float | None, Option("--duration-s", metavar="S", help="Per level; what runs then is finished")
    ] = None,
    prompt_tokens: Annotated[int, Option("--prompt-tokens", metavar="N", help="Of each prompt, its own")] = 64,
    shared_prefix_tokens: Annotated[
        int, Option("--shared-prefix-tokens", metavar="N", help="On top, the same in all prompts")
    ] = 0,
    max_tokens: Annotated[int, Option("--max-tokens", metavar="N", help="Of each answer")] = 64,
    model: Annotated[str | None, Option("--model", metavar="NAME", help="Of the server at the URL")] = None,
    api_key_env: Annotated[
        str | None, Option("--api-key-env", metavar="NAME", help="The variable with the server's key")
    ] = None,
    api: Annotated[
        Literal["chat", "completions"] | None, Option("--api", help="What to ask [default: chat where it can]")
    ] = None,
    ignore_eos: Annotated[
        bool, Option("--ignore-eos/--no-ignore-eos", help="Answers of equal length where the server can")
    ] = True,
    seed: Annotated[
        int | None, Option("--seed", metavar="N", help="Of the prompts [default: new ones, so that no cache helps]")
    ] = None,
    warmup: Annotated[
        int | None, Option("--warmup", metavar="N", help="Requests before each level [default: one per connection]")
    ] = None,
    timeout_s: Annotated[float, Option("--timeout-s", metavar="S", help="For one answer")] = 300.0,
    as_json: opt.AsJson = False,
    svg: Annotated[Path | None, Option("--svg", metavar="FILE", help="Also draw a plot")] = None,
    slots: opt.Slots = None,
    ctx: opt.Ctx = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    runtime: opt.Runtime = None,
    rpc: opt.Rpc = None,
    plugin_dir: opt.PluginDir = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Measure a server, or a model, at rising concurrency: time to first token, time per token, throughput."""
    given = dict(locals())
    loading = ("slots", "ctx", "threads", "gpu_layers", "device", "runtime", "rpc", "plugin_dir", "home", "verbose")
    load = {name: given.pop(name) for name in loading}
    from localllm.cli.bench import BenchOptions, bench_model

    raise Exit(bench_model(BenchOptions(**given, load=load)))
