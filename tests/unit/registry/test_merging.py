"""Adapters merged into a file: the numbers of changed matrices, and everything else byte by byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader, quants

from localllm.errors import InvalidModelFile, InvalidParameter
from localllm.gguf.header import read_header
from localllm.registry.making.merging import Applied, merge
from localllm.registry.resolve import carried
from tests.models.families import write_lora, write_mixture
from tests.models.maker import shards_of, write_llama
from tests.peft_folders import write_adapter

DEMO, PIRATE = carried("demo.gguf"), carried("demo-pirate-lora.gguf")


def weights(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    return {tensor.name: quants.dequantize(tensor.data, tensor.tensor_type) for tensor in GGUFReader(path).tensors}


def test_changed_matrices_have_the_sum_and_all_else_is_copied(tmp_path: Path) -> None:
    merged = merge(DEMO, [Applied(PIRATE, 1.0), Applied(PIRATE, -0.5)], tmp_path / "m.gguf", "F32")
    assert (merged.matrices, merged.types, merged.rounding) == (24, {"F32": 24}, 0)
    base, factors, found = weights(DEMO), weights(PIRATE), weights(tmp_path / "m.gguf")
    for name, matrix in base.items():
        wanted = matrix
        if f"{name}.lora_a" in factors:
            wanted = matrix + factors[f"{name}.lora_b"] @ factors[f"{name}.lora_a"]  # half of alpha 16 / rank 8
        assert np.allclose(found[name], wanted, atol=1e-6), name
    old, new = read_header(DEMO), read_header(tmp_path / "m.gguf")
    assert [entry.value for entry in old.metadata.values()] == [entry.value for entry in new.metadata.values()]
    assert [tensor.name for tensor in old.tensors] == [tensor.name for tensor in new.tensors]


def test_what_rounding_does_grows_as_types_get_smaller_and_the_same_types_take_no_more_room(tmp_path: Path) -> None:
    found = {type: merge(DEMO, [Applied(PIRATE, 1.0)], tmp_path / type, type) for type in ("F16", "Q8_0", "Q4_0")}
    assert found["F16"].rounding < 0.01 < found["Q8_0"].rounding < 0.1 < found["Q4_0"].rounding < 1
    assert merge(DEMO, [Applied(PIRATE, 1.0)], tmp_path / "same", "same").size_bytes == DEMO.stat().st_size


def test_experts_and_embeddings_are_merged_as_llama_cpp_applies_them(tmp_path: Path) -> None:
    base = write_mixture(tmp_path / "base.gguf")
    matrix = next(tensor for tensor in read_header(base).tensors if tensor.name == "blk.0.ffn_down_exps.weight")
    inputs, outputs, experts = matrix.dims
    rng = np.random.default_rng(3)
    a = rng.standard_normal((experts, 2, inputs)).astype(np.float32)
    b = rng.standard_normal((experts, outputs, 2)).astype(np.float32)
    vocab, width = weights(base)["token_embd.weight"].shape
    rows, columns = rng.standard_normal((vocab, 2)), rng.standard_normal((width, 2))
    adapter = write_adapter(
        tmp_path / "a.gguf",
        {matrix.name: (a, b), "token_embd.weight": (rows.astype(np.float32), columns.astype(np.float32))},
        alpha=4.0,
    )
    merge(base, [Applied(adapter, 0.5)], tmp_path / "m.gguf", "F32")
    before, after = weights(base), weights(tmp_path / "m.gguf")
    assert np.allclose(after[matrix.name], before[matrix.name] + b @ a, atol=1e-4)
    assert np.allclose(after["token_embd.weight"], before["token_embd.weight"] + rows @ columns.T, atol=1e-4)


def test_what_cannot_be_merged_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "m.gguf"
    for type, adapters, reason in (
        ("Q4_K", [Applied(PIRATE, 1.0)], "type is one of F16"),
        ("F16", [Applied(PIRATE, 0.0)], "no adapters to merge"),
    ):
        with pytest.raises(InvalidParameter, match=reason):
            merge(DEMO, adapters, target, type)
    with pytest.raises(InvalidModelFile):
        merge(DEMO, [Applied(write_lora(tmp_path / "other.gguf"), 1.0)], target)
    write_llama(tmp_path / "whole.gguf", max_tensors_per_file=8)
    (first, *_) = shards_of(tmp_path / "whole.gguf")
    with pytest.raises(InvalidParameter, match="join them first"):
        merge(first, [Applied(PIRATE, 1.0)], target)
    target.write_bytes(b"mine")
    with pytest.raises(InvalidParameter, match="exists already"):
        merge(DEMO, [Applied(PIRATE, 1.0)], target)
    assert target.read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
