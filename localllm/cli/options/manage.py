"""Options and help of the commands that manage models and runtimes. Each body is imported when its command runs.

Knows nothing of what the commands do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt
from localllm.cli.options.adapters import lora, steer
from localllm.cli.options.settings import COMMON, takes

NAME = Argument(
    metavar="NAME...",
    help="qwen3:0.6b (localllm search), hf.co/USER/REPO[:QUANT], ollama:MODEL[:TAG], or https://...gguf",
)
ToPull = Annotated[list[str], NAME]
Names = Annotated[list[str], Argument(metavar="NAME...", help="Models, as listed by localllm list")]
Stored = Annotated[str, Argument(metavar="NAME", help="A model, as listed by localllm list")]


def add_to(commands: dict[str, Callable[..., None]]) -> None:
    """Register the commands, in the order of the help."""
    for command in (
        pull,
        list_,
        verify,
        rm,
        cp,
        search,
        import_,
        create,
        push,
        quantize,
        lora,
        steer,
        gc,
        kv,
        runtime,
        bench,
    ):
        commands[command.__name__.rstrip("_")] = command


@takes(
    "hub_endpoint proxy max_download_kb_per_s home",
    "hub_publishers catalog_url catalog_key catalog_refresh_s insecure_registries ca_file download_connections "
    "download_patience_s allow_private_downloads",
)
def pull(
    names: ToPull,
    force: Annotated[
        bool, Option("--force", help="Even if it cannot be used here: too little memory, or an unknown architecture")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be downloaded, and download nothing")] = False,
    no_projector: Annotated[
        bool, Option("--no-projector", help="Without the projector, which reads pictures and sound")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print errors only")] = False,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Download models; an interrupted download resumes."""
    from localllm.cli.commands.store.pull import pull_models
    from localllm.cli.shared import config

    options = {"force": force, "dry_run": dry_run, "quiet": quiet, "as_json": as_json}
    own = {"projector": "off"} if no_projector else {}
    raise Exit(pull_models(config.load({**settings, **own}), names, **options))


@takes("home")
def list_(as_json: opt.AsJson = False, **settings: Any) -> None:
    """List the models on this machine."""
    from localllm.cli.commands.store.models import list_models
    from localllm.cli.shared import config

    raise Exit(list_models(config.load(settings), as_json=as_json))


@takes("home")
def verify(
    names: Annotated[
        list[str] | None, Argument(metavar="NAME...", help="[default: all models on this machine]")
    ] = None,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Check the files of models; damaged ones are set aside and downloaded again by the next pull."""
    from localllm.cli.commands.store.verify import verify_models
    from localllm.cli.shared import config

    raise Exit(verify_models(config.load(settings), names or [], as_json=as_json))


@takes("home")
def rm(
    names: Names,
    keep_files: Annotated[bool, Option("--keep-files", help="Leave the files to localllm gc")] = False,
    **settings: Any,
) -> None:
    """Remove models."""
    from localllm.cli.commands.store.models import remove_models
    from localllm.cli.shared import config

    raise Exit(remove_models(config.load(settings), names, keep_files=keep_files))


@takes("home")
def cp(
    source: Stored,
    target: Annotated[str, Argument(metavar="NEW", help="The additional name")],
    **settings: Any,
) -> None:
    """Give a model a second name."""
    from localllm.cli.commands.store.models import copy_model
    from localllm.cli.shared import config

    raise Exit(copy_model(config.load(settings), source, target))


@takes("hub_endpoint proxy ca_file")
def search(
    words: Annotated[list[str] | None, Argument(metavar="WORDS...", help="Without them: the whole catalog")] = None,
    offline: Annotated[bool, Option("--offline", help="Search only the bundled catalog")] = False,
    limit: Annotated[int, Option("--limit", metavar="N", min=1, max=100, help="Maximum number of repositories")] = 20,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Find models in the catalog and on Hugging Face."""
    from localllm.cli.commands.store.models import search_models
    from localllm.cli.shared import config

    text = " ".join(words or [])
    raise Exit(search_models(config.load(settings), text, offline=offline or not text, limit=limit, as_json=as_json))


@takes("home")
def import_(
    wanted: Annotated[
        list[str] | None,
        Argument(metavar="MODEL...", help="Files, folders, or listed names; without any: list what is found"),
    ] = None,
    every: Annotated[bool, Option("--all", help="Import everything that is found")] = False,
    tool: Annotated[
        Literal["ollama", "huggingface", "lmstudio", "llama.cpp"] | None,
        Option(
            "--tool", metavar="PROGRAM", help="Look only in the store of ollama, huggingface, lmstudio or llama.cpp"
        ),
    ] = None,
    name: Annotated[str | None, Option("--name", metavar="NEW", help="Name for the imported model")] = None,
    how: Annotated[
        Literal["auto", "reference", "hardlink", "reflink", "copy"],
        Option(
            "--how",
            metavar="HOW",
            help="auto shares the bytes on disk or else refers to the file; reference, hardlink, reflink or copy",
        ),
    ] = "auto",
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Import models of Ollama, LM Studio and others on this disk, without copying them."""
    from localllm.cli.commands.store.import_models import import_models
    from localllm.cli.shared import config

    list_only = not wanted and not every
    code = import_models(
        config.load(settings), wanted or (), list_only=list_only, tool=tool, name=name, how=how, as_json=as_json
    )
    raise Exit(code)


@takes("home")
def create(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the new model")],
    file: Annotated[
        Path, Option("--file", "-f", metavar="FILE", help="A Modelfile, as for Ollama; - reads stdin")
    ] = Path("Modelfile"),
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Create a model from a Modelfile: another model with its own parameters and system message."""
    from localllm.cli.commands.store.create import create_model
    from localllm.cli.shared import config

    raise Exit(create_model(config.load(settings), name, file, as_json=as_json))


@takes("insecure_registries proxy ca_file home")
def push(
    name: Stored,
    target: Annotated[
        str | None, Argument(metavar="TARGET", help="ollama:HOST/NAMESPACE/MODEL:TAG [default: its own name]")
    ] = None,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Upload a model to a registry, for others to pull."""
    from localllm.cli.commands.store.push import push_model
    from localllm.cli.shared import config

    raise Exit(push_model(config.load(settings), name, target, as_json=as_json))


@takes("threads home")
def quantize(
    source: Annotated[str, Argument(metavar="SRC", help="Path or name of a model in F32, F16 or BF16")],
    target: Annotated[Path, Argument(metavar="DST", help="The GGUF file to write")],
    type: Annotated[str, Argument(metavar="TYPE", help="Q8_0, Q4_K_M ...")],
    allow_requantize: Annotated[
        bool, Option("--allow-requantize", help="Accept a quantized source, at a loss of quality")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace DST")] = False,
    imatrix: Annotated[
        Path | None, Option("--imatrix", metavar="FILE", help="Importance matrix from llama-imatrix")
    ] = None,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Quantize a model."""
    from localllm.cli.commands.store.quantize import quantize_named
    from localllm.cli.shared import config

    threads = settings.pop("threads")
    code = quantize_named(
        config.load(settings), source, target, type,
        allow_requantize=allow_requantize, force=force, threads=threads, imatrix=imatrix, as_json=as_json,
    )  # fmt: skip
    raise Exit(code)


@takes("home")
def gc(
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be deleted, and delete nothing")] = False,
    keep_partials_days: Annotated[
        float, Option("--keep-partials-days", metavar="D", min=0, help="Keep unfinished downloads for D days")
    ] = 7,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Delete files that no model needs."""
    from localllm.cli.commands.store.models import collect_garbage
    from localllm.cli.shared import config

    loaded = config.load(settings)
    raise Exit(collect_garbage(loaded, dry_run=dry_run, keep_partials_days=keep_partials_days, as_json=as_json))


@takes("home")
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
            "hip or rpc; stop: a build; install: a folder or archive of libraries, or a wheel by name: vulkan, cuda12, "
            "wheel, or one version of these such as wheel-2026.10",
        ),
    ] = None,
    name: Annotated[
        str | None, Option("--name", metavar="NAME", help="Name of the new runtime (build, install)")
    ] = None,
    background: Annotated[
        bool, Option("--background", help="Build in the background; list shows the progress")
    ] = False,
    unverified: Annotated[
        bool,
        Option("--unverified", help="Install a llama.cpp of an unknown version, if it passes the self-test"),
    ] = False,
    index: Annotated[
        str,
        Option(
            "--index", metavar="URL", help="Install llama-cpp-python's wheel from its own index, which has no hashes"
        ),
    ] = "",
    sha256: Annotated[str, Option("--sha256", metavar="HEX", help="With --index: the only wheel to accept")] = "",
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Show, test, build, install, choose or remove llama.cpp libraries."""
    from localllm.cli.commands.runtimes import manage_runtimes
    from localllm.cli.shared import config

    loaded = config.load(settings)
    options: dict[str, Any] = {"background": background, "unverified": unverified, "index": index, "sha256": sha256}
    raise Exit(manage_runtimes(loaded, action, target, name=name, as_json=as_json, **options))


@takes("home")
def kv(
    action: Annotated[Literal["list", "clear"], Argument(metavar="list|clear", help="Show or remove them")],
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="Only those of this model, as listed by kv list")
    ] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Clear without asking")] = False,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """List or remove the conversations whose KV cache is saved on disk."""
    from localllm.cli.commands.store.kv import clear_saved, list_saved
    from localllm.cli.shared import config

    loaded = config.load(settings)
    if action == "list":
        raise Exit(list_saved(loaded, model, as_json=as_json))
    raise Exit(clear_saved(loaded, model, sure=yes, as_json=as_json))


@takes(f"ctx slots threads gpu_layers device {COMMON}", "lora control_vector mmproj projector runtime rpc plugin_dir")
def bench(
    target: Annotated[str, Argument(metavar="TARGET", help="URL of an OpenAI-style server, or a model to serve")],
    concurrency: Annotated[
        str | None,
        Option("--concurrency", metavar="N,N...", help="Concurrent requests, per level [default: 1,2,4,8,16,32]"),
    ] = None,
    requests: Annotated[
        int | None, Option("--requests", metavar="N", help="Requests per level, at least the highest concurrency")
    ] = None,
    duration_s: Annotated[
        float | None, Option("--duration-s", metavar="S", help="Duration per level; running requests are finished")
    ] = None,
    prompt_tokens: Annotated[int, Option("--prompt-tokens", metavar="N", help="Unique tokens per prompt")] = 64,
    shared_prefix_tokens: Annotated[
        int, Option("--shared-prefix-tokens", metavar="N", help="Additional tokens that all prompts share")
    ] = 0,
    max_tokens: Annotated[int, Option("--max-tokens", metavar="N", help="Tokens per answer")] = 64,
    model: Annotated[str | None, Option("--model", metavar="NAME", help="Model of the server at the URL")] = None,
    api_key_env: Annotated[
        str | None, Option("--api-key-env", metavar="NAME", help="Environment variable with the server's API key")
    ] = None,
    api: Annotated[
        Literal["chat", "completions"] | None,
        Option("--api", metavar="chat|completions", help="Endpoint to measure [default: chat if available]"),
    ] = None,
    ignore_eos: Annotated[
        bool, Option("--ignore-eos/--no-ignore-eos", help="Answers of equal length, if the server supports that")
    ] = True,
    seed: Annotated[
        int | None, Option("--seed", metavar="N", help="Seed of the prompts [default: random, so that no cache helps]")
    ] = None,
    warmup: Annotated[
        int | None, Option("--warmup", metavar="N", help="Requests before each level [default: one per connection]")
    ] = None,
    timeout_s: Annotated[float, Option("--timeout-s", metavar="S", help="Timeout per answer")] = 300.0,
    as_json: opt.AsJson = False,
    svg: Annotated[Path | None, Option("--svg", metavar="FILE", help="Also draw a plot")] = None,
    **settings: Any,
) -> None:
    """Measure a server, or a model, at rising concurrency: time to first token, time per token, throughput."""
    own = {name: value for name, value in locals().items() if name != "settings"}
    from localllm.cli.commands.bench import BenchOptions, bench_model

    raise Exit(bench_model(BenchOptions(**own, load=settings)))
