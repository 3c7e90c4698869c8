"""Names, options and help of `localllm set`. Its body is imported when it runs."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Exit

from localllm.cli import options as opt


def set_(
    model: Annotated[str, Argument(metavar="MODEL", help="As localllm list calls it, or a pattern, as 'qwen3:*'")],
    pairs: Annotated[
        list[str] | None, Argument(metavar="KEY=VALUE...", help="As ctx=32768; KEY= removes it; none: show all")
    ] = None,
    as_json: opt.AsJson = False,
    home: opt.Home = None,
) -> None:
    """Set how a model is loaded and answers from now on, or show what is set."""
    from localllm.cli.model_settings import set_model
    from localllm.settings import config

    raise Exit(set_model(config.load({"home": home}), model, pairs or [], as_json=as_json))
