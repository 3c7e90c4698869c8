"""The handshake of llama.cpp's RPC protocol, with a time limit.

llama.cpp itself waits forever for a server that does not answer, and aborts its process when it finds none, so a server
is asked here first, on a separate connection. Messages are those of ggml-rpc.cpp: a byte for the command, the size of
the payload as u64, then the payload; answers are a size and a payload, all little-endian.
"""

from __future__ import annotations

import socket
import struct
import time

from localllm.errors import LoadFailed
from localllm.types.rpc_endpoints import Endpoint
from localllm.types.upstream import RPC_DEVICE_COUNT, RPC_HELLO

TIMEOUT_S = 15.0
"""For the whole handshake: our servers start a process for each client, which may have to wake up a GPU."""
_CAPS_BYTES = 24


def ask(endpoint: Endpoint, protocol: tuple[int, int], timeout_s: float = TIMEOUT_S) -> int:
    """How many devices that server has. `protocol`: major and minor version that our llama.cpp speaks.

    Raises `LoadFailed`, which names the setting.
    """
    deadline_s = time.monotonic() + timeout_s
    try:
        connection = socket.create_connection(endpoint, timeout_s)
    except OSError as error:
        reason = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else error.strerror or error
        raise _unusable(
            endpoint,
            f"cannot be reached: {reason}; start `localllm worker --rpc {endpoint}` there, or leave it out of --rpc",
        ) from error
    try:
        with connection:
            version = _call(connection, RPC_HELLO, bytes(_CAPS_BYTES), 4 + _CAPS_BYTES, deadline_s)
            if version[0] != protocol[0] or version[1] > protocol[1]:
                raise _unusable(
                    endpoint,
                    f"speaks version {version[0]}.{version[1]} of the RPC protocol, and this llama.cpp "
                    f"{protocol[0]}.{protocol[1]}; use the same localllm and the same --runtime on both machines",
                )
            (count,) = struct.unpack("<I", _call(connection, RPC_DEVICE_COUNT, b"", 4, deadline_s))
    except TimeoutError:
        raise _unusable(
            endpoint, f"takes connections, but did not answer within {timeout_s:g} s; is it busy with another client?"
        ) from None
    except OSError as error:
        raise _unusable(
            endpoint,
            f"does not answer as an RPC server of this llama.cpp ({error.strerror or error}); "
            f"`localllm worker --rpc {endpoint}` starts one there",
        ) from error
    if count == 0:
        raise _unusable(endpoint, "has no device")
    return int(count)


def _call(connection: socket.socket, command: int, request: bytes, num_bytes: int, deadline_s: float) -> bytes:
    """Send a command and return its answer of `num_bytes`. Raises `OSError`, `TimeoutError`."""
    connection.settimeout(max(0.001, deadline_s - time.monotonic()))
    connection.sendall(struct.pack("<BQ", command, len(request)) + request)
    (size,) = struct.unpack("<Q", _receive(connection, 8, deadline_s))
    if size != num_bytes:
        raise OSError(f"{size} bytes in place of {num_bytes}")
    return _receive(connection, num_bytes, deadline_s)


def _receive(connection: socket.socket, num_bytes: int, deadline_s: float) -> bytes:
    data = bytearray()
    while len(data) < num_bytes:
        connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        part = connection.recv(num_bytes - len(data))
        if not part:
            raise OSError("it closed the connection")
        data += part
    return bytes(data)


def _unusable(endpoint: Endpoint, why: str) -> LoadFailed:
    return LoadFailed(
        f"rpc: {endpoint} {why}",
        param="rpc",
        public="another machine that computes for this one (rpc) cannot be used; the server's log says why",
    )
