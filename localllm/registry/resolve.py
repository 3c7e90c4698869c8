"""What a user typed, to a model file: a path to a GGUF, or `demo`. Knows nothing of what is in the file.

A name of anything else is understood, and refused with what is known of it: nothing is downloaded yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry.names import CatalogName, Demo, ModelName, PathName, parse


class ModelFile(NamedTuple):
    """A model on disk: its id is the file's name without `.gguf` (and without a shard's number)."""

    id: str
    path: Path


def resolve(name: str | Path) -> ModelFile:
    """Raises `InvalidParameter` for what is no name, `ModelNotFound` for what is not on this machine."""
    wanted = PathName(str(name)) if isinstance(name, Path) else _parse(name)
    if isinstance(wanted, Demo):
        return ModelFile(str(wanted), carried("demo.gguf"))
    if not isinstance(wanted, PathName):
        raise _not_here(wanted)
    path = Path(wanted.path).expanduser()
    if not path.exists():
        raise ModelNotFound(
            f"there is no model file {wanted.path!r}; give the path of a GGUF file, or demo", param="model"
        )
    return ModelFile(model_id(path), path.resolve())


def _parse(text: str) -> ModelName:
    try:
        return parse(text)
    except InvalidParameter:
        if text and "\0" not in text and Path(text).exists():  # nothing else that it could mean
            return PathName(text)
        raise


def _not_here(name: ModelName) -> ModelNotFound:
    remedy = "localllm does not download yet: get the GGUF file and give its path"
    if not isinstance(name, CatalogName):
        return ModelNotFound(f"{name} is not on this machine, and {remedy}", param="model")
    from localllm.registry import catalog

    entry = catalog.load().find(name.name, name.tag)
    if entry is not None:
        return ModelNotFound(
            f"{entry.id} is not on this machine. It is hf.co/{entry.repo} ({entry.quant}, about "
            f"{entry.size_bytes / 1e9:.1f} GB, {entry.license}), and {remedy}",
            param="model",
        )
    close = catalog.load().suggest(str(name))
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return ModelNotFound(f"no model is called {str(name)!r}{meant} (a file begins with ./)", param="model")


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
