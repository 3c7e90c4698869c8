"""Options and help of `localllm lora` and `localllm steer`. Each body is imported when its command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt
from localllm.cli.options.settings import takes


@takes("home", "hub_endpoint proxy ca_file max_download_kb_per_s allow_private_downloads download_patience_s")
def lora(
    action: Annotated[
        Literal["list", "add", "show", "remove", "convert", "merge"],
        Argument(metavar="list|add|show|remove|convert|merge", help="What to do"),
    ] = "list",
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="ARGS...",
            help="add: MODEL NAME FILE|FOLDER|hf.co/USER/REPO; show, remove: NAME; convert: MODEL FOLDER FILE; merge: "
            "MODEL+NAME FILE; list: nothing, or MODEL. A FOLDER is one that peft saved",
        ),
    ] = None,
    scale: Annotated[
        float, Option("--scale", metavar="X", help="add: strength where none is asked for; 1 is as it was trained")
    ] = 1.0,
    layers: Annotated[
        str | None,
        Option("--layers", metavar="FIRST-LAST", help="add: only layers that a control vector changes [default: all]"),
    ] = None,
    type: Annotated[
        str, Option("--type", metavar="TYPE", help="merge: of merged matrices: F16, F32, BF16, Q8_0 ... Q4_0, or same")
    ] = "F16",
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Add LoRA adapters to models: each is a model by its own name."""
    from localllm.cli.commands.store.adapters import manage_adapters
    from localllm.cli.shared import config

    loaded = config.load(settings)
    raise Exit(manage_adapters(loaded, action, words or [], scale=scale, layers=layers, type=type, as_json=as_json))


@takes("threads home")
def steer(
    action: Annotated[Literal["make"], Argument(metavar="make", help="Compute a control vector and keep it")],  # noqa: ARG001
    model: opt.Model,
    name: Annotated[str, Argument(metavar="NAME", help="Its name, which is a model's name from then on")],
    pairs: Annotated[
        Path, Argument(metavar="PAIRS", help="File of JSON lines, each with a positive and a negative text")
    ],
    layers: Annotated[
        str | None, Option("--layers", metavar="FIRST-LAST", help="Layers that it changes [default: all from 1 on]")
    ] = None,
    scale: Annotated[float, Option("--scale", metavar="X", help="Strength where none is asked for")] = 1.0,
    **settings: Any,
) -> None:
    """Make a control vector from pairs of texts: what the first ones have and the second ones have not."""
    from localllm.cli.commands.store.adapters import steer as make_vector
    from localllm.cli.shared import config

    raise Exit(make_vector(config.load(settings), model, name, pairs, layers=layers, scale=scale))
