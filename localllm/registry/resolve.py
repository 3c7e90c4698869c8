"""What a user typed, to a model file: a path to a GGUF, or `demo`. Knows nothing of what is in the file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localllm.errors import ModelNotFound

DEMO = "demo"
"""The model that localllm carries, made by `models/demo/train.py`. A file of that name is meant by `./demo`."""


class ModelFile(NamedTuple):
    """A model on disk: its id is the file's name without `.gguf` (and without a shard's number)."""

    id: str
    path: Path


def resolve(name: str | Path) -> ModelFile:
    """Raises `ModelNotFound` when there is no such file."""
    if name == DEMO:
        return ModelFile(DEMO, carried("demo.gguf"))
    path = Path(name).expanduser()
    if not path.exists():
        raise ModelNotFound(
            f"there is no model file {str(name)!r}; give the path of a GGUF file, or demo", param="model"
        )
    return ModelFile(model_id(path), path.resolve())


def carried(file_name: str) -> Path:
    """A file of the package's data folder. Raises `ModelNotFound` if the installation lacks it."""
    import importlib.resources

    path = Path(str(importlib.resources.files("localllm").joinpath("data", file_name)))
    if not path.is_file():
        raise ModelNotFound(
            f"this installation has no {file_name}; give the path of a GGUF file, or make it: models/demo/train.py",
            param="model",
        )
    return path


def model_id(path: Path) -> str:
    """`dir/tiny-Q8_0.gguf` is `tiny-Q8_0`; `big-00001-of-00003.gguf` is `big`."""
    stem = path.name.removesuffix(".gguf")
    head, _, tail = stem.rpartition("-of-")
    base, _, number = head.rpartition("-")
    return base if base and tail.isdigit() and number.isdigit() and len(tail) == len(number) == 5 else stem
