"""Messages to and from a process that serves devices: lines of JSON on its stdin and stdout."""

from __future__ import annotations

import msgspec

from localllm.errors import ErrorInfo
from localllm.types import DeviceInfo


class Serve(msgspec.Struct, frozen=True, kw_only=True):
    """The only request. The child ends with its stdin."""

    data_dir: str
    runtime: str
    plugin_dir: str | None
    devices: tuple[str, ...] | None
    """None: all GPUs, or the CPU without any."""
    threads: int | None
    cache_dir: str | None
    """Where large tensors are cached, so that they are sent only once; None: nowhere."""
    verbose: bool


class Serving(msgspec.Struct, frozen=True, tag=True):
    """The child serves on this port of the loopback address."""

    port: int
    library: str
    devices: tuple[DeviceInfo, ...]
    warning: str = ""
    """What clients should know; empty: nothing."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The child cannot serve, and ends."""

    error: ErrorInfo


Answer = Serving | Refused
