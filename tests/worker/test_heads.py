"""A model's own NextN layers from the setting to the answer: on where they can be, off in words, and no other text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from localllm import LLM, SamplingParams
from localllm.gguf import read_model_info
from localllm.gguf.rules.nextn import FORMS
from localllm.llama.drafts import next_rows
from localllm.planning import nextn_heads
from localllm.planning.draft_plan import DraftModel, draft_bytes
from localllm.planning.main_memory import MainMemory
from localllm.planning.memory_fit import fit_in_memory, needs
from localllm.planning.needs import need_bytes
from localllm.planning.placing import sizes_of
from localllm.planning.plan import demand_of, plan
from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings
from localllm.types import GenerationRequest, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.worker import loading
from localllm.worker.drafts import nextn_context as loaded_heads
from tests.homes import share_findings
from tests.models import families
from tests.models.builder import Builder
from tests.models.headed import write_headed
from tests.worker.test_drafts import changed_workers, failing_drafts

GREEDY = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
PROMPTS = ("Hello", "one two three " * 20)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return families.write_gated_delta(
        tmp_path_factory.mktemp("heads") / "model.gguf", n_nextn=1, scale=0.05, sees_tokens=True
    )


def test_a_model_with_heads_answers_as_it_does_without(model: Path) -> None:
    with LLM(model, slots=2, threads=1, options=LoadOptions(mtp="off")) as plain:
        assert plain.info.sources == ("lookup", "prediction")
        assert plain.info.mtp_reason == "as requested"
        expected = [plain.complete(prompt, params=GREEDY).text for prompt in PROMPTS]
    with LLM(model, slots=2, threads=1) as llm:
        assert llm.info.sources == ("lookup", "prediction", "mtp")
        assert llm.info.mtp_reason == ""
        assert [llm.complete(prompt, params=GREEDY).text for prompt in PROMPTS] == expected


def test_a_draft_model_guesses_in_their_place(model: Path, tmp_path: Path) -> None:
    draft = families.write_draft(tmp_path / "draft.gguf")
    with LLM(model, slots=1, threads=1, draft=draft) as llm:
        assert llm.info.sources == ("lookup", "prediction", "draft")
        assert "draft model" in llm.info.mtp_reason


def test_a_conversation_that_comes_back_from_the_disk_goes_on_as_without(
    model: Path, home: Path, tmp_path: Path
) -> None:
    """Without the vectors of its tokens, which are not written."""

    def answers(mtp: Literal["auto", "off"]) -> list[str]:
        options, texts = LoadOptions(mtp=mtp, kv_disk_mb=64, ctx=512), list[str]()
        (tmp_path / mtp).mkdir()
        share_findings(home, tmp_path / mtp)
        prompt = "one two three " * 30
        for _ in range(2):
            with LLM(model, slots=1, threads=1, home=tmp_path / mtp, options=options) as llm:
                answer = llm.complete(prompt, params=GREEDY)
                texts.append(answer.text)
                assert len(texts) == 1 or answer.finish.usage.cached_tokens > 100
                prompt += answer.text + " and"
        return texts

    assert answers("auto") == answers("off")


def test_layers_that_are_named_and_not_there_are_none(tmp_path: Path) -> None:
    """Some files keep the number of the layers without the layers; others have those of an architecture that we do not
    compute. llama.cpp would end the process."""
    with Builder(tmp_path / "bare.gguf", "qwen35") as bare:
        bare.keys({"block_count": 3, "context_length": 512, "nextn_predict_layers": 1, "embedding_length": 64})
        bare.vector("output_norm.weight", 8)
    assert read_model_info(tmp_path / "bare.gguf").heads is None
    for count in (0, 3):
        with Builder(tmp_path / f"{count}.gguf", "qwen35") as other:
            other.keys({"block_count": 3, "nextn_predict_layers": count, "embedding_length": 64})
            other.vector("blk.2.nextn.eh_proj.weight", 8)
        assert read_model_info(tmp_path / f"{count}.gguf").heads is None
    for architecture, reason in (("exaone-moe", "does not compute"), ("qwen3next", "cannot roll back")):
        with Builder(tmp_path / "other.gguf", architecture) as other:
            other.keys({"block_count": 3, "nextn_predict_layers": 1, "embedding_length": 64, "attention.head_count": 4})
            other.vector("blk.2.nextn.eh_proj.weight", 8)
        info = read_model_info(tmp_path / "other.gguf")
        assert info.heads is not None
        assert reason in nextn_heads.why_none(info, LoadOptions())
        assert architecture in nextn_heads.why_none(info, LoadOptions())
        assert nextn_heads.context_of_heads(info, LoadOptions(), 512) == 0


@pytest.mark.parametrize("architecture", FORMS)
def test_heads_of_a_form_that_llama_cpp_has_no_graph_for_are_said_and_left_alone(
    tmp_path: Path, architecture: str
) -> None:
    """It would end the process, or refuse the file."""

    def info_of(*, n_nextn: int = 1, leave_out: str = "", extra: dict[str, Any] | None = None) -> ModelInfo:
        path = tmp_path / "model.gguf"
        with Builder(path, architecture) as model:
            counts = {"block_count": 2 + n_nextn, "nextn_predict_layers": n_nextn, "embedding_length": 64}
            lengths = {f"attention.{name}_length_mla": 16 for name in ("key", "value")}
            model.keys({**counts, "attention.head_count": 4, **lengths, **(extra or {})})
            names = {name for names in FORMS[architecture].tensors for name in names.split("|")}
            names |= {f"nextn.{name}" for name in ("eh_proj", "enorm", "hnorm")}
            for block in range(2, 2 + n_nextn):
                for name in sorted(names - set(leave_out.split("|"))):
                    model.vector(f"blk.{block}.{name}.weight", 8)
        return read_model_info(path)

    assert info_of().no_heads == ""
    assert bool(info_of(n_nextn=2).no_heads) is not FORMS[architecture].takes_several
    for names in ("nextn.enorm", "nextn.hnorm", *FORMS[architecture].tensors):
        info = info_of(leave_out=names)
        assert names.split("|")[-1] in info.no_heads
        assert nextn_heads.context_of_heads(info, LoadOptions(), 512) == 0
        assert plan(msgspec.structs.replace(info, tokenizer="gpt2"), LoadOptions(ctx=512), []).no_heads == info.no_heads
    assert "dense" in info_of(extra={"leading_dense_block_count": 3}).no_heads
    if architecture == "glm4moe":
        assert "images" in info_of(extra={"rope.dimension_sections": [8, 8, 8, 0]}).no_heads
        assert not info_of(extra={"rope.dimension_sections": [0, 0, 0, 0]}).no_heads
    if architecture == "deepseek2":
        assert "temperature" in info_of(extra={"attention.temperature_scale": 0.1}).no_heads
    if architecture in ("bailingmoe3", "deepseek2", "deepseek32", "glm-dsa"):
        assert "latent" in info_of(extra={"attention.key_length_mla": 0}).no_heads


def test_a_model_of_another_architecture_guesses_and_one_with_heads_of_another_form_answers(tmp_path: Path) -> None:
    """Through the worker: with two NextN layers, llama.cpp would end it."""
    one, two = tmp_path / "one.gguf", tmp_path / "two.gguf"
    for count, path in enumerate((one, two), start=1):
        write_headed(path, "glm4moe", n_nextn=count, scale=0.05, sees_tokens=True)
    with LLM(one, slots=2, threads=1) as llm:
        assert "mtp" in llm.info.sources
        expected = [llm.complete(prompt, params=GREEDY).text for prompt in PROMPTS]
    with LLM(two, slots=2, threads=1) as llm:
        assert "mtp" not in llm.info.sources
        assert "has 2" in llm.info.mtp_reason
        assert [llm.complete(prompt, params=GREEDY).text for prompt in PROMPTS] == expected


def test_their_memory_is_planned(model: Path) -> None:
    info = read_model_info(model)
    assert info.heads is not None
    assert (info.heads.keys, info.heads.values) == (32, 32)
    on, off = LoadOptions(ctx=512, slots=2), LoadOptions(ctx=512, slots=2, mtp="off")
    of = nextn_heads.heads_bytes(info, on, ctx=512, slots=2)
    assert of.kept == 2 * 64 * 512 * 2
    assert need_bytes(info, on) - need_bytes(info, off) == of.total > 0
    assert needs(info, on).total - needs(info, off).total == of.total
    assert plan(info, on, []).heads_ctx == 512
    assert plan(info, off, []).heads_ctx == 0
    more, less = (demand_of(info, each, sizes_of(info)) for each in (on, off))
    assert sum(more.kept) - sum(less.kept) == of.kept
    assert more.compute - less.compute == of.compute
    assert more.outputs - less.outputs == of.host
    assert (nextn_heads.KEPT_ROWS, nextn_heads.MOST_BATCH) == (next_rows.KEPT, loading.WHOLE_BATCH)
    assert (nextn_heads.BATCH_TOKENS, nextn_heads.OUTPUTS) == (loaded_heads.BATCH_TOKENS, loaded_heads.OUTPUTS)


def test_a_draft_that_nobody_named_is_planned_in_their_place_and_they_are_if_it_is_dropped(
    model: Path, tmp_path: Path
) -> None:
    info, path = read_model_info(model), families.write_draft(tmp_path / "draft.gguf")
    draft = DraftModel("draft", path, read_model_info(path))
    auto, off = LoadOptions(ctx=512, slots=2, draft="auto"), LoadOptions(ctx=512, slots=2, mtp="off")
    memory = MainMemory(info, auto, draft, ())
    assert memory.slots_bytes == need_bytes(info, off) + draft_bytes(info, off, draft)
    assert fit_in_memory(info, auto, free_bytes=None, draft=draft).need_bytes == memory.slots_bytes
    memory.drop_draft()
    assert memory.slots_bytes == need_bytes(info, LoadOptions(ctx=512, slots=2))


NO_CONTEXT = """
import os
from localllm.errors import LoadFailed
from localllm.llama.drafts.next_rows import NextRows
from localllm.worker import process
from localllm.worker.drafts import nextn_context

def fails(*_, **__):
    NextRows.computed = lambda *_: os.abort()
    raise LoadFailed("no room for them")

nextn_context.LlamaHeads = fails
process.main()
"""
"""A worker that cannot create their context, and ends if it keeps vectors for them all the same."""


@pytest.mark.parametrize("when", ["while they are loaded", "as they warm up", "as they guess"])
def test_their_memory_is_not_counted_once_they_are_found_not_to_guess(
    model: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    async def held(mtp: Literal["auto", "off"]) -> int:
        runtime = Runtime(Settings(threads=1, slots=2))
        try:
            loaded = await runtime.load(model, LoadOptions(ctx=512, slots=2, threads=1, mtp=mtp))
            (answer,) = await runtime.submit(loaded.id, [GenerationRequest(prompt="Hello", params=GREEDY)])
            async for _ in answer:
                pass
            (running,) = runtime.running()
            assert running.loaded is not None
            assert "mtp" not in running.loaded.sources
            return running.memory_bytes
        finally:
            await runtime.aclose()

    off = asyncio.run(held("off"))
    if when == "while they are loaded":
        changed_workers(monkeypatch, NO_CONTEXT)
    else:
        failing_drafts(monkeypatch, "warm_up" if when == "as they warm up" else "_draft")
    assert asyncio.run(held("auto")) == off


def test_a_section_turns_them_off() -> None:
    assert Settings(mtp="off").load_options().mtp == "off"
    assert Settings().load_options().mtp == "auto"


def test_heads_that_cannot_be_warmed_up_are_said_and_the_model_answers(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_drafts(monkeypatch, "warm_up")
    with LLM(model, slots=1, threads=1) as llm:
        assert llm.info.sources == ("lookup", "prediction")
        assert llm.info.mtp_reason == "it failed: the device is lost"
        assert llm.complete("Hello", params=GREEDY).text
