"""Gemma 4's assistants from the setting to the worker: loaded beside the model, refused in words; no answer is
another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localllm import LLM
from localllm.errors import LoadFailed
from localllm.gguf import read_model_info
from localllm.planning.draft_plan import DraftModel, draft_options, place_draft, states_bytes
from localllm.types import DeviceInfo
from localllm.types.load_options import LoadOptions
from tests.models import families
from tests.models.assistant import write_assistant, write_gemma4
from tests.models.eagle import write_eagle
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe
from tests.worker.test_draft_heads import GREEDY, PROMPTS, SEEDED, answers_from_disk

LONG = "one two three four " * 30
"""Longer than the window's 256 cells."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gemma4(tmp_path_factory.mktemp("assistant") / "target.gguf", scale=0.01)


@pytest.mark.parametrize(
    ("how", "options"),
    [
        ({"is_good": True}, {}),
        ({}, {"flash_attn": "off"}),
        ({"windowed": (True, True, True, False)}, {"rope_scaling": "linear", "rope_scale": 2.0}),
    ],
)
def test_a_model_with_an_assistant_answers_as_it_does_without(
    target: Path, tmp_path: Path, how: dict[str, Any], options: dict[str, Any]
) -> None:
    draft, load = write_assistant(tmp_path / "helper.gguf", **how), LoadOptions(**options)
    prompts = (*PROMPTS, LONG)
    with LLM(target, slots=2, threads=1, options=load) as plain:
        expected = [plain.complete(prompt, params=params).text for prompt in prompts for params in (GREEDY, SEEDED)]
    with LLM(target, slots=2, threads=1, draft=draft, options=load) as llm:
        assert (llm.info.draft, llm.info.sources) == ("helper", ("lookup", "prediction", "draft"))
        made = [llm.complete(prompt, params=params) for prompt in prompts for params in (GREEDY, SEEDED)]
    assert [each.text for each in made] == expected


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"target_width": 32}, "vectors of 32 numbers, and this model's have 64"),
        ({"target_width": 96}, "its own vectors are as long as the target's"),
        ({"without": "embedding_length_out"}, "does not say how long the target's vectors are"),
        ({"tokenizer": bpe(400)}, "knows 400 tokens, and this model has 320"),
        ({"without": "nextn_predict_layers"}, "0 of its 2 layers guess, and all must"),
        ({"extra": {"nextn_predict_layers": 1}}, "1 of its 2 layers guess, and all must"),
        ({"windowed": (False, False)}, "names no layer with a sliding window"),
        ({"window": 0}, "names no layer with a sliding window"),
        ({"window": 17}, "looks 17 tokens back, and this model 16"),
        ({"extra": {"attention.head_count_kv": [2, 2]}}, "keys of 2 heads with 32 numbers of the last layer that sees"),
        ({"sizes": (32, 8)}, "keys of 2 heads with 8 numbers of the last layer with a window, and this model has keys"),
        ({"windowed": (True, True), "extra": {"attention.head_count_kv": [2, 1]}}, "read different numbers of heads"),
        ({"extra": {"attention.head_count": 3}}, "3 heads do not share 2 heads of keys equally"),
        ({"extra": {"attention.value_length_swa": 8}}, "keys and values differ in length"),
        ({"extra": {"rope.dimension_count_swa": 18}}, "rotates 18 of 16 numbers"),
        ({"without": "rope.dimension_count_swa"}, "rotates 32 of 16 numbers"),
        ({"leave_out": "nextn.pre_projection.weight"}, "could not load helper.gguf"),
        ({"leave_out": "rope_freqs.weight"}, "could not load helper.gguf"),
    ],
)
def test_an_assistant_of_another_model_is_refused_in_words(
    target: Path, tmp_path: Path, how: dict[str, Any], reason: str
) -> None:
    """llama.cpp would end the process for most of these, or read outside of the model's memory."""
    draft = write_assistant(tmp_path / "helper.gguf", **how)
    with pytest.raises(LoadFailed, match=reason) as refused:
        LLM(target, slots=2, threads=1, draft=draft)
    assert "load helper" in reason or refused.value.param == "draft"


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (write_llama, "a Gemma 4 model, and this one is llama"),
        (families.write_sliding_window, "a Gemma 4 model, and this one is gemma3"),
        (lambda path: write_gemma4(path, windowed=(False, True, True, True)), "this model has none there"),
        (lambda path: write_gemma4(path, windowed=(False, True, False, False)), "this model has none there"),
        (families.write_embedding, "embedding model generates no text"),
    ],
)
def test_a_target_whose_keys_an_assistant_cannot_read_is_named(
    tmp_path: Path, write: Callable[[Path], Path], reason: str
) -> None:
    path, draft = write(tmp_path / "model.gguf"), write_assistant(tmp_path / "helper.gguf")
    infos = read_model_info(path), read_model_info(draft)
    with pytest.raises(LoadFailed, match=reason) as refused:
        draft_options(infos[0], LoadOptions(), DraftModel("helper", draft, infos[1]))
    assert refused.value.param == "draft"


def test_a_model_whose_layers_are_divided_has_no_assistant(target: Path, tmp_path: Path) -> None:
    draft = write_assistant(tmp_path / "helper.gguf")
    infos = read_model_info(target), read_model_info(draft)
    with pytest.raises(LoadFailed, match="which split row divides"):
        draft_options(infos[0], LoadOptions(split="row"), DraftModel("helper", draft, infos[1]))


def test_an_assistant_is_no_model_by_itself(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="only guesses for another model; give it"):
        LLM(write_assistant(tmp_path / "helper.gguf"), slots=1, threads=1)


def test_a_gemma_4_model_has_an_eagle_draft_too(target: Path, tmp_path: Path) -> None:
    draft = write_eagle(tmp_path / "eagle.gguf", layers=(1, 2, 4))
    with LLM(target, slots=2, threads=1) as plain:
        expected = plain.complete(LONG, params=GREEDY).text
    with LLM(target, slots=2, threads=1, draft=draft) as llm:
        assert llm.complete(LONG, params=GREEDY).text == expected


def test_many_answers_at_once_and_turns_from_the_disk_go_on_as_without(
    target: Path, home: Path, tmp_path: Path
) -> None:
    draft = write_assistant(tmp_path / "helper.gguf", is_good=True)

    plain, guessed = tmp_path / "plain", tmp_path / "guessed"
    plain.mkdir()
    guessed.mkdir()
    expected = answers_from_disk(target, home, plain, growth=4)
    assert answers_from_disk(target, home, guessed, growth=4, draft=draft) == expected


def test_its_memory_is_planned(target: Path, tmp_path: Path) -> None:
    """Without keys and values."""
    info, options = read_model_info(target), LoadOptions(ctx=512, slots=40)
    path = write_assistant(tmp_path / "helper.gguf", extra={"context_length": 256})
    draft = DraftModel("helper", path, read_model_info(path))
    wanted = draft_options(info, options, draft)
    assert (wanted.ctx, wanted.ubatch) == (256, 40)
    assert states_bytes(info, options, draft) == 4 * 64 * (512 * 40 + 2048 + 512)
    gpu = DeviceInfo("GPU0", "a GPU", "gpu", "CUDA", free_bytes=4 * 2**30, total_bytes=8 * 2**30)
    _, share, _ = place_draft(info, options, draft, [gpu])
    assert share is not None
    assert share.kv == 0


def test_an_assistant_reads_the_keys_that_the_last_layers_use(tmp_path: Path) -> None:
    """Those of earlier ones, where a model's last layers have none."""
    models = [write_gemma4(tmp_path / f"{number}.gguf", n_layer=6, n_shared=number) for number in (0, 2, 4)]
    draft = write_assistant(tmp_path / "helper.gguf")
    head = read_model_info(draft).draft_head
    assert head is not None
    for path in models:
        info = read_model_info(path)
        assert info.shared_keys == head.reads
        draft_options(info, LoadOptions(), DraftModel("helper", draft, read_model_info(draft)))
