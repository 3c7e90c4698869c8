"""Options and help of `localllm set`. The body is imported when the command runs."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Exit

from localllm.cli.options import common as opt
from localllm.cli.options.settings import takes


@takes("home")
def set_(
    model: Annotated[
        str, Argument(metavar="MODEL", help="A model as listed by localllm list, or a pattern such as 'qwen3:*'")
    ],
    pairs: Annotated[
        list[str] | None,
        Argument(metavar="KEY=VALUE...", help="Such as ctx=32768; KEY= removes it; without any: show all"),
    ] = None,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """Change or show how a model is loaded and how it answers."""
    from localllm.cli.commands.store.model_settings import set_model
    from localllm.cli.shared import config

    raise Exit(set_model(config.load(settings), model, pairs or [], as_json=as_json))
