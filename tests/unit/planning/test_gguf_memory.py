"""What each layer keeps of a token, from the headers of models that are too large to be here.

`tests/llama/test_kv_planning.py` compares what is planned for small models with what llama.cpp allocates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localllm.errors import InvalidModelFile
from localllm.gguf import read_model_info
from localllm.llama.embedding import MAX_STATES
from localllm.planning.plan import EMBEDDING_STATES, memory_bytes
from localllm.types import LayerMemory, ModelInfo
from localllm.types.load_options import LoadOptions
from tests.models.builder import Builder

MIB = 2**20


def info_of(folder: Path, architecture: str, num_layers: int, **keys: Any) -> ModelInfo:
    """`attention__head_count` is attention.head_count."""
    with Builder(folder / "a.gguf", architecture) as model:
        model.keys({"block_count": num_layers, "context_length": 131_072})
        model.keys({name.replace("__", "."): value for name, value in keys.items()})
        model.vector("output_norm.weight", 8)
    return read_model_info(folder / "a.gguf")


def per_token(info: ModelInfo) -> int:
    """Numbers, of all layers."""
    return sum(layer.keys + layer.values for layer in info.layer_memory)


QWEN3_HEADS = {"attention__key_length": 128, "attention__value_length": 128}


@pytest.mark.parametrize(
    ("num_layers", "width", "heads", "kv_heads", "architecture"),
    [(28, 1024, 16, 8, "qwen3"), (48, 2048, 32, 4, "qwen3moe")],
    ids=["0.6B", "30B-A3B"],
)
def test_heads_are_as_long_as_the_header_says(
    tmp_path: Path, num_layers: int, width: int, heads: int, kv_heads: int, architecture: str
) -> None:
    """Qwen3: twice what the embedding's length by the number of heads would be."""
    info = info_of(
        tmp_path, architecture, num_layers, embedding_length=width, attention__head_count=heads,
        attention__head_count_kv=kv_heads, **QWEN3_HEADS,
    )  # fmt: skip
    assert info.layer_memory == (LayerMemory(keys=128 * kv_heads, values=128 * kv_heads),) * num_layers
    assert per_token(info) == 2 * (2 * (width // heads) * kv_heads * num_layers)


def test_layers_with_a_window_keep_the_window(tmp_path: Path) -> None:
    """Gemma 3 27B: 10 of 62 layers see everything; its heads are of 128, not 5376 / 32."""
    info = info_of(
        tmp_path, "gemma3", 62, embedding_length=5376, attention__head_count=32, attention__head_count_kv=16,
        attention__key_length=128, attention__value_length=128, attention__sliding_window=1024,
    )  # fmt: skip
    assert info.sliding_window == 1024
    assert [layer.is_windowed for layer in info.layer_memory[:12]] == [True] * 5 + [False] + [True] * 5 + [False]
    assert sum(not layer.is_windowed for layer in info.layer_memory) == 10
    options = LoadOptions(ctx=8192, slots=4)
    cells = 10 * 8192 + 52 * (1024 + 512)
    assert sum(memory_bytes(info, options, flash=True)) == 4 * cells * 2 * 2048 * 2
    short = LoadOptions(ctx=512, slots=4)
    assert sum(memory_bytes(info, short, flash=True)) == 4 * 62 * 512 * 2 * 2048 * 2, "no more than the context"


@pytest.mark.parametrize(
    ("architecture", "keys", "windowed"),
    [
        ("gpt-oss", {"attention__sliding_window": 128}, [True, False, True, False]),
        ("smallthinker", {"attention__sliding_window": 99}, [False, True, True, True]),
        ("gemma2", {}, [True, False, True, False]),
        ("gemma3", {}, [False] * 4),
        ("cohere2", {"attention__sliding_window": 9, "attention__sliding_window_pattern": 2}, [True, False] * 2),
        ("gemma4", {"attention__sliding_window": 9, "attention__sliding_window_pattern": [True, True, False, True]},
         [True, True, False, True]),
        ("llama", {"attention__sliding_window": 4096}, [False] * 4),
        ("phi3", {"attention__sliding_window": 2048}, [False] * 4),
        ("exaone4", {"attention__sliding_window": 4096}, [False] * 4),
    ],
)  # fmt: skip
def test_which_layers_have_a_window_is_the_architecture_s_matter(
    tmp_path: Path, architecture: str, keys: dict[str, Any], windowed: list[bool]
) -> None:
    info = info_of(tmp_path, architecture, 4, embedding_length=64, attention__head_count=4, **keys)
    assert [layer.is_windowed for layer in info.layer_memory] == windowed
    assert bool(info.sliding_window) == any(windowed)


def test_one_latent_vector_is_cached_where_attention_is_latent(tmp_path: Path) -> None:
    """DeepSeek V3: 576 numbers a layer, no values."""
    info = info_of(
        tmp_path, "deepseek2", 61, embedding_length=7168, attention__head_count=128, attention__head_count_kv=1,
        attention__key_length=576, attention__value_length=512, attention__key_length_mla=192,
        attention__value_length_mla=128, attention__kv_lora_rank=512,
    )  # fmt: skip
    assert set(info.layer_memory) == {LayerMemory(keys=576)}


def test_keys_and_values_may_differ_and_windowed_layers_may_have_lengths_of_their_own(tmp_path: Path) -> None:
    info = info_of(
        tmp_path, "mimo2", 2, embedding_length=64, attention__head_count=4, attention__head_count_kv=[2, 1],
        attention__key_length=48, attention__value_length=32, attention__key_length_swa=24,
        attention__sliding_window=16, attention__sliding_window_pattern=[True, False],
    )  # fmt: skip
    assert info.layer_memory == (
        LayerMemory(keys=2 * 24, values=2 * 32, is_windowed=True),
        LayerMemory(keys=48, values=32),
    )
    options = LoadOptions(ctx=1024, slots=1, ubatch=512)
    assert memory_bytes(info, options, flash=True) == [768 * (48 + 64) * 2, 1024 * (48 + 32) * 2]
    wider = memory_bytes(info, LoadOptions(ctx=1024, slots=1, ubatch=512, flash_attn="off"), flash=False)
    assert wider == [768 * (48 + 64) * 2, 1024 * (48 + 64) * 2], "transposed values are as wide as the widest"


@pytest.mark.parametrize(
    ("architecture", "keys", "recurrent", "state"),
    [
        ("mamba2", {"ssm__group_count": 2}, [True] * 4, 3 * (128 + 2 * 2 * 16) + 16 * 128),
        ("qwen3next", {}, [True, True, True, False], 3 * 128 + 16 * 128),
        ("qwen35", {"full_attention_interval": 2}, [True, False] * 2, 3 * 128 + 16 * 128),
        ("granitehybrid", {"attention__head_count_kv": [0, 2, 0, 2]}, [True, False] * 2, 3 * 128 + 16 * 128),
        ("lfm2", {"attention__head_count_kv": [0, 2, 0, 2], "shortconv__l_cache": 3}, [True, False] * 2,
         64 * 2 + 16 * 128),
        ("kimi-linear", {"attention__head_count_kv": [0, 2, 0, 2], "kda__head_dim": 8}, [True, False] * 2,
         3 * 3 * 4 * 8 + 64 * 4),
        ("rwkv7", {"wkv__head_size": 8}, [True] * 4, 2 * 64 + 64 * 8),
    ],
)  # fmt: skip
def test_recurrent_layers_have_a_state_for_each_slot(
    tmp_path: Path, architecture: str, keys: dict[str, Any], recurrent: list[bool], state: int
) -> None:
    common = {"embedding_length": 64, "attention__head_count": 4, "attention__head_count_kv": 2}
    space = {"ssm__conv_kernel": 4, "ssm__inner_size": 128, "ssm__state_size": 16}
    info = info_of(tmp_path, architecture, 4, **(common | space | keys))
    assert [layer.state for layer in info.layer_memory] == [state * each for each in recurrent]
    assert [bool(layer.keys) for layer in info.layer_memory] == [not each for each in recurrent]


def test_layers_of_nemotron_are_of_three_kinds_and_of_falcon_of_one(tmp_path: Path) -> None:
    space = {"ssm__conv_kernel": 4, "ssm__inner_size": 128, "ssm__state_size": 16, "embedding_length": 64}
    nemotron = info_of(
        tmp_path, "nemotron_h", 3, attention__head_count=4, attention__head_count_kv=[0, 0, 2],
        feed_forward_length=[0, 99, 0], **space,
    )  # fmt: skip
    assert [(bool(layer.state), bool(layer.keys)) for layer in nemotron.layer_memory] == [
        (True, False), (False, False), (False, True)
    ]  # fmt: skip
    falcon = info_of(tmp_path, "falcon-h1", 2, attention__head_count=4, **space)
    assert all(layer.state and layer.keys for layer in falcon.layer_memory)


def test_layers_that_use_the_keys_of_others_have_none(tmp_path: Path) -> None:
    common = {"embedding_length": 64, "attention__head_count": 4}
    gemma3n = info_of(tmp_path, "gemma3n", 30, attention__sliding_window=9, **common)
    assert [bool(layer.keys) for layer in gemma3n.layer_memory] == [True] * 20 + [False] * 10
    gemma4 = info_of(tmp_path, "gemma4", 6, attention__shared_kv_layers=4, **common)
    assert [bool(layer.keys) for layer in gemma4.layer_memory] == [True] * 2 + [False] * 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention__key_length", 2**24 + 1),
        ("attention__key_length", "long"),
        ("attention__value_length", -1.5),
        ("attention__head_count_kv", [2, 2**30]),
        ("attention__head_count_kv", ["two", "two"]),
        ("attention__sliding_window", 2**31),
        ("attention__sliding_window_pattern", ["yes", "no"]),
    ],
)
def test_a_size_that_is_none_is_refused_by_name(tmp_path: Path, key: str, value: Any) -> None:
    keys = {"embedding_length": 64, "attention__head_count": 4, "attention__sliding_window": 8}
    with pytest.raises(InvalidModelFile, match=f"gemma3.{key.replace('__', '.')} is not a count"):
        info_of(tmp_path, "gemma3", 2, **(keys | {key: value}))


def test_a_list_that_is_too_short_or_too_long_is_survived(tmp_path: Path) -> None:
    common = {"embedding_length": 64, "attention__head_count": 4}
    short = info_of(tmp_path, "llama", 4, attention__head_count_kv=[1, 2], **common)
    assert [layer.keys for layer in short.layer_memory] == [16, 32, 32, 32]
    assert len(info_of(tmp_path, "llama", 2, attention__head_count_kv=[1] * 9, **common).layer_memory) == 2
    assert info_of(tmp_path, "llama", 2).layer_memory == (LayerMemory(), LayerMemory())


def test_states_are_planned_for_as_many_texts_as_are_embedded_at_once() -> None:
    assert EMBEDDING_STATES == MAX_STATES


def test_layers_that_choose_tokens_also_keep_the_keys_that_they_choose_by(tmp_path: Path) -> None:
    """DeepSeek 3.2 and GLM 5 in each layer, GLM 5.2 in every fourth after the first two; a NextN layer in none."""
    keys: dict[str, Any] = {
        "embedding_length": 6144, "attention__head_count": 64, "attention__head_count_kv": 1,
        "attention__key_length": 576, "attention__value_length": 512, "attention__key_length_mla": 256,
        "attention__value_length_mla": 256, "attention__indexer__key_length": 128, "nextn_predict_layers": 1,
    }  # fmt: skip
    for architecture in ("deepseek32", "glm-dsa"):
        info = info_of(tmp_path, architecture, 11, **keys)
        assert [layer.keys for layer in info.layer_memory] == [576 + 128] * 10 + [0]
        assert not any(layer.values for layer in info.layer_memory)
    shared = info_of(tmp_path, "glm-dsa", 11, **keys | {"context_length": 1_048_576})
    assert [layer.keys - 576 for layer in shared.layer_memory[:10]] == [128, 128, 128, 0, 0, 0, 128, 0, 0, 0]
    listed = info_of(tmp_path, "glm-dsa", 11, **keys, attention__indexer__types=[1, 0] * 5)
    assert [layer.keys - 576 for layer in listed.layer_memory[:10]] == [128, 0] * 5
