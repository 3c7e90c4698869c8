"""llama-server's own code, which the package xllamacpp contains, on a free port: `python -m benchmarks.media_peer MODEL
MMPROJ SLOTS CTX`. Prints its address, then serves until end-of-file on stdin."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def main() -> None:
    model, projector, slots, ctx = sys.argv[1:]
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path, params.mmproj.path = model, projector
    params.n_parallel, params.n_ctx = int(slots), int(ctx) * int(slots)
    params.port, params.verbosity, params.warmup = 0, 0, True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
