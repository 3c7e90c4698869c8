"""Layouts of structs that are passed to llama.cpp: those written by hand, which every build shares, and each build's.

A library with more or other fields writes its defaults elsewhere, so the documented defaults tell. Loads nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from localllm.types.libraries.builds import Build

SPARE_BYTES = 512
"""More than any struct has grown by from one build to the next."""

CONTEXT = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_rs_seq": 0, "ctx_type": 0,
    "rope_scaling_type": -1, "pooling_type": -1, "attention_type": -1, "flash_attn_type": -1, "yarn_ext_factor": -1.0,
    "type_k": 1, "type_v": 1, "cb_eval_user_data": None, "abort_callback_data": None, "embeddings": False,
    "offload_kqv": True, "op_offload": True, "swa_full": True, "kv_unified": False, "n_samplers": 0, "ctx_other": None,
}  # fmt: skip
MODEL = {
    "devices": None, "tensor_buft_overrides": None, "n_gpu_layers": -1, "split_mode": 1, "main_gpu": 0,
    "progress_callback_user_data": None, "vocab_only": False, "check_tensors": False, "use_extra_bufts": True,
    "no_host": False, "no_alloc": False, "load_mtp": False,
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


def struct(build: Build, name: str, types: Mapping[str, Any], *, spare_bytes: int = 0) -> Any:
    """The ctypes class of a struct in that build. `types`: those that the bindings have for fields, which are kept
    where their size is right, since they know what pointers lead to. `spare_bytes`: more room at the end."""
    fields = []
    for index, (field, kind) in enumerate(build.fields(name)):
        exact = _type(build, kind)
        given = types.get(field, exact)
        fields.append((field or f"unnamed_{index}", given if ctypes.sizeof(given) == ctypes.sizeof(exact) else exact))
    spare = [("spare", ctypes.c_ubyte * spare_bytes)] if spare_bytes else []
    return type(name, (ctypes.Structure,), {"_fields_": fields + spare})


def is_laid_out(given: Any, build: Build, name: str) -> bool:
    """Whether this ctypes class has the build's fields at their places."""
    names = [field for field, *_ in given._fields_]
    return (
        len(names) == len(build.fields(name))
        and all(field in ("", name) for (field, _), name in zip(build.fields(name), names, strict=True))
        and _places(given) == _places(struct(build, name, {}))
    )


def _places(given: Any) -> list[tuple[int, int]]:
    """Offset and size of each field, then the whole."""
    fields = [getattr(given, field) for field, *_ in given._fields_]
    return [*((field.offset, field.size) for field in fields), (0, ctypes.sizeof(given))]


def odd_default(library: ctypes.CDLL, build: Build) -> str:
    """What differs from the defaults that llama.h documents if the library's structs are read as this build's; empty:
    nothing does.

    The functions write as much as their own structs take, so there is room for more.
    """
    for name, expected in (("context", CONTEXT), ("model", MODEL)):
        function = library[f"llama_{name}_default_params"]  # an object of our own, whose types no one else sees
        function.argtypes, function.restype = [], struct(build, f"llama_{name}_params", {}, spare_bytes=SPARE_BYTES)
        found = function()
        for field, value in expected.items():
            if getattr(found, field) != value:
                return f"{field} is {getattr(found, field)}, not {value}"
    return ""


def _type(build: Build, kind: str) -> Any:
    """The ctypes type of a kind, as `native/llama_headers.py` writes them."""
    if kind.endswith("]"):
        element, _, count = kind[:-1].partition("[")
        return (ctypes.c_ubyte if element == "bytes" else _type(build, element)) * int(count)
    if kind.startswith("struct "):
        return struct(build, kind.removeprefix("struct "), {})
    return ctypes.c_void_p if kind == "pointer" else getattr(ctypes, f"c_{kind}")
