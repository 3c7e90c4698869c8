"""The typer application: names, options and help of every command. Each body is imported when its command runs.

Knows nothing of what the commands do. Plain text, no rich markup: `--help` must answer in under 0.2 s.
"""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Context, Exit, Option, Typer

from localllm import __version__
from localllm.cli.group import COMMANDS, EVERY, Group
from localllm.cli.options import app as app_command
from localllm.cli.options import (
    batch,
    embed,
    fit,
    manage,
    model_settings,
    recommend,
    rpc_worker,
    sessions,
    transcribe,
    tune,
)
from localllm.cli.options import common as opt
from localllm.cli.options import deploy as deploy_command
from localllm.cli.options import help as help_command
from localllm.cli.options import mcp as mcp_command
from localllm.cli.options.settings import ALL, COMMON, takes
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, LocalLLMError

app = Typer(
    name="localllm",
    cls=Group,
    help="Run quantized GGUF models on your own machine.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
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
    except UnicodeEncodeError as error:
        code = report.not_text(error)
    except OSError as error:
        code = report.refused(error)
    return report.end_output(code if isinstance(code, int) else report.OK)


@app.callback(invoke_without_command=True)
def root(
    context: Context,
    version: Annotated[bool, Option("--version", help="Print the version and exit")] = False,
    help_all: Annotated[bool, Option("--help-all", help="Describe all commands and exit")] = False,
) -> None:
    """Run quantized GGUF models on your own machine."""
    if help_all:
        context.meta[EVERY] = True
        sys.stdout.write(context.get_help() + "\n")
        raise Exit
    if version:
        sys.stdout.write(f"localllm {__version__}\n")
        raise Exit
    if context.invoked_subcommand is None:
        if report.is_terminal(sys.stdin) and report.is_terminal(sys.stdout):
            _run_chosen()
        sys.stdout.write(context.get_help() + "\n")
        raise Exit(report.USAGE)


def _run_chosen() -> None:
    """Show the menu and run what is chosen; ends the command."""
    from localllm.cli.commands.menu import chosen_words

    words = chosen_words()
    if words is None:
        raise Exit
    app(words, prog_name="localllm")


SAMPLING = "temperature top_k top_p min_p seed max_tokens"


@takes(
    f"temperature top_k top_p seed max_tokens api_key ctx threads gpu_layers device draft {COMMON}",
    "min_p lora control_vector n_cpu_moe moe_cache_mb chat_template mmproj projector image_min_tokens "
    "image_max_tokens runtime rpc plugin_dir",
)
def run(
    model: Annotated[
        str | None, Argument(metavar="MODEL", help=f"{opt.NAMES}; without it, the one that was run last")
    ] = None,
    prompt: Annotated[
        list[str] | None,
        Argument(metavar="PROMPT...", help="Words; - reads stdin; without it, on a terminal: chat"),
    ] = None,
    image: Annotated[
        list[str] | None, Option("--image", metavar="FILE", help="A picture, or its http(s) address; repeatable")
    ] = None,
    audio: Annotated[
        list[str] | None, Option("--audio", metavar="FILE", help="A sound, or its http(s) address; repeatable")
    ] = None,
    file: Annotated[
        list[str] | None,
        Option("--file", "-f", metavar="FILE", help="A document or text, or its address; repeatable"),
    ] = None,
    system: Annotated[str | None, Option("--system", metavar="TEXT", help="System message")] = None,
    system_file: Annotated[
        Path | None, Option("--system-file", metavar="FILE", help="System message from a file")
    ] = None,
    continues: Annotated[bool, Option("--continue", "-c", help="Go on with the last chat")] = False,
    session: Annotated[
        str | None, Option("--session", metavar="NAME", help="Go on with the chat of this name, or begin it")
    ] = None,
    private: Annotated[bool, Option("--private", help="Keep neither the chat nor what is typed")] = False,
    raw: Annotated[bool, Option("--raw", help="Continue the prompt, without the chat template")] = False,
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
            help="Think first; do not; show a note; at most N tokens",
            show_default=False,
        ),
    ] = "default",
    tools: Annotated[
        Path | None,
        Option("--tools", metavar="FILE", help="Tools it may call (OpenAI's JSON)"),
    ] = None,
    mcp: mcp_command.Config = None,
    mcp_allow: mcp_command.Allow = None,
    stats: Annotated[bool, Option("--stats", help="After each answer: tokens, TTFT, tokens/s")] = False,
    **settings: Any,
) -> None:
    """Answer PROMPT, or chat.

    Piped text follows PROMPT after an empty line; a piped file goes with it.
    """
    from localllm.cli.chat.mcp_tools import mcp_options
    from localllm.cli.chat.schema import document_format
    from localllm.cli.chat.thinking import Think
    from localllm.cli.chat.tools import load_tools
    from localllm.cli.commands.run import RunOptions, run_model
    from localllm.cli.shared import last_model
    from localllm.cli.shared.given_text import system_text
    from localllm.types import SamplingParams

    params = SamplingParams(**{name: settings.pop(name) for name in SAMPLING.split()})
    document = document_format(schema, as_json=as_json)
    if document is not None and tools is not None:
        raise InvalidParameter("--tools cannot be combined with --schema or --json; leave one of them out")
    servers = mcp_options(mcp, mcp_allow or (), is_alone=document is None and tools is None)
    given = None if tools is None else load_tools(tools)
    look = not plain, Think().with_value(think), stats
    media = image or (), audio or (), file or ()
    text = None if prompt is None else " ".join(prompt)
    if model is not None and text is None and last_model.is_prompt(model):
        model, text = None, model
    system = system if system_file is None else system_text(system, system_file)
    kept = session, continues, private
    options = RunOptions(model, text, system, raw, params, settings, *look, document, given, servers, *media, *kept)
    raise Exit(run_model(options))


@takes(
    "host port ollama_compat tls_cert_file api_key api_key_file allow_remote_without_key cors_origins ctx slots draft "
    f"threads gpu_layers device kv_type model_keep_alive_s max_loaded_models {COMMON}",
    more=ALL,
)
def serve(
    models: Annotated[list[str] | None, opt.MODELS] = None,
    ready: Annotated[
        Literal["json", "json-progress"] | None,
        Option(
            "--ready",
            metavar="json|json-progress",
            help="Run as a sidecar: print the address as one JSON line, exit when stdin closes",
        ),
    ] = None,
    **settings: Any,
) -> None:
    """Serve models over an OpenAI-style HTTP API: MODELs from the start, others on demand."""
    from localllm.cli.commands.serve import serve_model
    from localllm.cli.shared import config

    raise Exit(serve_model(config.load(settings), models or [], ready=ready))


WHERE = f"host port api_key {COMMON}"


@takes(f"threads gpu_layers device kv_type {WHERE}", "chat_template mmproj projector plugin_dir")
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
    **settings: Any,
) -> None:
    """Start a coding agent on a local model: claude, codex, opencode, aider and others."""
    where = {name: settings.pop(name) for name in WHERE.split()}
    load = {"ctx": ctx, **settings}
    from localllm.cli.launching import agent as launching

    options = launching.LaunchOptions(model, arguments or [], only_print, yes, load, where)
    if undo:
        raise Exit(launching.undo(options.settings))
    raise Exit(launching.list_agents() if agent is None else launching.launch(agent, options))


@takes("home")
def show(
    model: opt.Model,
    modelfile: Annotated[bool, Option("--modelfile", help="As a Modelfile, for create")] = False,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Print a model's metadata and settings."""
    from localllm.cli.commands.store.show import show_model
    from localllm.cli.shared import config

    raise Exit(show_model(config.load(settings), model, modelfile=modelfile, as_json=as_json))


@takes("host port api_key")
def ps(as_json: opt.AsJson = False, **settings: Any) -> None:
    """List the models loaded by the running server."""
    from localllm.cli.commands.processes import list_processes
    from localllm.cli.shared import config

    raise Exit(list_processes(config.load(settings), as_json=as_json))


@takes("host port api_key")
def route(
    name: Annotated[str | None, Argument(metavar="NAME", help="This one only [default: all]")] = None,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Show the routes of config.toml, and how their models stand on the running server."""
    from localllm.cli.commands.routes import show_routes
    from localllm.cli.shared import config

    raise Exit(show_routes(config.load(settings), name, as_json=as_json))


@takes("host port api_key")
def stop(
    names: Annotated[list[str] | None, Argument(metavar="NAME...", help="Models, as listed by localllm ps")] = None,
    every: Annotated[bool, Option("--all", help="All models")] = False,
    **settings: Any,
) -> None:
    """Unload models from the running server."""
    from localllm.cli.commands.processes import stop_models
    from localllm.cli.shared import config

    if not names and not every:
        raise InvalidParameter("name the models to unload, or --all", param="names")
    raise Exit(stop_models(config.load(settings), names or [], every=every))


@takes(f"runtime rpc plugin_dir {COMMON}")
def doctor(
    model: Annotated[
        str | None,
        Argument(metavar="MODEL", help="Check the chat format of this model only [default: all on this machine]"),
    ] = None,
    as_json: opt.AsJson = False,
    fresh: Annotated[bool, Option("--fresh", help="Test again instead of showing remembered results")] = False,
    **settings: Any,
) -> None:
    """Check the library and the devices, and advise what would be faster."""
    from localllm.cli.commands.doctor import doctor as examine
    from localllm.cli.shared import config

    raise Exit(examine(config.load(settings), model, as_json=as_json, fresh=fresh))


COMMANDS.update(
    run=run,
    sessions=sessions.sessions,
    embed=embed.embed,
    transcribe=transcribe.transcribe,
    batch=batch.batch,
    serve=serve,
    launch=launch,
    show=show,
    route=route,
    ps=ps,
    stop=stop,
)
app_command.add_to(COMMANDS)
COMMANDS.update(recommend=recommend.recommend, fit=fit.fit)
COMMANDS["set"] = model_settings.set_
COMMANDS.update(tune=tune.tune)
manage.add_to(COMMANDS)
mcp_command.add_to(COMMANDS)
deploy_command.add_to(COMMANDS)
rpc_worker.add_to(COMMANDS)
COMMANDS.update(doctor=doctor)
help_command.add_to(COMMANDS)
