"""Reads and checks the headers of GGUF files in pure Python, before native code sees them.

    read_model_info   facts about a model, from all of its shards
    model_info        the same, from headers that were read elsewhere
    read_header       one file's metadata and tensor table
    shard_paths       the files of a split model
    special_texts     the BOS and EOS tokens as text, for templates

Knows nothing of llama.cpp, NumPy or where models are kept. The format: ggml/docs/gguf.md in llama.cpp's tree. Begin
with `header`.
"""

from __future__ import annotations

from localllm.gguf.cursor import Source
from localllm.gguf.header import Header, TensorInfo, read_header
from localllm.gguf.info import model_info, read_model_info
from localllm.gguf.shards import shard_paths
from localllm.gguf.specials import SpecialTexts, special_texts
from localllm.gguf.values import MetadataValue, UndecodedValue

__all__ = [
    "Header",
    "MetadataValue",
    "Source",
    "SpecialTexts",
    "TensorInfo",
    "UndecodedValue",
    "model_info",
    "read_header",
    "read_model_info",
    "shard_paths",
    "special_texts",
]
