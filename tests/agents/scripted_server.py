"""`localllm serve` whose workers are scripted: `python -P -m tests.agents.scripted_server SCRIPT SERVE-OPTIONS ...`"""

from __future__ import annotations

import sys
from typing import Any

from localllm.cli import main
from localllm.supervisor import managed

if __name__ == "__main__":
    script = sys.argv.pop(1)
    worker_command = managed.worker_command

    def scripted(**options: Any) -> list[str]:
        command = worker_command(**options)
        place = command.index("localllm.worker")
        return [*command[:place], "tests.agents.scripted_worker", script, *command[place + 1 :]]

    managed.worker_command = scripted
    sys.argv = ["localllm", "serve", *sys.argv[1:]]
    main()
