"""The command line: `options/` declares each command, `commands/` does what it says.

Knows implementations only by name: `app` lists the commands, and a body is imported when its command runs. Only
`main` lives in this file, so that importing the entry point is cheap. Begin with `app`, then `commands/run`.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """The `localllm` command; ends the process with an exit code of `cli.shared.report`."""
    gc.set_threshold(50_000, 20, 20)  # imports leave no garbage; looking for it was a twentieth of a start
    # `import httpx` tries to import its own command line, whose rich and pygments were a seventh of what `run` imports.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    from localllm.system.terminals import open_standard_streams

    open_standard_streams()
    from localllm.cli.app import run_app

    raise SystemExit(run_app())
