"""Name, options and help of `localllm app`. Its body is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Annotated

from typer import Argument, Exit, Option

from localllm.cli.options import common as opt


def app(
    model: Annotated[str | None, Argument(metavar="MODEL", help="To chat with [default: the page's last one]")] = None,
    install_desktop: Annotated[
        bool, Option("--install-desktop", help="Only add an entry to the desktop's menu (Linux)")
    ] = False,
    host: opt.Host = None,
    port: opt.Port = None,
    home: opt.Home = None,
    verbose: opt.Verbose = None,
) -> None:
    """Open the page in a window, on the running server or on one of its own."""
    from localllm.cli.commands.app_window import install_entry, show_window

    given = {"host": host, "port": port, "home": home, "verbose": verbose}
    raise Exit(install_entry() if install_desktop else show_window(given, model))


def add_to(commands: MutableMapping[str, Callable[..., None]]) -> None:
    """Register the command."""
    commands["app"] = app
