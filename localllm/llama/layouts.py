"""Layouts of structs that are passed to llama.cpp: those written by hand, and a check of those in the bindings.

A library with more or other fields writes its defaults elsewhere, so the documented defaults tell. Loads nothing.
"""

from __future__ import annotations

import ctypes
from typing import Any

from localllm.errors import LoadFailed

CONTEXT = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_rs_seq": 0, "ctx_type": 0,
    "rope_scaling_type": -1, "pooling_type": -1, "yarn_ext_factor": -1.0, "type_k": 1, "type_v": 1, "embeddings": False,
    "offload_kqv": True, "op_offload": True, "swa_full": True, "kv_unified": False, "n_samplers": 0, "ctx_other": None,
}  # fmt: skip
MODEL = {
    "devices": None, "tensor_buft_overrides": None, "n_gpu_layers": -1, "split_mode": 1, "main_gpu": 0,
    "progress_callback_user_data": None, "vocab_only": False, "check_tensors": False, "use_extra_bufts": True,
    "no_host": False, "no_alloc": False,
}  # fmt: skip
"""Some of the defaults, including the last fields."""


class DeviceProperties(ctypes.Structure):
    """ggml_backend_dev_props, whose last member is ggml_backend_dev_caps."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("is_async", ctypes.c_bool),
        ("other_caps", ctypes.c_bool * 4),
    ]


class BufferOverride(ctypes.Structure):
    """llama_model_tensor_buft_override."""

    _fields_ = [("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p)]


class InitParams(ctypes.Structure):
    """ggml_init_params."""

    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def check_layout(api: Any) -> None:
    """Checks that the library's structs match the bindings, by the defaults that llama.h documents. Raises
    `LoadFailed`."""
    for structure, expected in (
        (api.llama_context_default_params(), CONTEXT),
        (api.llama_model_default_params(), MODEL),
    ):
        for name, value in expected.items():
            if getattr(structure, name) != value:
                raise LoadFailed(f"its structs are not those of the bindings: {name} is not {value}")
