"""Recognizes GGUF files that only Ollama reads, and suggests what to use instead.

Ollama publishes files in its own layouts and rewrites them in memory while loading (llama/compat/README.md of its
source, from which these lists come). Stock llama.cpp, which we use, cannot read such files. Judges by the header and
the registry's config, so a file that passes may still fail to load.
"""

from __future__ import annotations

from collections.abc import Iterable

STOCK_NAMES = {
    "gptoss": "gpt-oss",
    "qwen25vl": "qwen2vl",
    "deepseekocr": "deepseek2-ocr",
    "glmocr": "glm4",
    "glm4moelite": "deepseek2",
    "olmo3": "olmo2",
    "nemotron_h_omni": "nemotron_h_moe",
    "mllama": None,
}
"""Ollama's own `general.architecture` -> llama.cpp's name for it, if it supports it."""
OFTEN_ITS_OWN = frozenset(
    ["gemma3", "gemma3n", "gemma4", "lfm2", "llama4", "mistral3", "nemotron_h_moe",
     "qwen35", "qwen35moe", "qwen3next", "qwen3vl", "qwen3vlmoe"]
)  # fmt: skip
"""Architectures that Ollama and llama.cpp support, but for which Ollama has published files in its own layout."""
EMBEDDED = ("v.", "mm.", "a.", "s.")
"""Name prefixes of tensors that belong in a projector file, but which Ollama puts into the model's file."""

REMEDY = "get the same model from Hugging Face: localllm search"


def refused_family(family: str) -> str | None:
    """Why a model of this family (from a registry's config) cannot be read here; None if it may be readable."""
    name = family.lower()
    if name not in STOCK_NAMES:
        return None
    stock = STOCK_NAMES[name]
    known = f" (llama.cpp's is {stock})" if stock else ""
    return f"its file has the architecture {name}{known}, which only Ollama's patched loader reads; {REMEDY} {name}"


def refused_header(architecture: str, tensor_names: Iterable[str]) -> str | None:
    """As `refused_family`, judged by a file's header."""
    reason = refused_family(architecture)
    if reason is not None or architecture == "clip":
        return reason
    embedded = next((name for name in tensor_names if name.startswith(EMBEDDED)), None)
    if embedded is None:
        return None
    return (
        f"the model's file also holds a projector (tensor {embedded[:60]}), which only Ollama's patched loader skips; "
        f"{REMEDY} {architecture}"
    )
