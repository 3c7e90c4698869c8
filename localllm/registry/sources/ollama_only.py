"""Which GGUF files only Ollama reads, and what to take instead.

Ollama publishes files in layouts of its own and rewrites them in memory while it loads them (llama/compat/README.md of
its source, which is where these lists come from). Stock llama.cpp, which we use, cannot read such a file. Knows what a
header says and what a registry's config says; whether a load succeeds in the end, it cannot know.
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
"""Ollama's own `general.architecture` -> what llama.cpp calls the same, if it knows it."""
OFTEN_ITS_OWN = frozenset(
    ["gemma3", "gemma3n", "gemma4", "lfm2", "llama4", "mistral3", "nemotron_h_moe",
     "qwen35", "qwen35moe", "qwen3next", "qwen3vl", "qwen3vlmoe"]
)  # fmt: skip
"""Architectures of both, of which Ollama has published files in a layout of its own."""
EMBEDDED = ("v.", "mm.", "a.", "s.")
"""Beginnings of tensors' names that belong into a projector file; Ollama puts them into the model's."""

REMEDY = "take the same model from Hugging Face: localllm search"


def refused_family(family: str) -> str | None:
    """Why a model of this family, as a registry's config calls it, cannot be read here; None: perhaps it can."""
    name = family.lower()
    if name not in STOCK_NAMES:
        return None
    stock = STOCK_NAMES[name]
    known = f" (llama.cpp's is {stock})" if stock else ""
    return f"its file is of the architecture {name}{known}, which only Ollama's patched loader reads; {REMEDY} {name}"


def refused_header(architecture: str, tensor_names: Iterable[str]) -> str | None:
    """The same of a file, by its header."""
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
