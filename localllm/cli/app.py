"""The typer application: names, options and help of every command. Each body is imported when its command runs.

Knows nothing of what the commands do. Plain text, no rich markup: `--help` must answer in under 0.2 s.
"""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Context, Exit, Option, Typer

from localllm import __version__
from localllm.cli.group import COMMANDS, Group
from localllm.cli.options import (
    app as app_command,
)
from localllm.cli.options import common as opt
from localllm.cli.options import devices as place
from localllm.cli.options import (
    embed,
    fit,
    manage,
    model_settings,
    rpc_worker,
    tune,
)
from localllm.cli.options import (
    mcp as mcp_command,
)
from localllm.cli.options import pull as get
from localllm.cli.options import serve as gate
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, LocalLLMError

app = Typer(
    name="localllm",
    cls=Group,
    help="Run quantized GGUF models on your own machine.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def run_app() -> int:
    """Run the command in `sys.argv`; every expected error becomes one sentence and an exit code."""
    logging.getLogger("localllm").addHandler(logging.NullHandler())  # commands report errors themselves
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a pipe's encoding is the system's; models write UTF-8
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        app(prog_name="localllm")  # typer turns Ctrl-C into 130, usage errors into 2 and a closed stdout into 1
        code: object = report.OK
    except SystemExit as end:
        code = end.code
    except LocalLLMError as error:
        return report.complain(error)
    except OSError as error:
        code = report.refused(error)
    return report.end_output(code if isinstance(code, int) else report.OK)


@app.callback(invoke_without_command=True)
def root(
    context: Context,
    version: Annotated[bool, Option("--version", help="Print the version and exit")] = False,
) -> None:
    """Run quantized GGUF models on your own machine."""
    if version:
        sys.stdout.write(f"localllm {__version__}\n")
        raise Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise Exit(report.USAGE)


def run(
    model: opt.Model,
    prompt: Annotated[
        str | None, Argument(metavar="PROMPT", help="- reads stdin; without it, on a terminal: chat")
    ] = None,
    system: Annotated[str | None, Option("--system", metavar="TEXT", help="System message")] = None,
    raw: Annotated[bool, Option("--raw", help="Continue the prompt verbatim, without the chat template")] = False,
    schema: Annotated[
        Path | None, Option("--schema", metavar="FILE", help="Answer with JSON that matches this JSON Schema")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Answer with a JSON object")] = False,
    plain: Annotated[bool, Option("--plain", help="Show Markdown source instead of rendering it")] = False,
    think: Annotated[
        str,
        Option(
            "--think",
            metavar="on|off|hide|N",
            help="Think first; do not; show only a note; at most N tokens [default: up to the model]",
        ),
    ] = "default",
    tools: Annotated[
        Path | None,
        Option("--tools", metavar="FILE", help="Tools it may call (OpenAI's JSON); each call is printed on one line"),
    ] = None,
    mcp: mcp_command.Config = None,
    mcp_allow: mcp_command.Allow = None,
    stats: Annotated[bool, Option("--stats", help="After each answer: tokens, time to first token, tokens/s")] = False,
    temperature: opt.Temperature = None,
    top_k: opt.TopK = None,
    top_p: opt.TopP = None,
    min_p: opt.MinP = None,
    seed: opt.Seed = None,
    max_tokens: opt.MaxTokens = None,
    ctx: opt.Ctx = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    chat_template: opt.ChatTemplate = None,
    draft: opt.Draft = None,
    runtime: opt.Runtime = None,
    rpc: opt.Rpc = None,
    plugin_dir: opt.PluginDir = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Answer PROMPT, or chat.

    The answer streams to stdout. With both PROMPT and piped input, the input follows the prompt after an empty line.
    """
    from localllm.cli.chat.mcp_tools import mcp_options
    from localllm.cli.chat.schema import document_format
    from localllm.cli.chat.thinking import Think
    from localllm.cli.chat.tools import load_tools
    from localllm.cli.commands.run import RunOptions, run_model
    from localllm.types import SamplingParams

    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, max_tokens=max_tokens
    )
    load = {
        "ctx": ctx,
        "threads": threads,
        "gpu_layers": gpu_layers,
        "device": device,
        "chat_template": chat_template,
        "draft": draft,
        "runtime": runtime,
        "rpc": rpc,
        "plugin_dir": plugin_dir,
        "home": home,
        "verbose": verbose,
    }
    document = document_format(schema, as_json=as_json)
    if document is not None and tools is not None:
        raise InvalidParameter("--tools cannot be combined with --schema or --json; leave one of them out")
    servers = mcp_options(mcp, mcp_allow or (), is_alone=document is None and tools is None)
    given = None if tools is None else load_tools(tools)
    look = not plain, Think().with_value(think), stats
    options = RunOptions(model, prompt, system, raw, params, load, *look, document, given, servers)
    raise Exit(run_model(options))


def serve(
    models: Annotated[list[str] | None, opt.MODELS] = None,
    host: opt.Host = None,
    port: opt.Port = None,
    ollama_compat: gate.OllamaCompat = None,
    ollama_port: gate.OllamaPort = None,
    ctx: opt.Ctx = None,
    slots: opt.Slots = None,
    threads: opt.Threads = None,
    threads_batch: opt.ThreadsBatch = None,
    ubatch: opt.Ubatch = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    split: place.Split = None,
    main_gpu: place.MainGpu = None,
    tensor_split: place.TensorSplit = None,
    override_tensor: place.OverrideTensor = None,
    mmap: place.Mmap = None,
    mlock: place.Mlock = None,
    direct_io: place.DirectIo = None,
    numa: place.Numa = None,
    kv_ram_mb: opt.KvRamMb = None,
    checkpoints: opt.Checkpoints = None,
    kv: opt.Kv = None,
    kv_type: opt.KvType = None,
    flash_attn: opt.FlashAttn = None,
    repack: opt.Repack = None,
    kv_cells: opt.KvCells = None,
    kv_disk_mb: opt.KvDiskMb = None,
    context_shift: opt.ContextShift = None,
    max_step_ms: opt.MaxStepMs = None,
    prefill_step_ms: opt.PrefillStepMs = None,
    stream_interval_ms: opt.StreamIntervalMs = None,
    pooling: opt.Pooling = None,
    embedding_ctx: opt.EmbeddingCtx = None,
    chat_template: opt.ChatTemplate = None,
    thinking: opt.Thinking = None,
    speculation: opt.Speculation = None,
    mtp: opt.Mtp = None,
    draft: opt.Draft = None,
    rope_scaling: opt.RopeScaling = None,
    rope_scale: opt.RopeScale = None,
    yarn_orig_ctx: opt.YarnOrigCtx = None,
    max_grammar_bytes: gate.MaxGrammarBytes = None,
    max_grammar_cpu_s: gate.MaxGrammarCpu = None,
    max_grammar_mb: gate.MaxGrammarMb = None,
    max_grammar_states: gate.MaxGrammarStates = None,
    max_grammar_items: gate.MaxGrammarItems = None,
    max_grammar_fuel: gate.MaxGrammarFuel = None,
    runtime: opt.Runtime = None,
    rpc: opt.Rpc = None,
    plugin_dir: opt.PluginDir = None,
    api_key_file: gate.ApiKeyFile = None,
    allow_remote_without_key: gate.AllowRemoteWithoutKey = None,
    allowed_hosts: gate.AllowedHosts = None,
    max_concurrent_per_key: gate.MaxConcurrentPerKey = None,
    requests_per_minute_per_key: gate.RequestsPerMinutePerKey = None,
    min_priority_per_key: gate.MinPriorityPerKey = None,
    share_cache_between_keys: gate.ShareCacheBetweenKeys = None,
    cors_origins: gate.CorsOrigins = None,
    tls_cert_file: gate.TlsCertFile = None,
    tls_key_file: gate.TlsKeyFile = None,
    max_waiting: Annotated[int | None, Option("--max-waiting", metavar="N", help="Maximum queued requests")] = None,
    max_body_bytes: Annotated[int | None, Option("--max-body-bytes", metavar="N", help="Largest request body")] = None,
    max_upload_mb: gate.MaxUploadMb = None,
    max_tokenize_bytes: gate.MaxTokenizeBytes = None,
    max_header_bytes: gate.MaxHeaderBytes = None,
    max_connections: gate.MaxConnections = None,
    max_bodies_mb: gate.MaxBodiesMb = None,
    body_timeout_s: gate.BodyTimeout = None,
    slow_reader_timeout_s: gate.SlowReaderTimeout = None,
    keep_alive_s: gate.KeepAlive = None,
    request_timeout_s: gate.RequestTimeout = None,
    queue_timeout_s: gate.QueueTimeout = None,
    max_stored_responses: opt.MaxStoredResponses = None,
    max_stored_response_mb: opt.MaxStoredResponseMb = None,
    hosted_tools: opt.HostedTools = None,
    mcp_servers: opt.McpServers = None,
    mcp_timeout_s: opt.McpTimeout = None,
    mcp_max_rounds: opt.McpMaxRounds = None,
    model_aliases: opt.ModelAliases = None,
    metrics_names: opt.MetricsNames = None,
    ui: gate.Ui = None,
    strict: Annotated[bool | None, Option("--strict", help="Reject unknown request fields")] = None,
    model_keep_alive_s: gate.ModelKeepAlive = None,
    max_loaded_models: gate.MaxLoadedModels = None,
    max_models_mb: gate.MaxModelsMb = None,
    hub_endpoint: get.HubEndpoint = None,
    insecure_registries: get.InsecureRegistries = None,
    proxy: get.Proxy = None,
    ca_file: get.CaFile = None,
    download_connections: get.DownloadConnections = None,
    download_patience_s: get.DownloadPatience = None,
    max_pulls: gate.MaxPulls = None,
    max_waiting_pulls: gate.MaxWaitingPulls = None,
    max_download_kb_per_s: get.MaxDownload = None,
    allow_private_downloads: get.AllowPrivate = None,
    load_timeout_s: Annotated[
        float | None, Option("--load-timeout-s", metavar="S", help="Timeout for loading a model")
    ] = None,
    worker_timeout_s: gate.WorkerTimeout = None,
    step_timeout_s: gate.StepTimeout = None,
    grace_s: Annotated[
        float | None, Option("--grace-s", metavar="S", help="Time for answers to finish at shutdown")
    ] = None,
    ready: Annotated[
        Literal["json", "json-progress"] | None,
        Option("--ready", help="Run as a sidecar: print the address as one JSON line, exit when stdin closes"),
    ] = None,
    log_level: gate.LogLevel = None,
    log_format: gate.LogFormat = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Serve models over an OpenAI-style HTTP API: MODELs from the start, others on demand."""
    given = {name: value for name, value in locals().items() if name not in ("models", "ready")}
    from localllm.cli.commands.serve import serve_model
    from localllm.settings import config

    raise Exit(serve_model(config.load(given), models or [], ready=ready))


def launch(
    agent: Annotated[
        str | None, Argument(metavar="AGENT", help="Without it: list the known agents, and which are installed")
    ] = None,
    arguments: Annotated[list[str] | None, Argument(metavar="-- ARGS...", help="Passed to the agent")] = None,
    model: Annotated[
        str | None,
        Option("--model", metavar="MODEL", help="[default: the loaded model, else the best one on this machine]"),
    ] = None,
    only_print: Annotated[
        bool, Option("--print", help="Print what would be set, without starting or changing anything")
    ] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask")] = False,
    undo: Annotated[bool, Option("--undo", help="Clean up after a launch that was killed")] = False,
    ctx: Annotated[
        int | None, Option("--ctx", metavar="TOKENS", help="Context [default: up to 65536, as memory allows]")
    ] = None,
    threads: opt.Threads = None,
    gpu_layers: opt.GpuLayers = None,
    device: opt.Device = None,
    kv_type: opt.KvType = None,
    chat_template: opt.ChatTemplate = None,
    plugin_dir: opt.PluginDir = None,
    host: opt.Host = None,
    port: opt.Port = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Start a coding agent on a local model: claude, codex, opencode, aider and others."""
    load = {
        "ctx": ctx,
        "threads": threads,
        "gpu_layers": gpu_layers,
        "device": device,
        "kv_type": kv_type,
        "chat_template": chat_template,
        "plugin_dir": plugin_dir,
    }
    where = {"host": host, "port": port, "home": home, "verbose": verbose}
    from localllm.cli.launching import agent as launching

    options = launching.LaunchOptions(model, arguments or [], only_print, yes, load, where)
    if undo:
        raise Exit(launching.undo(options.settings))
    raise Exit(launching.list_agents() if agent is None else launching.launch(agent, options))


def show(
    model: opt.Model,
    modelfile: Annotated[bool, Option("--modelfile", help="As a Modelfile, for create")] = False,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Print a model's metadata and settings."""
    from localllm.cli.commands.show import show_model
    from localllm.settings import config

    raise Exit(show_model(config.load({"home": home}), model, modelfile=modelfile, as_json=as_json))


def ps(host: opt.Host = None, port: opt.Port = None, as_json: opt.AsJson = False) -> None:
    """List the models loaded by the running server."""
    from localllm.cli.commands.processes import list_processes
    from localllm.settings import config

    raise Exit(list_processes(config.load({"host": host, "port": port}), as_json=as_json))


def stop(
    names: Annotated[list[str] | None, Argument(metavar="NAME...", help="Models, as listed by localllm ps")] = None,
    every: Annotated[bool, Option("--all", help="All models")] = False,
    host: opt.Host = None,
    port: opt.Port = None,
) -> None:
    """Unload models from the running server."""
    from localllm.cli.commands.processes import stop_models
    from localllm.settings import config

    if not names and not every:
        raise InvalidParameter("name the models to unload, or --all", param="names")
    raise Exit(stop_models(config.load({"host": host, "port": port}), names or [], every=every))


def doctor(
    model: Annotated[
        str | None,
        Argument(metavar="MODEL", help="Check the chat format of this model only [default: all on this machine]"),
    ] = None,
    as_json: opt.AsJson = False,
    fresh: Annotated[bool, Option("--fresh", help="Test again instead of showing remembered results")] = False,
    runtime: opt.Runtime = None,
    rpc: opt.Rpc = None,
    plugin_dir: opt.PluginDir = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Check the library and the devices, and advise what would be faster."""
    from localllm.cli.commands.doctor import doctor as examine
    from localllm.settings import config

    settings = config.load({"runtime": runtime, "rpc": rpc, "plugin_dir": plugin_dir, "home": home, "verbose": verbose})
    raise Exit(examine(settings, model, as_json=as_json, fresh=fresh))


COMMANDS.update(run=run, embed=embed.embed, serve=serve, launch=launch, show=show, ps=ps, stop=stop)
app_command.add_to(COMMANDS)
COMMANDS.update(fit=fit.fit)
COMMANDS["set"] = model_settings.set_
COMMANDS.update(tune=tune.tune)
manage.add_to(COMMANDS)
mcp_command.add_to(COMMANDS)
rpc_worker.add_to(COMMANDS)
COMMANDS.update(doctor=doctor)
