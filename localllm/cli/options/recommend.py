"""Options and help of `localllm recommend`. The body is imported when the command runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from typer import Exit, Option

from localllm.cli.options import common as opt
from localllm.cli.options.settings import COMMON, takes


@takes(f"threads device {COMMON}", "gpu_layers runtime rpc plugin_dir")
def recommend(
    use: Annotated[
        Literal["chat", "code", "vision", "embed", "agents"],
        Option("--for", metavar="chat|code|vision|embed|agents", help="What the model is for"),
    ] = "chat",
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Name the best models for this machine: quality, predicted speed, memory and disk. Works offline."""
    from localllm.cli.commands.recommend import recommend_models
    from localllm.cli.shared import config

    raise Exit(recommend_models(config.load(settings), use, as_json=as_json))
