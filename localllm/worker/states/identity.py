"""Identifies the model of a `Load` by its files' contents. Knows nothing of what depends on it."""

from __future__ import annotations

from pathlib import Path

from localllm.gguf.header import read_header
from localllm.gguf.shards import shard_paths
from localllm.kvdisk.fingerprint import file_identity
from localllm.worker.messages import Load


def model_identity(load: Load) -> str:
    """Identity of all its files; takes milliseconds. Raises `OSError`."""
    first = Path(load.path)
    paths = (first,) if load.info.split_count == 1 else shard_paths(read_header(first))
    return " ".join(file_identity(path) for path in paths)
