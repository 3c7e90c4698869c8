"""Name, options and help of `localllm app`. Its body is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Annotated, Any

from typer import Argument, Exit, Option

from localllm.cli.options.settings import COMMON, takes


@takes(f"host port {COMMON}")
def app(
    model: Annotated[str | None, Argument(metavar="MODEL", help="To chat with [default: the page's last one]")] = None,
    install_desktop: Annotated[
        bool, Option("--install-desktop", help="Only add an entry to the desktop's menu (Linux)")
    ] = False,
    **settings: Any,
) -> None:
    """Open the page in a window, on the running server or on one of its own."""
    from localllm.cli.launching.app_window import install_entry, show_window

    raise Exit(install_entry() if install_desktop else show_window(settings, model))


def add_to(commands: MutableMapping[str, Callable[..., None]]) -> None:
    """Register the command."""
    commands["app"] = app
