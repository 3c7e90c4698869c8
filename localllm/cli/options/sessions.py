"""Options and help of `localllm sessions`. The body is imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt
from localllm.cli.options.settings import takes


@takes("home")
def sessions(
    action: Annotated[
        Literal["list", "show", "rm", "export"], Argument(metavar="list|show|rm|export", help="What to do")
    ] = "list",
    names: Annotated[
        list[str] | None, Argument(metavar="NAME...", help="Chats; of show and export one [default: the last]")
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Of export: FILE.md or FILE.json [default: Markdown on stdout]"),
    ] = None,
    every: Annotated[bool, Option("--all", help="Of rm: all of them")] = False,
    as_json: opt.AsJson = False,
    **settings: Any,
) -> None:
    """List, show, remove or export the chats that were kept; run --continue goes on with the last one."""
    from localllm.cli.commands.sessions import manage_sessions
    from localllm.cli.shared import config

    loaded = config.load(settings)
    raise Exit(manage_sessions(loaded, action, names or [], output=output, every=every, as_json=as_json))
