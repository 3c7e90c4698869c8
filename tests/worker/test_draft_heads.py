"""Drafts that guess from hidden states, from the setting to the worker: loaded beside the model, refused in words; no
answer is another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localllm import LLM, SamplingParams
from localllm.errors import LoadFailed
from localllm.gguf import read_model_info
from localllm.llama.drafts import next_rows
from localllm.planning import draft_plan, nextn_heads
from localllm.planning.draft_plan import DraftModel, draft_bytes, draft_options, place_draft, states_bytes
from localllm.planning.memory_fit import fit_in_memory
from localllm.types import DeviceInfo
from localllm.types.load_options import LoadOptions
from localllm.worker import loading
from localllm.worker.drafts import draft_model as loaded_drafting
from tests.homes import share_findings
from tests.models import families
from tests.models.dflash import write_dflash
from tests.models.eagle import write_eagle
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe

GREEDY = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
SEEDED = SamplingParams(temperature=0.9, seed=5, max_tokens=60, ignore_eos=True)
PROMPTS = ("Hello", "one two three " * 20)
LAYERS = (1, 2, 3)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("eagle") / "target.gguf", n_layer=4, scale=0.05)


@pytest.fixture(scope="module")
def expected(target: Path) -> list[str]:
    """What the target answers without a draft."""
    with LLM(target, slots=2, threads=1) as plain:
        return [plain.complete(prompt, params=params).text for prompt in PROMPTS for params in (GREEDY, SEEDED)]


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (write_eagle, {}),
        (write_eagle, {"has": ()}),
        (write_eagle, {"tokens": range(5, 300)}),
        (write_dflash, {}),
        (write_dflash, {"has": (), "window": 40}),
        (write_dflash, {"form": "dspark", "tokens": range(5, 300)}),
        (write_dflash, {"form": "dflash2"}),
    ],
)
def test_a_model_with_a_draft_answers_as_it_does_without(
    target: Path, expected: list[str], tmp_path: Path, write: Callable[..., Path], how: dict[str, Any]
) -> None:
    draft = write(tmp_path / "draft.gguf", layers=LAYERS, is_good=True, **how)
    with LLM(target, slots=2, threads=1, draft=draft) as llm:
        assert (llm.info.draft, llm.info.sources) == ("draft", ("lookup", "prediction", "draft"))
        made = [llm.complete(prompt, params=params) for prompt in PROMPTS for params in (GREEDY, SEEDED)]
    assert [each.text for each in made] == expected


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"layers": (1, 2)}, "names 2 layers of the target, not 3"),
        ({"layers": (1, 2, 5)}, "from layer 5, and this model has 4"),
        ({"layers": (1, 2, 4)}, "what enters layer 4, and llama.cpp gives out no such vectors"),
        ({"target_width": 32}, "vectors of 32 numbers, and this model's have 64"),
        ({"tokenizer": bpe(400)}, "knows 400 tokens, and this model has 320"),
        ({"tokens": (5, 6, 320)}, "guesses token 320, and this model has 320"),
        ({"tokens": (5, 6, -1)}, "guesses token -1, and this model has 320"),
        ({"tokens": (5, 6), "has": ()}, "has 2 tokens, and it has no output head of its own"),
        ({"n_embd": 32, "has": ()}, "its vectors have 32 numbers, but this model's have 64"),
        ({"leave_out": "fc.weight"}, "no fc.weight of 192 by 64 numbers"),
        ({"leave_out": "blk.0.attn_norm_2.weight"}, "could not load eagle.gguf"),
        ({"extra": {"block_count": 2}}, "has 2 layers, and llama.cpp computes one"),
        ({"extra": {"attention.key_length": 8}}, "keys and values differ in length"),
    ],
)
def test_an_eagle_draft_for_another_model_is_refused_in_words(
    target: Path, tmp_path: Path, how: dict[str, Any], reason: str
) -> None:
    """llama.cpp would end the process for most of these."""
    draft = write_eagle(tmp_path / "eagle.gguf", **{"layers": LAYERS, "is_good": True, **how})
    with pytest.raises(LoadFailed, match=reason) as refused:
        LLM(target, slots=2, threads=1, draft=draft)
    assert "load eagle" in reason or refused.value.param == "draft"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"leave_out": ("target_layers",)}, "names no layers of the target"),
        ({"layers": (1, 2, 5)}, "from layer 5, and this model has 4"),
        ({"layers": (4,)}, "what enters layer 4, and llama.cpp gives out no such vectors"),
        ({"n_embd": 32}, "vectors of 32 numbers, and this model's have 64"),
        ({"tokenizer": bpe(400)}, "knows 400 tokens, and this model has 320"),
        ({"tokens": (5, 6, 320)}, "guesses token 320, and this model has 320"),
        ({"tokens": (5, 6), "has": ()}, "has 2 tokens, and it has no output head of its own"),
        ({"leave_out": ("mask",)}, "names no token of its vocabulary as the mask"),
        ({"leave_out": ("fc.weight",)}, "no fc.weight of 192 by 64 numbers"),
        ({"leave_out": ("block_size",), "form": "dspark"}, "names a block of 0 tokens"),
        ({"block": 1}, "names a block of 1 token"),
        ({"block": 1000}, "names a block of 1000 tokens"),
        ({"extra": {"selector_top_k": 7}}, "disagree on whether it has a selector"),
        ({"form": "dflash2", "extra": {"selector_top_k": 1000}}, "chooses among 1,000 tokens, and it knows 320"),
        ({"form": "dflash2", "extra": {"conv_group_size": 5}}, "could not load draft.gguf"),
        ({"extra": {"attention.sliding_window": 9}}, "a sliding window and no layer that has one"),
        ({"extra": {"attention.key_length": 8}}, "keys and values differ in length"),
        ({"extra": {"hyper_connection_count": 2}}, "hyper-connections, as drafts for DeepSeek V4 have"),
    ],
)
def test_a_dflash_draft_for_another_model_is_refused_in_words(
    target: Path, tmp_path: Path, how: dict[str, Any], reason: str
) -> None:
    """llama.cpp would end the process for many of these."""
    draft = write_dflash(tmp_path / "draft.gguf", **{"layers": LAYERS, **how})
    with pytest.raises(LoadFailed, match=reason) as refused:
        LLM(target, slots=2, threads=1, draft=draft)
    assert "load draft" in reason or refused.value.param == "draft"


@pytest.mark.parametrize(
    ("write", "how", "reason"),
    [
        (write_eagle, {"layers": (1, 2, 4)}, "what enters layer 4"),
        (write_dflash, {"layers": (4,)}, "what enters layer 4"),
        (write_eagle, {"layers": LAYERS, "tokens": (5, 6, 320)}, "guesses token 320"),
        (write_dflash, {"layers": LAYERS, "tokens": (5, 6, 320)}, "guesses token 320"),
    ],
)
def test_a_pair_for_another_model_costs_no_model_its_load(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path], how: Any, reason: str
) -> None:
    """Wherever the draft that `auto` chose turns out to be wrong."""
    draft = write(tmp_path / "draft.gguf", **how)
    monkeypatch.setattr("localllm.registry.draft_choice.pair_of", lambda _id: str(draft))
    with LLM(target, slots=2, threads=1, draft="auto") as llm:
        assert llm.info.draft == ""
        assert reason in llm.info.draft_reason
        assert llm.info.sources == ("lookup", "prediction")
        assert llm.complete("Hello", params=GREEDY).text


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (families.write_sliding_window, "does not give out for gemma3"),
        (families.write_latent, "does not give out for deepseek2"),
        (families.write_recurrent, "does not give out for mamba"),
        (families.write_embedding, "embedding model generates no text"),
    ],
)
def test_a_target_without_hidden_states_is_named(tmp_path: Path, write: Callable[..., Path], reason: str) -> None:
    path, draft = write(tmp_path / "model.gguf"), write_eagle(tmp_path / "eagle.gguf")
    infos = read_model_info(path), read_model_info(draft)
    with pytest.raises(LoadFailed, match=reason) as refused:
        draft_options(infos[0], LoadOptions(), DraftModel("eagle", draft, infos[1]))
    assert refused.value.param == "draft"


def test_a_target_that_cannot_roll_back_is_named(tmp_path: Path) -> None:
    """With too many slots for states of earlier tokens."""
    path = families.write_gated_delta(tmp_path / "model.gguf")
    with pytest.raises(LoadFailed, match="cannot roll back rejected tokens") as refused:
        LLM(path, threads=1, options=LoadOptions(slots=32, ubatch=32), draft=write_eagle(tmp_path / "eagle.gguf"))
    assert refused.value.param == "draft"


@pytest.mark.parametrize("write", [write_eagle, write_dflash])
@pytest.mark.parametrize("has", [("embeddings", "output"), ()])
def test_a_draft_is_no_model_by_itself(tmp_path: Path, write: Callable[..., Path], has: Any) -> None:
    with pytest.raises(LoadFailed, match="only guesses for another model; give it"):
        LLM(write(tmp_path / "draft.gguf", has=has), slots=1, threads=1)


def answers_from_disk(target: Path, home: Path, folder: Path, *, growth: int = 1, **how: Any) -> list[str]:
    """Of many at once, and of the turns after them, for which the model was loaded anew.

    Each prompt has three times `growth` more words than the one before it.
    """
    share_findings(home, folder)
    options, texts = LoadOptions(kv_disk_mb=64, ctx=512), list[str]()
    prompts = [f"{number} " + "one two three " * (3 + growth * number) for number in range(5)]
    for _ in range(2):
        with (
            LLM(target, slots=3, threads=1, home=folder, options=options, **how) as llm,
            ThreadPoolExecutor(5) as pool,
        ):
            made = list(pool.map(lambda prompt: llm.complete(prompt, params=GREEDY).text, prompts))
        texts += made
        prompts = [prompt + text + " and" for prompt, text in zip(prompts, made, strict=True)]
    return texts


@pytest.fixture(scope="module")
def expected_from_disk(target: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return answers_from_disk(target, home, tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize(("write", "how"), [(write_eagle, {}), (write_dflash, {"form": "dspark"})])
def test_many_answers_at_once_and_turns_from_the_disk_go_on_as_without(
    target: Path,
    home: Path,
    expected_from_disk: list[str],
    tmp_path: Path,
    write: Callable[..., Path],
    how: dict[str, Any],
) -> None:
    draft = write(tmp_path / "draft.gguf", layers=LAYERS, is_good=True, **how)
    assert answers_from_disk(target, home, tmp_path, draft=draft) == expected_from_disk


@pytest.mark.parametrize("write", [write_eagle, write_dflash])
def test_its_memory_is_planned(target: Path, tmp_path: Path, write: Callable[..., Path]) -> None:
    info, options = read_model_info(target), LoadOptions(ctx=512, slots=2)
    path = write(tmp_path / "draft.gguf", layers=LAYERS, ctx=256)
    draft = DraftModel("draft", path, read_model_info(path))
    assert draft_options(info, options, draft).ctx == 256
    long_info, long = (msgspec.structs.replace(each, context_length=2**17) for each in (info, draft.info))
    wanted = draft_options(long_info, LoadOptions(), draft._replace(info=long))
    assert wanted.ctx == nextn_heads.CTX, "a draft need not look back further"
    states = states_bytes(info, options, draft)
    assert states == 4 * 3 * 64 * (512 * 2 + 2048 + 512) + 4 * 64 * 320
    assert draft_bytes(info, options, draft) > states + draft.info.size_bytes
    assert next_rows.KEPT == nextn_heads.KEPT_ROWS
    assert loading.WHOLE_BATCH == nextn_heads.MOST_BATCH
    assert loaded_drafting.HEAD_TOKENS == draft_plan.HEAD_TOKENS
    gpu = DeviceInfo("GPU0", "a GPU", "gpu", "CUDA", free_bytes=4 * 2**30, total_bytes=8 * 2**30)
    _, share, _ = place_draft(info, options, draft, [gpu])
    assert share is not None
    fit = fit_in_memory(info, options, devices=[gpu], free_bytes=2**30, draft=draft)
    assert fit.shares[-1].needs.draft == states, "which stay in main memory"
