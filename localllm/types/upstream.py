"""The llama.cpp that this version of localllm is written for: its commit, its versions, and numbers of its headers that
are needed where it is not loaded.

Plain data. Modules of `llama/` take such numbers from the bindings instead;
`tests/llama/test_upstream.py` compares these with the bindings, the headers and the library. What else depends on this
commit: `llama/facts.py`.
"""

from __future__ import annotations

from typing import Literal

COMMIT = "0c1e57098"
"""Of github.com/ggml-org/llama.cpp; `ggml_commit()` returns its beginning."""
LLAMA_VERSION, GGML_VERSION = "0.5.0", "0.25.3"
PACKAGE, PACKAGE_VERSION = "llama-cpp-python", "0.3.36"
"""The bindings, whose source distribution contains that commit. Pinned by pyproject.toml."""
WHEEL_PACKAGE, WHEEL_VERSION = "xllamacpp", "2026.10.11549"
"""A wheel with the library alone, the newest of `types.libraries.wheels`. Pinned by pyproject.toml's extra `wheel`."""
RPC_HELLO, RPC_DEVICE_COUNT = 14, 15
"""Commands of the RPC protocol."""
MAX_RPC_SERVERS = 16
"""GGML_RPC_MAX_SERVERS."""
MAX_DEVICES = 16
"""LLAMA_MAX_DEVICES."""
MAX_LAYERS, MAX_EXPERTS = 512, 1024
"""LLAMA_MAX_LAYERS, LLAMA_MAX_EXPERTS of llama-hparams.h."""
MAX_TENSOR_NAME_BYTES = 63
"""GGML_MAX_NAME less its terminating zero."""
SCHEDULER_COPIES = 4
"""GGML_SCHED_MAX_COPIES: copies of a step's inputs while devices work in a pipeline."""
DEFAULT_SEED = 2**32 - 1
"""LLAMA_DEFAULT_SEED: draw a seed."""
MAX_GRAMMAR_REPEATS = 2000
"""MAX_REPETITION_THRESHOLD of llama-grammar.cpp."""
POOLING_TYPES: tuple[Literal["none", "mean", "cls", "last", "rank"], ...] = ("none", "mean", "cls", "last", "rank")
"""LLAMA_POOLING_TYPE_*, in order from 0."""
GUESSED_FILE_TYPE = 1024
"""LLAMA_FTYPE_GUESSED, which is added to the others."""
FILE_TYPES: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4",
    40: "Q1_0", 41: "Q2_0",
}  # fmt: skip
"""`general.file_type` -> its label: LLAMA_FTYPE_* without the prefix."""
