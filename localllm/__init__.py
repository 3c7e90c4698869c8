"""localllm: run quantized GGUF models on your own machine.

Names are imported on first use (PEP 562), so that `import localllm` and `localllm --help` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localllm.errors import LocalLLMError as LocalLLMError
    from localllm.llm import LLM as LLM
    from localllm.llm import AsyncLLM as AsyncLLM
    from localllm.types import Chat as Chat
    from localllm.types import Delta as Delta
    from localllm.types import Message as Message
    from localllm.types import SamplingParams as SamplingParams

__version__ = "0.1.0"

_HOME = {
    "LLM": "localllm.llm",
    "AsyncLLM": "localllm.llm",
    "LocalLLMError": "localllm.errors",
    "Chat": "localllm.types",
    "Delta": "localllm.types",
    "Message": "localllm.types",
    "SamplingParams": "localllm.types",
}
__all__ = ["LLM", "AsyncLLM", "Chat", "Delta", "LocalLLMError", "Message", "SamplingParams", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'localllm' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
