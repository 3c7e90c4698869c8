"""`python -m localllm.llama.runtimes.build_child DATA_DIR NAME KIND LOG`: a build in the background.

It outlives the terminal that started it. `builds.stop` ends it.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from localllm.errors import LocalLLMError
from localllm.llama.probes import device_trials, selftest
from localllm.llama.runtimes import building, builds
from localllm.llama.runtimes.found import Runtime
from localllm.system import processes


def main() -> int:
    """Returns the exit code; progress goes to stdout, which is the log."""
    data_dir, name, kind, log = Path(sys.argv[1]), *sys.argv[2:5]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up, as on Ctrl-C
    if (hang_up := processes.reload_signal()) is not None:
        signal.signal(hang_up, signal.SIG_IGN)
    began_s = time.monotonic()
    try:
        with builds.recorded(data_dir, name, kind, log=log) as progress:
            base = building.base_in(data_dir)
            made = building.build(kind, data_dir, name=name, base=base, check=_check, on_progress=progress)
        outcome = selftest.choose(data_dir, runtime=made.name)  # so that `runtime list` knows its devices
        for device in device_trials.examine_runtime(outcome.choice, data_dir) if kind not in ("cpu", "rpc") else ():
            print(f"{device.name} ({device.description}): {device.trial}")  # noqa: T201
    except LocalLLMError as error:
        print(error.message)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        print("stopped")  # noqa: T201
        return 1
    print(f"{name} is built and tested ({time.monotonic() - began_s:.0f} s)")  # noqa: T201
    return 0


def _check(runtime: Runtime) -> str:
    """Its llama.cpp. Raises `LoadFailed` if it does not produce the recorded tokens."""
    trial = selftest.examine(runtime).trial
    print("tested:", selftest.describe(trial))  # noqa: T201
    return trial.build


if __name__ == "__main__":
    sys.exit(main())
