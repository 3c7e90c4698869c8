"""Ends a `llama_decode` before it is done: the compiled abort callback, loaded with ctypes (`native/interrupt`).

ggml's CPU backend calls it after every node of a graph; other backends never do. Native, because a Python callback
would take the GIL each time. Knows nothing of who asks for it and of what is computed again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localllm import compiled

ABI = 1
ABORTED = 2
"""Of `llama_decode`: the cells of the ubatches before are there, those of the one that was being computed are not."""


class Interrupt:
    """Of one context. `ask` and `num_nodes` may be used from any thread, the rest from the one that decodes.

    Does nothing where nothing is compiled, or where it is `wanted` by nobody.
    """

    def __init__(self, api: Any, context: Any, memory: Any, *, wanted: bool) -> None:
        self._library: Any = None
        if not wanted:
            return
        try:
            self._library = load()
        except compiled.NotCompiled:
            return
        pos_max = ctypes.cast(api._lib.llama_memory_seq_pos_max, ctypes.c_void_p)
        self._state: int = self._library.li_create(memory, pos_max)
        callback = self._callback = ctypes.cast(self._library.li_should_stop, api.ggml_abort_callback)
        """Must live as long as the context."""
        api.llama_set_abort_callback(context, callback, self._state)

    @property
    def works(self) -> bool:
        return self._library is not None

    def ask(self, within_s: float) -> None:
        """The decode that listens, or the next one, ends with its current ubatch, after `within_s` at the latest."""
        if self._library is not None:
            self._library.li_interrupt(self._state, within_s)

    def clear(self) -> None:
        """What was asked for until now is forgotten."""
        if self._library is not None:
            self._library.li_clear(self._state)

    @contextmanager
    def listening(self, slots: Sequence[int], within_s: float | None) -> Iterator[None]:
        """The decode to come, of these slots, may be interrupted, and is after `within_s` in any case; None: not."""
        if self._library is None or within_s is None:
            yield
            return
        self._library.li_begin(self._state, (ctypes.c_int32 * len(slots))(*slots), len(slots), min(within_s, 1e12))
        try:
            yield
        finally:
            self._library.li_end(self._state)

    def stop_after(self, num_nodes: int) -> None:
        """The next decode that listens ends after so many nodes: for tests."""
        self._library.li_stop_after(self._state, num_nodes)

    @property
    def lost_s(self) -> float:
        """For so long the ubatch was computed that the last interrupted decode lost."""
        return 0.0 if self._library is None else float(self._library.li_lost_ns(self._state) / 1e9)

    @property
    def num_nodes(self) -> int:
        """Nodes of graphs computed so far, in all decodes."""
        return 0 if self._library is None else int(self._library.li_num_nodes(self._state))


def load() -> Any:
    """The library that was built with this installation. Raises `NotCompiled`."""
    return compiled.load("interrupt", open_library)


def open_library(path: Path) -> Any:
    """Raises `OSError` if the file is no library, `ValueError` if it was built for another version of localllm."""
    library: Any = ctypes.CDLL(str(path))
    library.li_abi.restype = ctypes.c_int32
    if (abi := library.li_abi()) != ABI:
        raise ValueError(f"{path} speaks version {abi} of the interface, not {ABI}; install localllm again")
    pointer, seconds = ctypes.c_void_p, ctypes.c_double
    library.li_create.argtypes, library.li_create.restype = [pointer, pointer], pointer
    library.li_interrupt.argtypes, library.li_interrupt.restype = [pointer, seconds], None
    library.li_clear.argtypes, library.li_clear.restype = [pointer], None
    library.li_begin.argtypes = [pointer, pointer, ctypes.c_int32, seconds]
    library.li_begin.restype = None
    library.li_end.argtypes, library.li_end.restype = [pointer], None
    library.li_num_nodes.argtypes, library.li_num_nodes.restype = [pointer], ctypes.c_int64
    library.li_lost_ns.argtypes, library.li_lost_ns.restype = [pointer], ctypes.c_int64
    library.li_stop_after.argtypes, library.li_stop_after.restype = [pointer, ctypes.c_int64], None
    return library
