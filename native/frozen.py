"""Entry point of a frozen localllm (`localllm.spec`); a child process runs the module it was started for.

Beside `localllm`, the command, stands `localllm-app`: `localllm app` for desktops, without a console on Windows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

for name in ("stdin", "stdout", "stderr"):  # a program without a console has no standard streams
    if getattr(sys, name) is None:
        setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115

from localllm.system.programs import restore_library_path, run_child  # noqa: E402

restore_library_path()
run_child()

from localllm.cli import main  # noqa: E402

if Path(sys.argv[0]).stem == "localllm-app":
    sys.argv.insert(1, "app")
main()
