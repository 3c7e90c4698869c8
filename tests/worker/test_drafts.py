"""`draft` from the setting to the worker: loaded beside the model, refused in words, and no answer is another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localllm import LLM, SamplingParams
from localllm.errors import InvalidParameter, LoadFailed, ModelNotFound, UnsupportedParameter
from localllm.gguf import read_model_info
from localllm.planning.draft_plan import DraftModel, draft_bytes, draft_options, place_draft
from localllm.planning.plan import plan
from localllm.registry.draft_choice import find_draft, pair_of
from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings
from localllm.supervisor import managed
from localllm.types import DeviceInfo, GenerationRequest, ModelInfo, Speculative
from localllm.types.load_options import LoadOptions
from localllm.worker.command import worker_command
from tests.homes import share_findings
from tests.models import families
from tests.models.maker import write_llama
from tests.models.tokenizers import spm

GREEDY = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)


@pytest.fixture(scope="module")
def drafts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drafts")
    return {
        "good": families.write_draft(folder / "good.gguf"),
        "short": write_llama(folder / "short.gguf", ctx=256),
        "window": families.write_sliding_window(folder / "window.gguf"),
        "recurrent": families.write_recurrent(folder / "recurrent.gguf"),
        "larger": write_llama(folder / "larger.gguf", vocab=400),
    }


@pytest.mark.parametrize("name", ["good", "short"])
def test_a_model_with_a_draft_answers_as_it_does_without(tiny_model: Path, drafts: dict[str, Path], name: str) -> None:
    """Also one whose context is shorter than the model's."""
    with LLM(tiny_model, slots=2, threads=1) as plain:
        assert (plain.info.draft, plain.info.draft_reason) == ("", "")
        expected = [plain.complete(prompt, params=GREEDY).text for prompt in ("Hello", "one two three " * 20)]
    with LLM(tiny_model, slots=2, threads=1, draft=drafts[name]) as llm:
        assert llm.info.draft == name
        assert [llm.complete(prompt, params=GREEDY).text for prompt in ("Hello", "one two three " * 20)] == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("larger", "vocabularies differ: it has 400 tokens, not 320"),
        ("window", "vocabularies differ: its tokenizer is"),
        ("recurrent", "a recurrent memory, which cannot roll back"),
    ],
)
def test_a_draft_that_cannot_guess_is_refused_in_words(
    tiny_model: Path, drafts: dict[str, Path], name: str, reason: str
) -> None:
    with pytest.raises(LoadFailed, match=reason) as refused:
        LLM(tiny_model, slots=2, threads=1, draft=drafts[name])
    assert refused.value.param == "draft"


@pytest.mark.parametrize(
    "write", [families.write_sliding_window, families.write_gated_delta, families.write_short_conv]
)
def test_a_memory_that_takes_back_some_tokens_has_a_draft(
    drafts: dict[str, Path], tmp_path: Path, write: Callable[..., Path]
) -> None:
    path = write(tmp_path / "model.gguf", scale=0.05)
    tokenizer = spm() if write is families.write_sliding_window else None
    draft = write_llama(tmp_path / "draft.gguf", tokenizer=tokenizer, scale=0.05)
    with LLM(path, slots=2, threads=1) as plain:
        expected = plain.complete("one two three " * 20, params=GREEDY).text
    with LLM(path, slots=2, threads=1, draft=draft) as llm:
        assert llm.info.draft == "draft"
        assert llm.complete("one two three " * 20, params=GREEDY).text == expected
    with pytest.raises(LoadFailed, match="memory, which cannot roll back") as refused:
        LLM(path, slots=2, threads=1, draft=path)
    assert refused.value.param == "draft"


def test_a_model_that_cannot_take_back_tokens_has_no_draft(drafts: dict[str, Path]) -> None:
    with pytest.raises(LoadFailed, match="cannot roll back") as refused:
        LLM(drafts["recurrent"], slots=2, threads=1, draft=drafts["good"])
    assert refused.value.param == "draft"


def test_a_draft_that_is_not_there_is_named(tiny_model: Path, tmp_path: Path) -> None:
    for draft in (tmp_path / "none.gguf", "smollm2:135m"):
        with pytest.raises(ModelNotFound, match="draft: ") as refused:
            LLM(tiny_model, draft=draft, home=tmp_path)
        assert refused.value.param == "draft"
    with pytest.raises(InvalidParameter, match="a draft has no effect"):
        LoadOptions(draft="demo-draft", speculation="off")
    with pytest.raises(InvalidParameter, match="a name or a path"):
        LLM(tiny_model, draft=7)  # type: ignore[arg-type]


def test_auto_takes_the_catalogs_pair_or_says_how_to_get_it(tiny_model: Path, home: Path, tmp_path: Path) -> None:
    share_findings(home, tmp_path)
    assert pair_of("qwen3:8b") == "qwen3:0.6b"
    assert pair_of("qwen3:0.6b") is None
    assert "localllm pull qwen3:0.6b" in find_draft("auto", "qwen3:8b", tmp_path).reason
    with LLM("demo", slots=1, draft="auto", home=tmp_path) as demo:
        assert demo.info.draft == "demo-draft"
    with LLM(tiny_model, slots=1, threads=1, draft="auto", home=tmp_path) as tiny:
        assert tiny.info.draft == ""
        assert "no draft for tiny" in tiny.info.draft_reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("larger", "vocabularies differ"),
        ("recurrent", "a recurrent memory, which cannot roll back"),
        ("damaged", "not a usable GGUF file"),
    ],
)
def test_a_pair_that_cannot_guess_costs_no_model_its_load(
    tiny_model: Path,
    drafts: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    reason: str,
) -> None:
    """`auto` is no more than a wish: the model answers without, and says why."""
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(drafts["good"].read_bytes()[:2000])
    pair = str({**drafts, "damaged": damaged}[name])
    monkeypatch.setattr("localllm.registry.draft_choice.pair_of", lambda _id: pair)
    with LLM(tiny_model, slots=2, threads=1, draft="auto") as llm:
        assert llm.info.draft == ""
        assert reason in llm.info.draft_reason
        assert llm.info.sources == ("lookup", "prediction")
        assert llm.complete("Hello", params=GREEDY).text


def test_auto_finds_no_draft_for_a_model_that_guesses_nothing() -> None:
    """So that it can be the default of all models, whatever one of them sets."""
    with LLM("demo", options=LoadOptions(draft="auto", speculation="off", slots=1, threads=1)) as llm:
        assert (llm.info.speculation, llm.info.draft, llm.info.sources) == ("off", "", ())


def info_of(path: Path) -> ModelInfo:
    return read_model_info(path)


def test_a_drafts_memory_is_planned_with_the_models(tiny_model: Path, drafts: dict[str, Path], tmp_path: Path) -> None:
    info, options = info_of(tiny_model), LoadOptions(ctx=512, slots=3)
    draft = DraftModel("short", drafts["short"], info_of(drafts["short"]))
    wanted = draft_options(info, options, draft)
    assert (wanted.ctx, wanted.slots) == (256, 3), "as long as it was trained for"
    assert draft_bytes(info, options, draft) > draft.info.size_bytes
    gpu = DeviceInfo("GPU0", "a GPU", "gpu", "CUDA", free_bytes=4 * 2**30, total_bytes=8 * 2**30)
    placed, share, devices = place_draft(info, options, draft, [gpu])
    assert share is not None
    assert share.total >= draft.info.size_bytes
    assert placed.placement.devices == ("GPU0",)
    assert devices[0].free_bytes < gpu.free_bytes - draft.info.size_bytes, "so much less is left for the model"
    assert plan(info, options, devices).gpu_layers == info.num_layers + 1
    small = DeviceInfo("GPU0", "a GPU", "gpu", "CUDA", free_bytes=2**20, total_bytes=8 * 2**30)
    placed, share, devices = place_draft(info, options, draft, [small])
    assert share is None
    assert placed.placement.gpu_layers == 0
    assert list(devices) == [small]
    encoder = DraftModel("encoder", tmp_path, info_of(families.write_embedding(tmp_path / "encoder.gguf")))
    with pytest.raises(LoadFailed, match="embedding model"):
        draft_options(info, options, encoder)


def test_a_section_gives_a_model_a_draft_of_its_own(tiny_model: Path) -> None:
    assert Settings(draft="qwen3:0.6b").load_options().draft == "qwen3:0.6b"
    assert Settings().load_options().draft is None


FAILING = """
from localllm.engine.backend import BackendError
from localllm.engine.speculation.drafts import Drafts

def fail(*_):
    raise BackendError("the device is lost")

Drafts.{name} = fail
from localllm.worker.process import main

main()
"""


def failing_drafts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Workers are real, but for this method of theirs."""
    changed_workers(monkeypatch, FAILING.format(name=name))


def changed_workers(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Workers run this program, which changes something and calls their `main`."""

    def changed(**arguments: Any) -> list[str]:
        made = worker_command(**arguments)
        place = made.index("-m")
        return [*made[:place], "-c", program, *made[place + 2 :]]

    monkeypatch.setattr(managed, "worker_command", changed)


def test_a_draft_that_cannot_be_warmed_up_is_refused_if_it_was_named_and_else_said(
    tiny_model: Path, drafts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_drafts(monkeypatch, "warm_up")
    monkeypatch.setattr("localllm.registry.draft_choice.pair_of", lambda _id: str(drafts["good"]))
    with pytest.raises(LoadFailed, match="loaded but cannot compute: the device is lost") as refused:
        LLM(tiny_model, slots=2, threads=1, draft=drafts["good"])
    assert refused.value.param == "draft"
    with LLM(tiny_model, slots=2, threads=1, draft="auto") as llm:
        assert (llm.info.draft, llm.info.sources) == ("", ("lookup", "prediction"))
        assert llm.info.draft_reason == "it failed: the device is lost"
        assert llm.complete("Hello", params=GREEDY).text
        with pytest.raises(UnsupportedParameter, match="has no draft model: it failed: the device is lost"):
            llm.complete("Hello", params=GREEDY, speculative=Speculative(sources=("draft",)))


def test_a_draft_that_fails_later_is_no_source_from_then_on(
    tiny_model: Path, drafts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_drafts(monkeypatch, "_draft")
    with LLM(tiny_model, slots=2, threads=1, draft=drafts["good"]) as llm:
        assert llm.info.sources == ("lookup", "prediction", "draft")
        assert llm.complete("Hello", params=GREEDY).text
        now = llm.info
        assert (now.draft, now.sources) == ("", ("lookup", "prediction"))
        assert now.draft_reason == "it failed: the device is lost"


def test_the_memory_of_a_draft_that_fails_is_freed(
    tiny_model: Path, drafts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_drafts(monkeypatch, "_draft")
    loaded_bytes: dict[str | None, tuple[int, int]] = {}
    options = LoadOptions(ctx=512, slots=2, threads=1)
    draft = DraftModel("good", drafts["good"], info_of(drafts["good"]))

    async def scenario(name: str | None) -> None:
        runtime = Runtime(Settings(threads=1, slots=2))
        try:
            loaded = await runtime.load(tiny_model, msgspec.structs.replace(options, draft=name))
            (before,) = runtime.running()
            (running,) = await runtime.submit(loaded.id, [GenerationRequest(prompt="Hello", params=GREEDY)])
            async for _ in running:
                pass
            (after,) = runtime.running()
            loaded_bytes[name] = before.memory_bytes, after.memory_bytes
        finally:
            await runtime.aclose()

    for name in (None, str(drafts["good"])):
        asyncio.run(scenario(name))
    with_draft, without = loaded_bytes[str(drafts["good"])]
    assert with_draft - without == draft_bytes(info_of(tiny_model), options, draft)
    assert loaded_bytes[None] == (without, without)
