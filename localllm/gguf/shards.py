"""Finds and checks the files of a split model, `NAME-00001-of-00003.gguf` and so on. Knows nothing of architectures.

llama.cpp opens the first file and derives the other names from it (llama_split_path), so we do the same.
"""

from __future__ import annotations

import re
from pathlib import Path

from localllm.errors import ModelNotFound
from localllm.gguf.cursor import invalid_file
from localllm.gguf.header import Header, read_header

MAX_SHARDS = 4_096

_SHARD_NAME = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def shard_paths(header: Header) -> tuple[Path, ...]:
    """All files of the model whose first file has this header, in order; only the file itself if it is not split.

    Raises `InvalidModelFile` for a later shard, a name from which the others cannot be derived, or a missing file.
    """
    count = _integer(header, "split.count", default=1)
    if count <= 1:
        return (header.path,)
    match = _SHARD_NAME.fullmatch(header.path.name)
    if match is None or int(match["count"]) != count or count > MAX_SHARDS:
        reason = f"it is one of {count} shards, so its name must end in -00001-of-{count:05}.gguf"
        raise invalid_file(header.path, reason, _offset(header, "split.count"))
    names = [f"{match['prefix']}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]
    if _integer(header, "split.no", default=0) != 0 or int(match["number"]) != 1:
        reason = f"it is shard {int(match['number'])} of {count}; give the first one, {names[0]}"
        raise invalid_file(header.path, reason, _offset(header, "split.no"))
    paths = tuple(header.path.with_name(name) for name in names)
    for path in paths:
        if not path.is_file():
            raise invalid_file(header.path, f"the shard {path.name} is missing")
    return paths


def read_all_shards(first: Header) -> tuple[Header, ...]:
    """The headers of all shards including `first`, checked against each other. Raises as `read_header` does."""
    paths = shard_paths(first)
    headers = (first, *(_read_shard(first, path) for path in paths[1:]))
    names: set[str] = set()
    for number, header in enumerate(headers):
        if len(headers) > 1:
            _check_member(header, number, len(headers))
        for tensor in header.tensors:
            if tensor.name in names:
                raise invalid_file(header.path, f"tensor {tensor.name!r} is in two shards")
            names.add(tensor.name)
    expected = _integer(first, "split.tensors.count", default=len(names))
    if len(headers) > 1 and expected != len(names):
        reason = f"the shards have {len(names):,} tensors, but split.tensors.count says {expected:,}"
        raise invalid_file(first.path, reason, _offset(first, "split.tensors.count"))
    return headers


def _read_shard(first: Header, path: Path) -> Header:
    try:
        return read_header(path)
    except ModelNotFound as error:  # deleted since `shard_paths` checked
        raise invalid_file(first.path, f"the shard {path.name} is missing") from error


def _check_member(header: Header, number: int, count: int) -> None:
    if _integer(header, "split.no", default=-1) != number or _integer(header, "split.count", default=-1) != count:
        reason = f"it should be shard {number + 1} of {count}, but its split.no and split.count say otherwise"
        raise invalid_file(header.path, reason, _offset(header, "split.no"))


def _integer(header: Header, key: str, *, default: int) -> int:
    entry = header.metadata.get(key)
    if entry is None:
        return default
    if not isinstance(entry.value, int) or isinstance(entry.value, bool):
        raise invalid_file(header.path, f"{key} is not a whole number", entry.offset)
    return entry.value


def _offset(header: Header, key: str) -> int | None:
    entry = header.metadata.get(key)
    return None if entry is None else entry.offset
