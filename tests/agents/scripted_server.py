"""`localllm serve` whose workers are scripted: `python -P -m tests.agents.scripted_server SCRIPT SERVE-OPTIONS ...`"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from localllm.cli import main
from localllm.supervisor import managed
from localllm.worker.command import worker_command

if __name__ == "__main__":
    script = sys.argv.pop(1)

    def scripted(**options: Any) -> list[str]:
        command = worker_command(**options)
        place = command.index("localllm.worker")
        return [*command[:place], "tests.agents.scripted_worker", script, *command[place + 1 :]]

    sys.argv = ["localllm", "serve", *sys.argv[1:]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(managed, "worker_command", scripted)
        main()
