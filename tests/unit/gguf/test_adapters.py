"""The header of an adapter is checked against its base before native code sees the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from localllm.errors import InvalidModelFile
from localllm.gguf.adapters import read_adapter
from localllm.registry.resolve import carried
from tests.models.activated import add_invocation
from tests.models.builder import Builder
from tests.models.families import LORA_RANK, N_EMBD, write_lora
from tests.models.maker import write_llama

MATRIX = "blk.0.attn_q.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("base") / "base.gguf")


@contextmanager
def adapter(path: Path, *, architecture: str = "llama", kind: str = "lora") -> Iterator[Builder]:
    with Builder(path, architecture) as made:
        made.writer.add_type("adapter")
        made.key("adapter.type", kind)
        yield made


def pair(
    made: Builder, name: str = MATRIX, *, rank: int = LORA_RANK, rows: int = N_EMBD, columns: int = N_EMBD
) -> None:
    made.matrix(f"{name}.lora_a", rows, rank)
    made.matrix(f"{name}.lora_b", rank, columns)


def test_the_pirate_is_for_the_demo() -> None:
    found = read_adapter(carried("demo-pirate-lora.gguf"), carried("demo.gguf"))
    assert (found.architecture, found.rank) == ("llama", 8)
    assert 200_000 < found.size_bytes < carried("demo-pirate-lora.gguf").stat().st_size


def test_an_adapter_of_another_shape_or_architecture_is_refused_by_name(tmp_path: Path, base: Path) -> None:
    assert read_adapter(write_lora(tmp_path / "right.gguf"), base).num_matrices == 4
    with pytest.raises(InvalidModelFile, match=r"shape .*is it another model's adapter"):
        read_adapter(carried("demo-pirate-lora.gguf"), base)
    with adapter(tmp_path / "qwen.gguf", architecture="qwen2") as made:
        pair(made)
    with pytest.raises(InvalidModelFile, match="for models of architecture qwen2"):
        read_adapter(tmp_path / "qwen.gguf", base)
    with pytest.raises(InvalidModelFile, match="not a LoRA adapter"):
        read_adapter(base, base)


def _alone(made: Builder) -> None:
    made.matrix(f"{MATRIX}.lora_a", N_EMBD, LORA_RANK)


def _unknown(made: Builder) -> None:
    pair(made, "blk.7.attn_q.weight")


def _norm(made: Builder) -> None:
    pair(made, "blk.0.attn_norm.weight", columns=1)


def _suffix(made: Builder) -> None:
    pair(made)
    made.matrix("blk.0.attn_q.weight", N_EMBD, N_EMBD)


def _twice(made: Builder) -> None:
    pair(made, f"{MATRIX}.lora_a")


def _ranks(made: Builder) -> None:
    made.matrix(f"{MATRIX}.lora_a", N_EMBD, LORA_RANK)
    made.matrix(f"{MATRIX}.lora_b", LORA_RANK + 1, N_EMBD)


def _turned(made: Builder) -> None:
    made.matrix(f"{MATRIX}.lora_a", LORA_RANK, N_EMBD)
    made.matrix(f"{MATRIX}.lora_b", N_EMBD, LORA_RANK)


def _integers(made: Builder) -> None:
    for part, shape in ((".lora_a", (LORA_RANK, N_EMBD)), (".lora_b", (N_EMBD, LORA_RANK))):
        made.writer.add_tensor(MATRIX + part, np.zeros(shape, np.int32), raw_dtype=GGMLQuantizationType.I32)


def _deep(made: Builder) -> None:
    made.matrix(f"{MATRIX}.lora_a", N_EMBD, LORA_RANK, 2)
    made.matrix(f"{MATRIX}.lora_b", LORA_RANK, N_EMBD, 2)


def _nothing(made: Builder) -> None:
    """Only the keys."""


def _alpha(made: Builder) -> None:
    pair(made)
    made.key("adapter.lora.alpha", float("nan"))


def _whole_alpha(made: Builder) -> None:
    pair(made)
    made.key("adapter.lora.alpha", 16)


def _signed(made: Builder) -> None:
    pair(made)
    made.key("adapter.alora.invocation_tokens", [1, 2, 3])


def _strange(made: Builder) -> None:
    pair(made)
    add_invocation(made.writer, [1, 2**31])


HOSTILE: tuple[tuple[Callable[[Builder], None], str], ...] = (
    (_alone, r"attn_q.weight.lora_b' is missing"),
    (_unknown, "changes 'blk.7.attn_q.weight', which the base model does not have"),
    (_norm, "not a matrix"),
    (_suffix, "not of the form NAME.lora_a"),
    (_twice, "not of the form NAME.lora_a"),
    (_ranks, r"lora_a' has the shape \[64, 4\] instead of \[64, 5\]"),
    (_turned, "has rank|has the shape"),
    (_integers, "is of type I32"),
    (_deep, "has the shape"),
    (_nothing, "it has no tensors"),
    (_alpha, "adapter.lora.alpha is not a finite"),
    (_whole_alpha, "adapter.lora.alpha is not a finite"),
    (_signed, "invocation_tokens is not an array of unsigned 32-bit numbers"),
    (_strange, "invocation_tokens has a token that the base, with"),
)


@pytest.mark.parametrize(("wrong", "reason"), HOSTILE, ids=lambda each: each.__name__ if callable(each) else "")
def test_what_llama_cpp_would_refuse_skip_or_die_of_is_refused(
    wrong: Callable[[Builder], None], reason: str, tmp_path: Path, base: Path
) -> None:
    with adapter(tmp_path / "wrong.gguf") as made:
        wrong(made)
    with pytest.raises(InvalidModelFile, match=reason):
        read_adapter(tmp_path / "wrong.gguf", base)


def test_a_truncated_adapter_and_one_of_another_kind_are_refused(tmp_path: Path, base: Path) -> None:
    whole = write_lora(tmp_path / "whole.gguf").read_bytes()
    for length in (0, 3, 30, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        with pytest.raises(InvalidModelFile):
            read_adapter(tmp_path / "cut.gguf", base)
    with adapter(tmp_path / "vector.gguf", kind="control") as made:
        pair(made)
    with pytest.raises(InvalidModelFile, match=r"adapter\.type is 'control'"):
        read_adapter(tmp_path / "vector.gguf", base)


def test_embeddings_that_are_also_the_output_are_refused(tmp_path: Path) -> None:
    """llama.cpp would multiply the flipped factors into the output, and end its process."""
    for name, has_output in (("tied", False), ("apart", True)):
        with Builder(tmp_path / f"{name}.gguf", "llama") as model:
            model.matrix("token_embd.weight", N_EMBD, 32)
            if has_output:
                model.matrix("output.weight", N_EMBD, 32)
    with adapter(tmp_path / "embedding.gguf") as made:
        made.matrix("token_embd.weight.lora_a", LORA_RANK, 32)
        made.matrix("token_embd.weight.lora_b", LORA_RANK, N_EMBD)
    assert read_adapter(tmp_path / "embedding.gguf", tmp_path / "apart.gguf").rank == LORA_RANK
    with pytest.raises(InvalidModelFile, match="also uses as its output"):
        read_adapter(tmp_path / "embedding.gguf", tmp_path / "tied.gguf")
