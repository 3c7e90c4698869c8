"""What a loaded llama.cpp cannot do of what localllm offers.

A wheel links only what its own program needs, and older versions have fewer functions.
"""

from __future__ import annotations

from typing import Any

from localllm.llama.bindings import is_there
from localllm.llama.drafts import next_symbols

GUESSES = "guesses from hidden states (MTP, EAGLE-3, DFlash, assistants)"
QUANTIZE = "`localllm quantize`"


def lacking(api: Any) -> tuple[str, ...]:
    """For people; empty: nothing is known to be missing."""
    functions = next_symbols.find(api)
    lacks_guesses = functions is None or not functions.reads_layers
    lacks_quantize = not is_there(api, "llama_model_quantize")
    return (GUESSES,) * lacks_guesses + (QUANTIZE,) * lacks_quantize
