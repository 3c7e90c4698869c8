"""Options and help of `localllm deploy`. The body is imported when the command runs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option

Kind = Literal["nginx", "haproxy", "docker", "compose", "k8s", "systemd", "launchd"]


def deploy(
    kind: Annotated[Kind, Argument(metavar="KIND", help="nginx, haproxy, docker, compose, k8s, systemd or launchd")],
    models: Annotated[list[str] | None, Argument(metavar="MODEL", help="Models the server loads at startup")] = None,
    port: Annotated[int, Option("--port", metavar="N", help="Port of the server")] = 11435,
    backend: Annotated[
        list[str] | None,
        Option("--backend", metavar="HOST:PORT", help="A server behind nginx or haproxy; repeatable [default: --port]"),
    ] = None,
    listen: Annotated[int, Option("--listen", metavar="N", help="Port of nginx or haproxy")] = 8080,
    out: Annotated[Path | None, Option("--out", metavar="FOLDER", help="Write files there [default: stdout]")] = None,
) -> None:
    """Print files for gateways, containers and service managers, filled in.

    Nothing is installed or started.
    """
    from localllm.cli.deploy.command import deploy as print_files
    from localllm.cli.deploy.files import Wanted

    raise Exit(print_files(kind, Wanted(models or (), port, listen, backend or ()), out))


def add_to(commands: MutableMapping[str, Callable[..., None]]) -> None:
    """Register the command."""
    commands["deploy"] = deploy
