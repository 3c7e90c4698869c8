"""`python -m localllm.llama.remote.rpc_child`: serves this machine's devices to one RPC client at a time.

Listens on the loopback address only; `rpc.front` forwards clients to it. A client can make llama.cpp abort: then this
process dies, and the one that faces the network reports it and starts another.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from localllm.errors import LocalLLMError
from localllm.llama.remote import devices as rpc
from localllm.llama.runtimes.requested import Wishes
from localllm.rpc.messages import Answer, Refused, Serve, Serving
from localllm.system import cpu, processes
from localllm.types.rpc_endpoints import Endpoint

LOOPBACK = "127.0.0.1"
_LISTEN_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.01
_ALL_IS_FREE = (
    "this llama.cpp tells clients that all of main memory is free; they may plan with memory that is in use, unless "
    "--gpu-layers limits them"
)


def main() -> None:
    """Answers the request on stdin; ends when stdin is closed."""
    requests, answers = processes.claim_standard_streams()
    processes.die_quietly()
    os.environ["GGML_NO_BACKTRACE"] = "1"
    request = msgspec.json.decode(_line(requests), type=Serve)
    threading.Thread(target=_end_with, args=(requests,), daemon=True).start()
    try:
        _serve(request, answers)
    except LocalLLMError as error:
        _write(answers, Refused(error.info()))
    os._exit(4)


def _serve(request: Serve, answers: BinaryIO) -> None:
    """Loads llama.cpp and serves until the process ends. Raises `LocalLLMError`."""
    plugin_dir = None if request.plugin_dir is None else Path(request.plugin_dir)
    wishes = Wishes(runtime=request.runtime, plugin_dir=plugin_dir, devices=(*(request.devices or ()), "rpc"), rpc=None)
    loaded = wishes.load(wishes.choose(Path(request.data_dir)), verbose=request.verbose)
    pointers = rpc.pointers(loaded.ggml, request.devices)
    names = {loaded.ggml.text("backend_dev_name", pointer) for pointer in pointers}
    devices = tuple(device for device in loaded.devices() if device.name in names)
    endpoint = Endpoint(LOOPBACK, _free_port())
    with rpc.available_memory_reported(loaded.ggml, pointers) as is_reported:
        serving = Serving(endpoint.port, str(loaded.build), devices, "" if is_reported else _ALL_IS_FREE)
        threading.Thread(target=_report_when_listening, args=(serving, answers), daemon=True).start()
        rpc.serve(
            loaded.ggml,
            endpoint,
            pointers,
            threads=request.threads or cpu.num_physical_cores(),
            cache_dir=None if request.cache_dir is None else Path(request.cache_dir),
        )


def _free_port() -> int:
    """llama.cpp binds by number and does not report a chosen one; if another process takes this port first, it
    fails."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _report_when_listening(serving: Serving, answers: BinaryIO) -> None:
    # llama.cpp does not report it. It accepts a connection without data and drops it.
    deadline_s = time.monotonic() + _LISTEN_WITHIN_S
    while time.monotonic() < deadline_s:
        try:
            socket.create_connection((LOOPBACK, serving.port), 1).close()
        except OSError:
            time.sleep(_LOOK_EVERY_S)
        else:
            _write(answers, serving)
            return
    os._exit(4)


def _end_with(requests: BinaryIO) -> None:
    while requests.read(4096):
        pass
    os._exit(0)


def _line(stream: BinaryIO) -> bytes:
    line = bytearray()
    while (byte := stream.read(1)) and byte != b"\n":
        line += byte
    return bytes(line)


def _write(answers: BinaryIO, answer: Answer) -> None:
    answers.write(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main()
