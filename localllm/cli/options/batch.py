"""Options and help of `localllm batch`. The body is imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt
from localllm.cli.options.settings import COMMON, takes

SAMPLING = "temperature max_tokens seed"


@takes(
    f"{SAMPLING} api_key ctx slots threads gpu_layers device kv_type draft speculation {COMMON}",
    "mmproj projector max_body_bytes runtime rpc plugin_dir",
)
def batch(
    file: Annotated[
        str,
        Argument(
            metavar="IN", help="OpenAI's or Anthropic's batch lines; plain lines or CSV with --prompt; - is stdin"
        ),
    ],
    output: Annotated[
        Path,
        Option(
            "--output", "-o", metavar="OUT", help="Results, a JSON line each; the same command again goes on with it"
        ),
    ],
    model: Annotated[
        str | None, Option("--model", "-m", metavar="MODEL", help="Answers every line [default: what the lines name]")
    ] = None,
    prompt: Annotated[
        str | None,
        Option(
            "--prompt",
            metavar="TEXT",
            help="Ask this of every line or row; a name in braces stands for its text or column",
        ),
    ] = None,
    system: Annotated[str | None, Option("--system", metavar="TEXT", help="System message, with --prompt")] = None,
    schema: Annotated[
        Path | None, Option("--schema", metavar="FILE", help="JSON Schema of every answer, with --prompt")
    ] = None,
    concurrency: Annotated[
        int | None,
        Option("--concurrency", min=1, max=256, metavar="N", help="Requests at a time [default: twice the slots]"),
    ] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Begin anew, although OUT has results")] = False,
    check: Annotated[bool, Option("--check", help="Only check the lines; no OUT is written")] = False,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Answer a file of requests, in the best order; goes on where a killed run ended."""
    own = {name: value for name, value in locals().items() if name != "settings"}
    from localllm.cli.commands.batch import BatchOptions, run_batch

    params = {name: settings.pop(name) for name in SAMPLING.split()}
    raise Exit(run_batch(BatchOptions(**own, params=params, load=settings)))
