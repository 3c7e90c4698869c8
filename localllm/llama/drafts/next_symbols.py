"""llama.cpp's functions for guesses from hidden states, declared by its C++ headers but not by its C interface.

They are looked up under the names that compilers give them; a library without them computes no such guesses. Knows
nothing of models.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from localllm.llama.bindings import is_there

_NAMES = {
    "set_rows": (
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
    ),
    "rows": (
        "_Z26llama_get_embeddings_nextnP13llama_context",
        "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
    ),
    "row": (
        "_Z30llama_get_embeddings_nextn_ithP13llama_contexti",
        "?llama_get_embeddings_nextn_ith@@YAPEAMPEAUllama_context@@H@Z",
    ),
}
"""Mangled by the Itanium ABI's rules, then by Microsoft's."""
_LAYER_NAMES = {
    "set_layer": (
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
    ),
    "layer": (
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ),
}
"""For drafts that guess from what enters some layers."""
_REQUIRED = (
    "LLAMA_CONTEXT_TYPE_MTP", "llama_model_n_layer_nextn", "llama_process", "llama_batch_ext_init",
    "llama_batch_ext_add_token", "llama_batch_ext_set_pos", "llama_batch_ext_set_embd_token",
    "llama_batch_ext_set_embd_state",
    "llama_batch_ext_set_output_logits",
)  # fmt: skip


class NextFunctions(NamedTuple):
    """The functions of one library."""

    set_rows: Any
    """(context, whether rows are wanted, whether only of tokens with logits)."""
    rows: Any
    """(context) -> address of the rows of the last batch's tokens; 0 if there are none."""
    row: Any
    """(context, index of a token in the batch that has logits) -> address of its row."""
    set_layer: Any = None
    """(context, layer, whether the vectors that enter it are wanted); None: the library has no such function."""
    layer: Any = None
    """(context, layer) -> address of these vectors of the last batch's tokens."""

    @property
    def reads_layers(self) -> bool:
        return self.set_layer is not None


def find(api: Any) -> NextFunctions | None:
    """The functions of this library; None if it lacks one of them."""
    if not all(is_there(api, name) for name in _REQUIRED):
        return None
    found, layers = _bound(api, _NAMES), _bound(api, _LAYER_NAMES)
    if found is None:
        return None
    context = ctypes.c_void_p
    found["set_rows"].argtypes, found["set_rows"].restype = [context, ctypes.c_bool, ctypes.c_bool], None
    found["rows"].argtypes, found["rows"].restype = [context], ctypes.c_void_p
    found["row"].argtypes, found["row"].restype = [context, ctypes.c_int32], ctypes.c_void_p
    if layers is None or not is_there(api, "llama_batch_ext_add_embd"):
        return NextFunctions(**found)
    layers["set_layer"].argtypes = [context, ctypes.c_uint32, ctypes.c_bool]
    layers["layer"].argtypes = [context, ctypes.c_uint32]
    layers["set_layer"].restype, layers["layer"].restype = None, ctypes.c_void_p
    return NextFunctions(**found, **layers)


def _bound(api: Any, names: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """New objects, whose types are ours alone; None if the library lacks one."""
    found = {}
    for name, spellings in names.items():
        known = next((spelling for spelling in spellings if hasattr(api._lib, spelling)), None)
        if known is None:
            return None
        found[name] = api._lib[known]
    return found
