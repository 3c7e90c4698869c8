"""What a loaded llama.cpp cannot do of what localllm offers.

A wheel links only what its own program needs, and older versions have fewer functions.
"""

from __future__ import annotations

from localllm.llama import context
from localllm.llama.bindings import is_there
from localllm.llama.drafts import next_symbols
from localllm.llama.library import Library
from localllm.llama.media.opening import why_no_media
from localllm.planning.device_choice import GPU_KINDS

GUESSES = "guesses from hidden states (MTP, EAGLE-3, DFlash, assistants)"
QUANTIZE = "`localllm quantize`"
EXPERT_CACHE = "the expert cache (moe_cache_mb)"
MEDIA = "pictures and sound (libmtmd)"
SHORT_EMBEDDING = "embedding that leaves out the output head, which is faster"
PROJECTORS = "projectors of type "
LOOKED_AT = (GUESSES, QUANTIZE, EXPERT_CACHE, MEDIA, PROJECTORS, SHORT_EMBEDDING)
"""All of it: an answer from before something was added to it is not remembered any longer."""


def lacking(library: Library) -> tuple[str, ...]:
    """For people; empty: nothing is known to be missing."""
    functions, known = next_symbols.find(library.api), library.known
    missing = {
        GUESSES: functions is None or not functions.reads_layers,
        QUANTIZE: not is_there(library.api, "llama_model_quantize"),
        EXPERT_CACHE: any(device.kind in GPU_KINDS for device in library.devices())
        and not hasattr(library.api.llama_context_default_params(), context.EXPERT_CACHE),
        MEDIA: bool(why_no_media(library)),
        PROJECTORS + " and ".join(known.unknown_projectors): bool(known.unknown_projectors),
        SHORT_EMBEDDING: not known.switches_embeddings,
    }
    return tuple(what for what, is_missing in missing.items() if is_missing)
