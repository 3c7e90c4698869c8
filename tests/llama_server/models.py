"""Models in the place of those that the suite would download: of the same kind, by the same names.

What answers is the demo model with the rows of its end tokens set to zero: as the suite's story teller does, it goes on
until its limit. The encoders are the tiny random ones of `tests.models`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from gguf import GGUFReader

from localllm.registry.resolve import carried
from tests.models.families import write_embedding, write_reranker
from tests.models.maker import shards_of, write_llama

END_TOKENS = (0, 2)
"""`<|endoftext|>` and `<|im_end|>` of the demo model."""


def write_endless_demo(path: Path) -> Path:
    """The demo model that never ends an answer: logits of its end tokens are 0, and some other is always above."""
    shutil.copyfile(carried("demo.gguf"), path)
    (output,) = (tensor for tensor in GGUFReader(path).tensors if tensor.name == "output.weight")
    row_bytes = output.n_bytes // int(output.shape[1])
    with path.open("r+b") as file:
        for token in END_TOKENS:
            file.seek(output.data_offset + token * row_bytes)
            file.write(bytes(row_bytes))
    return path


def write_split(path: Path) -> Path:
    """A random model in several files; the first one of them."""
    write_llama(path, max_tensors_per_file=8)
    return shards_of(path)[0]


WRITERS: dict[str, Callable[[Path], Path]] = {
    "bert-bge-small": write_embedding,
    "tinyllama-split": write_split,
    "jina-reranker": write_reranker,
}
"""Of the models that are no story tellers."""


def model_file(alias: str, folder: Path) -> Path:
    """The file of the model that goes by this name, or the first of them; written once, since stores share it."""
    made = folder / alias
    if not made.exists():
        unfinished = folder / f"{alias}.part"
        unfinished.mkdir()
        WRITERS.get(alias, write_endless_demo)(unfinished / f"{alias}.gguf")
        unfinished.rename(made)
    return min(made.glob("*.gguf"))
