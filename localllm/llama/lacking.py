"""What a loaded llama.cpp cannot do of what localllm offers.

A wheel links only what its own program needs, and older versions have fewer functions.
"""

from __future__ import annotations

from localllm.llama.bindings import is_there
from localllm.llama.drafts import next_symbols
from localllm.llama.library import Library
from localllm.llama.media.opening import why_no_media

GUESSES = "guesses from hidden states (MTP, EAGLE-3, DFlash, assistants)"
QUANTIZE = "`localllm quantize`"
MEDIA = "pictures and sound (libmtmd)"


def lacking(library: Library) -> tuple[str, ...]:
    """For people; empty: nothing is known to be missing."""
    functions = next_symbols.find(library.api)
    missing = {
        GUESSES: functions is None or not functions.reads_layers,
        QUANTIZE: not is_there(library.api, "llama_model_quantize"),
        MEDIA: bool(why_no_media(library)),
    }
    return tuple(what for what, is_missing in missing.items() if is_missing)
