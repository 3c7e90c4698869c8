"""PEFT folders become GGUF adapters, or are refused by the name of what cannot be expressed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader

from localllm.errors import InvalidModelFile, InvalidParameter, LocalLLMError, UnsupportedParameter
from localllm.gguf.adapters import read_adapter
from localllm.gguf.header import read_header
from localllm.registry.adapters.shelf import Shelf
from localllm.registry.making.merging import Applied, merge
from localllm.registry.peft.architectures import row_order
from localllm.registry.peft.config import PeftConfig, read_config
from localllm.registry.peft.converting import convert
from localllm.registry.peft.safetensors import read_safetensors
from localllm.registry.resolve import carried
from tests.models.families import write_mixture
from tests.peft_folders import FOREIGN, safetensors, write_peft

DEMO, PIRATE = carried("demo.gguf"), carried("demo-pirate-lora.gguf")
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
Q = "model.layers.0.self_attn.q_proj"


def pirate_as_peft(folder: Path) -> Path:
    """The bundled adapter, as peft would have saved it."""
    tensors = {}
    for tensor in GGUFReader(PIRATE).tensors:
        _, layer, matrix, _, part = tensor.name.split(".")
        data = np.array(tensor.data)
        rows = row_order("llama", tensor.name.rpartition(".")[0], read_header(DEMO), len(data))
        if part == "lora_b" and rows is not None:
            data[rows] = np.array(tensor.data)
        tensors[f"model.layers.{layer}.{NAMES[matrix]}.lora_{part[-1].upper()}.weight"] = data
    return write_peft(folder, tensors)


def pair(rank: int = 2, rows: int = 256, columns: int = 256, dtype: Any = np.float32) -> dict[str, npt.NDArray[Any]]:
    values = np.arange(rank * max(rows, columns), dtype=np.float32) % 7
    a, b = values[: rank * columns].reshape(rank, columns), values[: rank * rows].reshape(rows, rank)
    return {f"{Q}.lora_A.weight": a.astype(dtype), f"{Q}.lora_B.weight": b.astype(dtype)}


def data_of(path: Path) -> dict[str, npt.NDArray[Any]]:
    return {tensor.name: np.array(tensor.data) for tensor in GGUFReader(path).tensors}


def test_our_own_adapter_comes_back_to_the_bit(tmp_path: Path) -> None:
    info = convert(pirate_as_peft(tmp_path / "peft"), DEMO, tmp_path / "pirate.gguf")
    assert (info.alpha, info.rank, info.num_matrices) == (16, 8, 24)
    before, after = data_of(PIRATE), data_of(tmp_path / "pirate.gguf")
    assert before.keys() == after.keys()
    for name, data in before.items():
        assert data.dtype == after[name].dtype
        assert np.array_equal(data, after[name]), name


def test_what_peft_trained_is_added_with_its_ranks_and_strengths(tmp_path: Path) -> None:
    added = Shelf(tmp_path).add("demo", "foreign", FOREIGN)
    path = Shelf(tmp_path).path(added)
    info = read_adapter(path, DEMO)
    assert (info.rank, info.num_matrices) == (4, 4 * 4 + 1)
    alpha = info.alpha
    assert alpha == pytest.approx(6 * 4**0.5), "of most matrices: rsLoRA divides by the root of the rank"
    tensors = read_safetensors(FOREIGN / "adapter_model.safetensors")
    stored = data_of(path)
    for name, module, factor in (
        ("blk.0.attn_output", "layers.0.self_attn.o_proj", 6 * 2**0.5 / alpha),
        ("blk.1.ffn_down", "layers.1.mlp.down_proj", 3 * 4**0.5 / alpha),
        ("blk.2.ffn_down", "layers.2.mlp.down_proj", 1.0),
    ):
        b = tensors[f"base_model.model.model.{module}.lora_B.weight"].array
        assert np.allclose(stored[f"{name}.weight.lora_b"], b.astype(np.float32) * factor, rtol=1e-6), name
    assert [path.name for path in Shelf(tmp_path).folder.iterdir() if path.name.startswith(".")] == []


def test_bf16_stays_as_it_is_and_is_exact_where_it_is_scaled(tmp_path: Path) -> None:
    bits = {name: (array.view(np.uint32) >> 16).astype(np.uint16) for name, array in pair().items()}
    folder = write_peft(tmp_path / "peft", bits, r=2)
    convert(folder, DEMO, tmp_path / "a.gguf")
    (a, b) = GGUFReader(tmp_path / "a.gguf").tensors
    assert (a.tensor_type.name, b.tensor_type.name) == ("BF16", "BF16")
    assert np.array_equal(np.array(a.data).view(np.uint16), bits[f"{Q}.lora_A.weight"])


def test_experts_of_a_mixture_become_one_matrix_and_those_without_a_change_have_zeros(tmp_path: Path) -> None:
    base = write_mixture(tmp_path / "base.gguf")
    matrix = next(tensor for tensor in read_header(base).tensors if tensor.name == "blk.0.ffn_down_exps.weight")
    inputs, outputs, num_experts = matrix.dims
    expert = "model.layers.0.block_sparse_moe.experts.1.w2"
    a, b = np.full((2, inputs), 3, np.float32), np.full((outputs, 2), 5, np.float32)
    convert(write_peft(tmp_path / "peft", {f"{expert}.lora_A.weight": a, f"{expert}.lora_B.weight": b}), base,
            tmp_path / "a.gguf")  # fmt: skip
    stored = data_of(tmp_path / "a.gguf")["blk.0.ffn_down_exps.weight.lora_b"]
    assert stored.shape == (num_experts, outputs, 2)
    assert [bool(each.any()) for each in stored] == [index == 1 for index in range(num_experts)]


def test_an_activated_adapter_keeps_its_invocation_tokens(tmp_path: Path) -> None:
    folder = write_peft(tmp_path / "peft", pair(), r=2, alora_invocation_tokens=[7, 5, 7], invocation_string="x")
    assert convert(folder, DEMO, tmp_path / "a.gguf").invocation == (7, 5, 7)
    for tokens, error in (([1, 10**6], "has a token that the base"), ([-1], "alora_invocation_tokens"), ("x", "array")):
        folder = write_peft(tmp_path / "peft", pair(), r=2, alora_invocation_tokens=tokens)
        with pytest.raises(InvalidModelFile, match=error):
            convert(folder, DEMO, tmp_path / "b.gguf")
    with pytest.raises(InvalidParameter, match="works only behind its invocation tokens"):
        merge(DEMO, [Applied(tmp_path / "a.gguf", 1.0)], tmp_path / "merged.gguf")


def test_patterns_are_those_of_peft() -> None:
    config = PeftConfig(
        r=8, lora_alpha=16, rank_pattern={"o_proj": 2}, alpha_pattern={r"layers\.[01]\.mlp\.down_proj": 3, "k_proj": 4}
    )
    assert config.scaling("model.layers.0.self_attn.o_proj") == 8
    assert config.scaling("model.layers.1.mlp.down_proj") == 3 / 8
    assert config.scaling("model.layers.2.mlp.down_proj") == config.scaling("model.layers.0.self_attn.xk_proj") == 2
    assert PeftConfig(r=4, lora_alpha=6, use_rslora=True).scaling("x") == 3


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"use_dora": True}, "use_dora: DoRA changes"),
        ({"peft_type": "LOHA"}, "peft_type: it is 'LOHA'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"bias": "lora_only"}, "bias"),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights: with 'pissa_niter_4'"),
        ({"invocation_string": "judge"}, "invocation_string: the tokens of that text are wanted"),
        ({"trainable_token_indices": [7]}, "trainable_token_indices"),
        ({"target_parameters": ["experts.down_proj"]}, "target_parameters"),
        ({"rank_pattern": {"(a+)+$": 2}}, "rank_pattern: the pattern"),
        ({"alpha_pattern": {"(" * 200: 2}}, "alpha_pattern: the pattern"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(config: dict[str, Any], names: str, tmp_path: Path) -> None:
    folder = write_peft(tmp_path / "peft", pair(), **config)
    with pytest.raises(UnsupportedParameter, match=names.replace("(", r"\(")):
        convert(folder, DEMO, tmp_path / "a.gguf")
    assert not (tmp_path / "a.gguf").exists()


@pytest.mark.parametrize(
    ("tensors", "names"),
    [
        ({f"{Q}.lora_magnitude_vector": np.zeros(256, np.float32)}, "q_proj.lora_magnitude_vector: DoRA"),
        ({"model.embed_tokens.weight": np.zeros((4, 4), np.float32)}, "save_embedding_layers=False"),
        ({f"{Q}.lora_A.weight": np.zeros((2, 256), np.float32)}, "q_proj: it has lora_A only"),
        (pair(columns=128), r"lora_a' has the shape \[128, 2\] instead of \[256, 2\]"),
        (pair(rows=128), r"lora_b' has the shape"),
        ({name.replace("layers.0", "layers.9"): array for name, array in pair().items()}, "layers.9.self_attn.q_proj"),
        ({name.replace("q_proj", "x_proj"): array for name, array in pair().items()}, "x_proj: the base has no matrix"),
        (pair(dtype=np.int32), "is of type I32"),
        ({}, "has no tensors"),
    ],
)
def test_tensors_that_do_not_belong_to_the_base_are_refused_by_name(
    tensors: dict[str, Any], names: str, tmp_path: Path
) -> None:
    folder = write_peft(tmp_path / "peft", tensors)
    with pytest.raises(LocalLLMError, match=names):
        convert(folder, DEMO, tmp_path / "a.gguf")
    assert not (tmp_path / "a.gguf").exists()


def test_a_folder_without_weights_or_with_pickled_ones_is_refused(tmp_path: Path) -> None:
    folder = write_peft(tmp_path / "peft", pair())
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(UnsupportedParameter, match="may run code"):
        convert(folder, DEMO, tmp_path / "a.gguf")
    (folder / "adapter_model.bin").unlink()
    with pytest.raises(InvalidModelFile, match=r"has no adapter_model\.safetensors"):
        convert(folder, DEMO, tmp_path / "a.gguf")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": "many"}))
    with pytest.raises(InvalidModelFile, match=r"\$\.r"):
        read_config(folder)


def test_hostile_safetensors_are_refused_before_their_data_is_read(tmp_path: Path) -> None:
    whole = safetensors(pair())
    path = tmp_path / "x.safetensors"
    for length in (0, 7, 8, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidModelFile):
            read_safetensors(path)

    def header(**entry: Any) -> bytes:
        raw = json.dumps({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **entry}}).encode()
        return len(raw).to_bytes(8, "little") + raw + bytes(16)

    for wrong in (
        header(shape=[2**62, 2]), header(shape=[-1, -2]), header(data_offsets=[8, 0]), header(dtype="F8_E4M3"),
        header(data_offsets=[0, 2**63]), header(data_offsets=[-8, 0]), header(shape=[1] * 9), header(shape="2"),
        (2**63).to_bytes(8, "little") + whole[8:], len(whole).to_bytes(8, "little") + whole[8:],
        (4).to_bytes(8, "little") + b"[[[[", (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ):  # fmt: skip
        path.write_bytes(wrong)
        with pytest.raises(InvalidModelFile):
            read_safetensors(path)
    path.write_bytes(header())
    assert read_safetensors(path)["t"].array.shape == (2,)


def test_an_architecture_whose_matrices_are_reordered_is_refused(tmp_path: Path) -> None:
    base = tmp_path / "base.gguf"
    shutil.copy(DEMO, base)
    raw = base.read_bytes().replace(b"llama", b"bloom")
    base.write_bytes(raw)
    with pytest.raises(UnsupportedParameter, match=r"architecture bloom cannot be converted yet.*convert_lora_to_gguf"):
        convert(write_peft(tmp_path / "peft", pair()), base, tmp_path / "a.gguf")
