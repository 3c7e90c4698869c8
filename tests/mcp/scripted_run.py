"""`localllm run` whose own server has its answers written: `python -P -m tests.mcp.scripted_run SCRIPT ...`"""

from __future__ import annotations

import runpy
import sys

import pytest

from localllm.cli import main
from localllm.client import server_process

SERVER = "--server"

if __name__ == "__main__":
    if sys.argv[1] == SERVER:
        _, _, script, serve, *options = sys.argv
        assert serve == "serve"
        sys.argv = ["scripted_server", script, *options]
        runpy.run_module("tests.agents.scripted_server", run_name="__main__")
    else:
        # What jsonschema imports for IRIs takes 2 s; it is there for other tests, and no schema here has one.
        sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
        script = sys.argv.pop(1)
        command = [sys.executable, "-P", "-m", "tests.mcp.scripted_run", SERVER, script]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server_process, "localllm_command", lambda: command)
            main()
