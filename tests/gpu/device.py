"""The backend that these tests compute on: a plugin's, or one of the llama.cpp that is tested.

LOCALLLM_PLUGIN_DIR names a folder with a ggml backend plugin, or LOCALLLM_TEST_RUNTIME one of a runtime with such a
backend. With Mesa's software Vulkan device set GGML_VK_VISIBLE_DEVICES=0 too, because ggml leaves devices of type "CPU"
out otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localllm.llama.runtimes import installed

_PLUGINS, _RUNTIME = os.environ.get("LOCALLLM_PLUGIN_DIR"), os.environ.get("LOCALLLM_TEST_RUNTIME")
PLUGIN_DIR = Path(_PLUGINS) if _PLUGINS else None
"""None: the backend is one of the runtime's."""
_FILES = [path.name for folder in (_PLUGINS, _RUNTIME) if folder for path in installed.plugin_files(Path(folder))]
BACKEND = next((name.split("ggml-")[1].split("-")[0].split(".")[0] for name in _FILES if "-rpc" not in name), "")
"""vulkan, cuda, hip: as a device it names all of that backend, whether or not they are faster than the CPU."""
HAS_EXPERT_CACHE = any(
    b"MoE cache" in path.read_bytes() for path in Path(_RUNTIME or "").glob("*libllama*") if _RUNTIME
)
MARKS = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not BACKEND, reason="neither LOCALLLM_PLUGIN_DIR nor LOCALLLM_TEST_RUNTIME has the backend of a GPU"
    ),
]
needs_vulkan = pytest.mark.skipif(
    not any("-vulkan" in name for name in _FILES), reason="what it asks of the driver is a variable of ggml's Vulkan"
)
