"""Activated adapters (aLoRA): what makes an adapter one, and a copy of another that is one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from localllm.gguf.adapters import INVOCATION


def add_invocation(writer: GGUFWriter, tokens: Sequence[int]) -> None:
    """The adapter works from these tokens on."""
    writer.add_key_value(INVOCATION, list(tokens), GGUFValueType.ARRAY, GGUFValueType.UINT32)


def write_activated(source: Path, path: Path, tokens: Sequence[int]) -> Path:
    """A copy of an adapter for `llama` in F32 or F16, activated by these tokens."""
    reader, writer = GGUFReader(source), GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(reader.fields["adapter.lora.alpha"].contents()))
    add_invocation(writer, tokens)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
