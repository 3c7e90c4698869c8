"""The command line. Only `main` lives here, so that importing the entry point is cheap."""

from __future__ import annotations


def main() -> None:
    """The `localllm` command; ends the process with an exit code of `cli.report`."""
    from localllm.cli.app import run_app

    raise SystemExit(run_app())
