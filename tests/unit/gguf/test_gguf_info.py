"""What a model is, as its headers tell it: every field, split models, and keys of the wrong type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType

from localllm.errors import InvalidModelFile
from localllm.gguf import read_header, read_model_info, shard_paths
from tests.models import families, raw
from tests.models.builder import Builder
from tests.models.maker import shards_of, write_llama
from tests.models.raw import gguf, key
from tests.models.tokenizers import CHATML, spm

ARCHITECTURE = key("general.architecture", raw.STRING, "llama")


def test_every_field_of_a_plain_model(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "a.gguf", n_layer=3, tensor_types={r"ffn_": GGMLQuantizationType.Q8_0})
    info = read_model_info(path)
    assert (info.architecture, info.name, info.tokenizer) == ("llama", "tiny-llama", "gpt2")
    assert (info.num_layers, info.embedding_length, info.feed_forward_length) == (3, 64, 128)
    assert (info.num_heads, info.num_kv_heads, info.context_length) == (4, 2, 512)
    assert (info.vocabulary_size, info.split_count, info.causal) == (320, 1, True)
    per_layer = 64 + 64 * 64 + 2 * 64 * 32 + 64 * 64 + 64 + 3 * 64 * 128
    assert info.num_parameters == 2 * 64 * 320 + 64 + 3 * per_layer
    assert info.chat_templates == {}
    assert info.sampling == {}


@pytest.mark.parametrize(("mapping", "layers"), [([-1, 1, 2, -1], 2), ([-1, -1], 0), ([-1, 1, 1], 1)])
def test_a_list_of_which_layers_get_parts_of_pictures_says_how_wide_a_row_is(
    tmp_path: Path, mapping: list[int], layers: int
) -> None:
    """Granite Vision's way; Qwen3-VL's is a number."""
    keys = {"granite.deepstack_mapping": mapping}
    info = read_model_info(write_llama(tmp_path / "a.gguf", architecture="granite", extra=keys))
    assert (info.deepstack_layers, info.input_length) == (layers, 64 * (1 + layers))


def test_a_list_with_parts_that_no_row_has_is_refused(tmp_path: Path) -> None:
    keys = {"granite.deepstack_mapping": [-1, 9]}
    with pytest.raises(InvalidModelFile, match="deepstack_mapping is not a list of parts"):
        read_model_info(write_llama(tmp_path / "a.gguf", architecture="granite", extra=keys))


def test_bytes_are_counted_per_type_largest_first_and_per_layer(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "a.gguf", n_layer=3, tensor_types={r"blk\.1\.ffn_": GGMLQuantizationType.Q8_0})
    info = read_model_info(path)
    ffn, rest = 3 * 64 * 128, 4 * (64 + 64 * 64 + 2 * 64 * 32 + 64 * 64 + 64)
    assert info.layer_bytes == (rest + 4 * ffn, rest + ffn // 32 * 34, rest + 4 * ffn)
    assert info.other_bytes == 4 * (2 * 64 * 320 + 64)
    assert info.size_bytes == sum(info.layer_bytes) + info.other_bytes == sum(info.quantization.values())
    assert list(info.quantization) == ["F32", "Q8_0"]
    assert info.quantization["Q8_0"] == ffn // 32 * 34


def test_chat_templates_carry_their_names(tmp_path: Path) -> None:
    extra = {"tokenizer.chat_templates": ["tool_use"], "tokenizer.chat_template.tool_use": "{{ tools }}"}
    path = write_llama(tmp_path / "a.gguf", chat_template=CHATML, extra=extra)
    assert read_model_info(path).chat_templates == {"default": CHATML, "tool_use": "{{ tools }}"}
    for blank in ("", " \n"):  # it would leave out every message
        assert read_model_info(write_llama(path, chat_template=blank)).chat_templates == {}


def test_the_model_s_own_sampling_numbers_are_taken_where_they_can_be_used(tmp_path: Path) -> None:
    keys = [
        key("general.sampling.temp", raw.F32, 0.5),
        key("general.sampling.top_k", raw.I32, 20),
        key("general.sampling.top_p", raw.F32, float("nan")),
        key("general.sampling.min_p", raw.F32, -1.0),
    ]
    (tmp_path / "a.gguf").write_bytes(gguf([ARCHITECTURE, *keys], []))
    assert read_model_info(tmp_path / "a.gguf").sampling == {"temperature": 0.5, "top_k": 20}


@pytest.mark.parametrize(
    ("write", "heads", "kv_heads", "causal"),
    [
        (families.write_sliding_window, 4, 2, True),
        (families.write_recurrent, 0, 0, True),
        (families.write_hybrid, 4, 2, True),
        (families.write_mixture, 4, 2, True),
        (families.write_embedding, 4, 4, False),
        (families.write_reranker, 4, 4, False),
    ],
)
def test_heads_and_causality_of_every_kind_of_model(
    tmp_path: Path, write: Callable[[Path], Path], heads: int, kv_heads: int, causal: bool
) -> None:
    info = read_model_info(write(tmp_path / "a.gguf"))
    assert (info.num_heads, info.num_kv_heads, info.causal) == (heads, kv_heads, causal)
    assert info.num_layers == len(info.layer_bytes) == 2


def test_an_adapter_counts_the_layers_that_it_changes(tmp_path: Path) -> None:
    info = read_model_info(families.write_lora(tmp_path / "a.gguf"))
    assert (info.num_layers, info.vocabulary_size, info.other_bytes) == (2, 0, 0)


@pytest.mark.parametrize(("number", "label"), [(15, "Q4_K_M"), (0, "F32"), (1024 + 7, "Q8_0"), (999, "unknown (999)")])
def test_the_file_type_is_a_label(tmp_path: Path, number: int, label: str) -> None:
    (tmp_path / "a.gguf").write_bytes(gguf([ARCHITECTURE, key("general.file_type", raw.U32, number)], []))
    assert read_model_info(tmp_path / "a.gguf").file_type == label


def test_the_vocabulary_is_counted_from_the_tokens_else_the_key_else_the_embedding(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf([ARCHITECTURE, key("llama.vocab_size", raw.U32, 7)], []))
    assert read_model_info(path).vocabulary_size == 7
    rows = [raw.tensor(raw.Tensor("token_embd.weight", (4, 9)))]
    path.write_bytes(gguf([ARCHITECTURE], rows, bytes(4 * 4 * 9)))
    assert read_model_info(path).vocabulary_size == 9
    with Builder(path, "llama") as model:
        spm(5000).write(model.writer)
    assert read_model_info(path).vocabulary_size == 5000


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (key("llama.block_count", raw.STRING, "2"), "llama.block_count is not a count"),
        (key("llama.block_count", raw.I32, -1), "llama.block_count is not a count"),
        (key("llama.block_count", raw.U32, 2**31), "llama.block_count is not a count up to"),
        (key("llama.block_count", raw.U32, 513), "llama.block_count is not from 1 to 512"),
        (key("llama.expert_count", raw.U32, 1025), "llama.expert_count is not up to 1,024"),
        (key("llama.expert_count", raw.U32, 1), "llama.expert_count is not 0, as expert_used_count is"),
        (key("llama.expert_count", raw.U32, 4), "llama.expert_count is not 0, as expert_used_count is"),
        (key("llama.expert_used_count", raw.U32, 2), r"llama.expert_used_count is not up to 0 \(expert_count\)"),
        (key("llama.expert_group_count", raw.U32, 1), "llama.expert_group_count is not up to 0"),
        (key("llama.rope.scaling.type", raw.STRING, ""), "llama.rope.scaling.type is not one of none, linear"),
        (key("llama.nextn_predict_layers", raw.U32, 1), "llama.nextn_predict_layers is not up to 0"),
        (raw.array("llama.attention.head_count", raw.F32, [1.0]), "head_count is not a count"),
        (raw.array("llama.attention.head_count", raw.U32, []), "head_count is not a count"),
        (key("general.name", raw.U8, 1), "general.name is not a text"),
        (key("llama.attention.causal", raw.U8, 1), "causal is not true or false"),
        (key("general.sampling.temp", raw.STRING, "hot"), "general.sampling.temp is not a number"),
        (key("tokenizer.chat_template", raw.BOOL, True), "chat_template is not a text"),
        (key("split.count", raw.STRING, "2"), "split.count is not a whole number"),
    ],
)
def test_a_key_of_the_wrong_type_is_refused_at_its_byte(tmp_path: Path, entry: bytes, reason: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf([ARCHITECTURE, entry], []))
    with pytest.raises(InvalidModelFile, match=reason) as caught:
        read_model_info(path)
    assert caught.value.details["offset"] == 24 + len(ARCHITECTURE)


def test_a_model_without_architecture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(gguf([], []))
    with pytest.raises(InvalidModelFile, match=r"general\.architecture is missing"):
        read_model_info(tmp_path / "a.gguf")


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    write_llama(tmp_path / "model.gguf", max_tensors_per_file=8)
    return shards_of(tmp_path / "model.gguf")


def test_a_split_model_is_told_as_the_whole_one(tmp_path: Path, shards: list[Path]) -> None:
    whole = read_model_info(write_llama(tmp_path / "whole.gguf"))
    split = read_model_info(shards[0])
    assert split.split_count == len(shards) == 3
    fields: list[str] = [name for name in split.__struct_fields__ if name != "split_count"]
    assert [getattr(split, name) for name in fields] == [getattr(whole, name) for name in fields]
    assert shard_paths(read_header(shards[0])) == tuple(shards)


def test_a_missing_shard_is_named(shards: list[Path]) -> None:
    shards[1].unlink()
    with pytest.raises(InvalidModelFile, match=r"model-00002-of-00003\.gguf is missing"):
        read_model_info(shards[0])


def test_a_truncated_shard_is_refused_by_its_own_name(shards: list[Path]) -> None:
    shards[2].write_bytes(shards[2].read_bytes()[:-200])
    with pytest.raises(InvalidModelFile, match=r"model-00003-of-00003\.gguf .* is it complete"):
        read_model_info(shards[0])


def test_a_later_shard_points_to_the_first(shards: list[Path]) -> None:
    with pytest.raises(InvalidModelFile, match=r"shard 2 of 3; give the first one, model-00001-of-00003\.gguf"):
        read_model_info(shards[1])


def test_a_renamed_first_shard_cannot_name_the_others(shards: list[Path]) -> None:
    renamed = shards[0].rename(shards[0].with_name("model.gguf"))
    with pytest.raises(InvalidModelFile, match="must end in -00001-of-00003"):
        read_model_info(renamed)


def test_a_shard_in_another_s_place_is_refused(shards: list[Path]) -> None:
    shards[2].write_bytes(shards[1].read_bytes())
    with pytest.raises(InvalidModelFile, match="should be shard 3 of 3"):
        read_model_info(shards[0])


@pytest.mark.parametrize(
    ("names", "total", "reason"),
    [(["a", "a"], 2, "'a' is in two shards"), (["a", "b"], 3, "have 2 tensors, but split.tensors.count says 3")],
)
def test_shards_whose_tensors_do_not_add_up_are_refused(
    tmp_path: Path, names: list[str], total: int, reason: str
) -> None:
    for number, name in enumerate(names):
        keys: list[Any] = [ARCHITECTURE, key("split.no", raw.U16, number), key("split.count", raw.U16, 2)]
        keys.append(key("split.tensors.count", raw.I32, total))
        data = gguf(keys, [raw.tensor(raw.Tensor(name))], bytes(128))
        (tmp_path / f"m-{number + 1:05}-of-00002.gguf").write_bytes(data)
    with pytest.raises(InvalidModelFile, match=reason):
        read_model_info(tmp_path / "m-00001-of-00002.gguf")
