"""PEFT folders, written without peft."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

FOREIGN = Path(__file__).parent / "registry/data/peft"
"""Trained by peft on the demo (models/demo/foreign.py): rsLoRA, two ranks, three strengths, lm_head."""
TYPES = {"float32": "F32", "float16": "F16", "uint16": "BF16", "int32": "I32"}


def safetensors(tensors: Mapping[str, npt.NDArray[Any]]) -> bytes:
    header, data = dict[str, Any](), b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": TYPES[str(array.dtype)], "shape": array.shape, "data_offsets": [len(data), len(data) + len(raw)]
        }  # fmt: skip
        data += raw
    encoded = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    return len(encoded).to_bytes(8, "little") + encoded + data


def write_peft(folder: Path, tensors: Mapping[str, npt.NDArray[Any]], **config: Any) -> Path:
    """Names without `base_model.model.`."""
    folder.mkdir(exist_ok=True)
    whole = {f"base_model.model.{name}": array for name, array in tensors.items()}
    (folder / "adapter_model.safetensors").write_bytes(safetensors(whole))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 8, "lora_alpha": 16, **config}))
    return folder


def write_adapter(
    path: Path, matrices: Mapping[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]], *, alpha: float
) -> Path:
    """A GGUF adapter for `llama`, of A and B by the matrix's name."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for name, (a, b) in matrices.items():
        writer.add_tensor(f"{name}.lora_a", a)
        writer.add_tensor(f"{name}.lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
