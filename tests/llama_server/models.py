"""Models in the place of those that the suite would download: of the same kind, by the same names.

What answers is the demo model with the rows of its end tokens set to zero: as the suite's story teller does, it goes on
until its limit. The encoders are the tiny random ones of `tests.models`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gguf import GGUFReader

from localllm.registry.resolve import carried
from tests.models.families import write_embedding, write_reranker
from tests.models.maker import shards_of, write_llama
from tests.models.media import write_random_projector

END_TOKENS = (0, 2)
"""`<|endoftext|>` and `<|im_end|>` of the demo model."""


PROJECTOR = ".mmproj.gguf"
"""How the name of a model's projector ends, after the name of the model."""
CONTEXT_TOKENS = 32768
"""More than the demo model was trained for, as some tests have it: what it says there makes no sense."""


def write_endless_demo(path: Path) -> Path:
    """The demo model that never ends an answer: logits of its end tokens are 0, and some other is always above."""
    shutil.copyfile(carried("demo.gguf"), path)
    header = GGUFReader(path, "r+")
    context = header.fields["llama.context_length"]
    context.parts[context.data[0]][0] = CONTEXT_TOKENS
    (output,) = (tensor for tensor in header.tensors if tensor.name == "output.weight")
    row_bytes = output.n_bytes // int(output.shape[1])
    with path.open("r+b") as file:
        for token in END_TOKENS:
            file.seek(output.data_offset + token * row_bytes)
            file.write(bytes(row_bytes))
    return path


def write_seeing_demo(path: Path) -> Path:
    """The same with a projector beside it: it goes on otherwise behind every picture."""
    write_endless_demo(path)
    width = GGUFReader(path).fields["llama.embedding_length"].contents()
    write_random_projector(path.with_suffix(PROJECTOR), width)
    return path


def write_split(path: Path) -> Path:
    """A random model in several files; the first one of them."""
    write_llama(path, max_tensors_per_file=8)
    return shards_of(path)[0]


FIM_TOKENS = {"fim_pre": 5, "fim_suf": 6, "fim_mid": 7}
"""Any that the demo model seldom says: it was not taught to fill anything in."""


def write_infill_demo(path: Path) -> Path:
    """The same with a vocabulary that has marks for filling in the middle."""
    plain = write_endless_demo(path.with_suffix(".plain"))
    options = [part for name, token in FIM_TOKENS.items() for part in ("--special-token-by-id", name, str(token))]
    command = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--force", *options, str(plain), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    plain.unlink()
    return path


WRITERS: dict[str, Callable[[Path], Path]] = {
    "bert-bge-small": write_embedding,
    "tinyllama-split": write_split,
    "jina-reranker": write_reranker,
    "tinyllama-infill": write_infill_demo,
    "tinygemma3": write_seeing_demo,
    "tinygemma3-anthropic": write_seeing_demo,
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
