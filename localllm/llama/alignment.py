"""Lets ggml place what it computes at whole cache lines, which AMX needs for its speed.

ggml aligns tensors to 32 bytes. A small one in front of the others, such as the row numbers of the logits or the slots
of recurrent states, then shifts all of them to the middle of a line: AMX takes 1.7 times as long for a large matrix,
and a prompt 1.2 times (benchmarks/log/cpu.md#half-a-cache-line). AVX-512 and AVX2 alone are as fast either way.
"""

from __future__ import annotations

import ctypes

from localllm.errors import LoadFailed
from localllm.llama.devices import Ggml
from localllm.llama.vtables import TakeBack, are_functions, replace, slots
from localllm.types.libraries.builds import Build

LINE_BYTES = 64
_TABLE = "ggml_backend_buffer_type_i"
"""With which a buffer type begins (ggml-backend-impl.h)."""
_SIGNATURES = {
    "ggml_backend_cpu_buffer_type": (ctypes.c_void_p, []),
    "ggml_backend_buft_get_alignment": (ctypes.c_size_t, [ctypes.c_void_p]),
}


def align_to_lines(ggml: Ggml, build: Build) -> TakeBack | None:
    """From now on CPU buffers align tensors to `LINE_BYTES`. Returns what takes that back, to be kept until then; None
    if nothing was changed.

    ggml has no setting for it, so the function that tells the alignment is replaced. Where the slot does not hold that
    function, or ggml does not tell the new alignment afterwards, its structure is a different one, and is left as it
    was.
    """
    try:
        ggml.bind(_SIGNATURES)
    except LoadFailed:  # a library without them, which computes all the same
        return None
    place = build.slot(_TABLE, "get_alignment")
    buffer_type = ggml.backend_cpu_buffer_type()
    alignment = ggml.backend_buft_get_alignment(buffer_type)
    functions = slots(buffer_type, place + 1)
    if alignment >= LINE_BYTES or not are_functions([functions[0], functions[place]]):  # others may be NULL
        return None
    kind = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)
    if kind(functions[place])(buffer_type) != alignment:
        return None
    return replace(
        buffer_type,
        place,
        kind(lambda _: LINE_BYTES),
        lambda: bool(ggml.backend_buft_get_alignment(buffer_type) == LINE_BYTES),
    )
