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
ARCHITECTURES = frozenset(
    """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet bloom chameleon chatglm
    codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4
    dflash dots1 dots3note dream eagle3 ernie4_5 ernie4_5-moe eurobert exaone exaone-moe exaone4 falcon falcon-h1
    gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 gemma4-assistant glm-dsa glm4 glm4moe glm5-next gpt-oss gpt2
    gptj gptneox granite granite_swa granitehybrid granitemoe graniteswitch grok grovemoe hrm_text hunyuan-dense
    hunyuan-moe hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3 kimi-k3 kimi-linear laguna
    lfm2 lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba mamba2 maple mellum mimo2 minicpm minicpm3
    minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt muse-glimmer nanbeige nemotron nemotron_h
    nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion paddleocr pangu-embedded phi2
    phi3 phimoe plamo plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe
    qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp refact rnd1 rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3
    spark2_5 stablelm starcoder starcoder2 step35 t5 t5encoder talkie wavtokenizer-dec xverse
    """.split()
)
"""LLM_ARCH_NAMES of llama-arch.cpp, without `clip`: what a model's `general.architecture` may be."""
