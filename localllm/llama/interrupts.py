"""Ends a `llama_decode` early: the compiled abort callback, loaded with ctypes (`native/interrupt`).

ggml's CPU backend calls it after every node of a graph; other backends never do. It is native because a Python callback
would take the GIL each time. Knows nothing of who asks for it and of what is recomputed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localllm.system import native_libraries

ABI = 1
ABORTED = 2
"""Status of `llama_decode`: cells of earlier ubatches are there, those of the interrupted one are not."""


class Interrupt:
    """For one context. Any thread may use `ask` and `num_nodes`, only the decoding thread the rest.

    Has no effect where it is not compiled or not `wanted`.
    """

    def __init__(self, api: Any, context: Any, memory: Any, *, wanted: bool) -> None:
        self._library: Any = None
        if not wanted:
            return
        try:
            self._library = load()
        except native_libraries.NotCompiled:
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
        """The decode that listens, or the next one, ends with its current ubatch, at the latest after `within_s`."""
        if self._library is not None:
            self._library.li_interrupt(self._state, within_s)

    def clear(self) -> None:
        """Discard requests made so far."""
        if self._library is not None:
            self._library.li_clear(self._state)

    @contextmanager
    def listening(self, slots: Sequence[int], within_s: float | None) -> Iterator[None]:
        """The next decode, of these slots, may be interrupted, and is after `within_s` in any case; None: it
        may not."""
        if self._library is None or within_s is None:
            yield
            return
        self._library.li_begin(self._state, (ctypes.c_int32 * len(slots))(*slots), len(slots), min(within_s, 1e12))
        try:
            yield
        finally:
            self._library.li_end(self._state)

    @property
    def lost_s(self) -> float:
        """How long the ubatch that the last interrupted decode lost had been computed."""
        return 0.0 if self._library is None else float(self._library.li_lost_ns(self._state) / 1e9)

    @property
    def num_nodes(self) -> int:
        """Nodes of graphs computed so far, in all decodes."""
        return 0 if self._library is None else int(self._library.li_num_nodes(self._state))


def load() -> Any:
    """The library built with this installation. Raises `NotCompiled`."""
    return native_libraries.load("interrupt", open_library)


def open_library(path: Path) -> Any:
    """Raises `OSError` if the file is not a library, `ValueError` if it was built for another version of localllm."""
    library: Any = ctypes.CDLL(str(path))
    library.li_abi.restype = ctypes.c_int32
    if (abi := library.li_abi()) != ABI:
        raise ValueError(f"{path} has version {abi} of the interface, not {ABI}; install localllm again")
    pointer, seconds = ctypes.c_void_p, ctypes.c_double
    library.li_create.argtypes, library.li_create.restype = [pointer, pointer], pointer
    library.li_interrupt.argtypes, library.li_interrupt.restype = [pointer, seconds], None
    library.li_clear.argtypes, library.li_clear.restype = [pointer], None
    library.li_begin.argtypes = [pointer, pointer, ctypes.c_int32, seconds]
    library.li_begin.restype = None
    library.li_end.argtypes, library.li_end.restype = [pointer], None
    library.li_num_nodes.argtypes, library.li_num_nodes.restype = [pointer], ctypes.c_int64
    library.li_lost_ns.argtypes, library.li_lost_ns.restype = [pointer], ctypes.c_int64
    return library
