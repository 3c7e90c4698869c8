"""The engine on the real llama.cpp: batched equals single, seeds repeat, slots are clean when they are reused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.scheduling.pace import StepLimits
from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.devices import asynchronous_devices
from localllm.llama.model import LlamaModel
from localllm.types import Finish, ResolvedSampling
from tests.models.builder import Builder

GREEDY = ResolvedSampling(temperature=0)
PROMPTS = [
    "Once upon a time",
    "The",
    "zzz 123",
    "a longer prompt with more words in it, and a comma",
    "é漢🙂",
    "x" * 90,
]


@pytest.fixture(scope="module", params=["on", "off"], ids=lambda mode: f"flash-{mode}")
def backend(
    request: pytest.FixtureRequest, loaded_library: library.Library, tiny_model: Path
) -> Iterator[LlamaBackend]:
    model = LlamaModel(loaded_library, tiny_model, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(
        loaded_library, model, KvMemory(256, 4), Batching(128), threads=2, attention=Attention(request.param)
    )
    yield backend
    backend.free()
    model.close()


class Answers:
    def __init__(self) -> None:
        self.text: dict[int, str] = {}
        self.finish: dict[int, Finish] = {}

    def __call__(self, output: StepOutput) -> None:
        assert not output.failures
        for id, delta in output.deltas:
            self.text[id] = self.text.get(id, "") + delta.text
            if delta.finish is not None:
                self.finish[id] = delta.finish


def run(backend: LlamaBackend, sequences: list[Sequence]) -> Answers:
    answers = Answers()
    engine = build_engine(
        backend, answers, limits=StepLimits(60)
    )  # prompts are computed whole: chunks of other sizes change digits
    for sequence in sequences:
        engine.submit(sequence)
    engine.step()
    while engine.scheduler.has_work:
        engine.step()
    return answers


def sequence(backend: LlamaBackend, id: int, prompt: str, sampling: ResolvedSampling, max_tokens: int = 40) -> Sequence:
    return Sequence(
        Request(
            id, backend.vocab.tokenize(prompt), sampling=sampling, max_tokens=max_tokens, ending=Ending(ignore_eos=True)
        )
    )


def test_layers_are_reported_where_llama_cpp_put_them(loaded_library: library.Library, tiny_model: Path) -> None:
    fractions: list[float] = []
    model = LlamaModel(
        loaded_library, tiny_model, gpu_layers=0, devices=(), must_offload=False, on_progress=fractions.append
    )
    assert model.layers_per_device == {"CPU": 3}
    assert fractions[-1] == 1.0
    model.close()


def test_batched_logits_equal_single_ones_to_rounding(backend: LlamaBackend) -> None:
    tokens = backend.vocab.tokenize("Once upon a time")

    def logits(slots: list[int]) -> npt.NDArray[np.float32]:
        for slot in slots:
            backend.cells.truncate(slot, 0)
        backend.decoder.decode([Segment(slot, 0, tokens, num_outputs=int(slot == slots[-1])) for slot in slots])
        backend.decoder.decode([Segment(slot, len(tokens), [5], num_outputs=1) for slot in slots])
        return backend.decoder.logits(len(slots) - 1)[-1].copy()

    # Not in every bit: llama.cpp multiplies F32 by another kernel (tinyBLAS) from two rows on. Logits are about 4.
    np.testing.assert_allclose(logits([0]), logits([0, 1, 2, 3]), rtol=0, atol=1e-4)


def test_what_is_told_beside_the_next_decode_is_what_is_told_before_it(
    backend: LlamaBackend, loaded_library: library.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not backend.decoder.is_asynchronous, "nothing is told later where a CPU computes"
    assert asynchronous_devices(loaded_library.ggml).isdisjoint({"CPU"})

    def answers() -> dict[int, str]:
        return run(backend, [sequence(backend, id, prompt, GREEDY) for id, prompt in enumerate(PROMPTS)]).text

    expected = answers()
    monkeypatch.setattr(backend.decoder, "is_asynchronous", True)
    assert answers() == expected


def test_layers_on_the_cpu_make_every_decode_wait(loaded_library: library.Library) -> None:
    assert not loaded_library.is_asynchronous({"CPU": 1, "CUDA0": 28})
    assert not loaded_library.is_asynchronous({})


@pytest.mark.parametrize(
    "sampling", [GREEDY, ResolvedSampling(seed=7), ResolvedSampling(temperature=1.5, top_k=0, top_p=1, min_p=0, seed=3)]
)
def test_every_answer_is_the_same_alone_and_among_others(backend: LlamaBackend, sampling: ResolvedSampling) -> None:
    together = run(backend, [sequence(backend, i, prompt, sampling) for i, prompt in enumerate(PROMPTS)])
    for i, prompt in enumerate(PROMPTS):
        alone = run(backend, [sequence(backend, i, prompt, sampling)])
        assert alone.text[i] == together.text[i]
        assert alone.finish[i].usage.completion_tokens == together.finish[i].usage.completion_tokens == 40


def test_another_seed_gives_another_answer(backend: LlamaBackend) -> None:
    answers = run(backend, [sequence(backend, seed, "The", ResolvedSampling(seed=seed)) for seed in range(4)])
    assert len(set(answers.text.values())) == 4


def test_generation_stops_at_the_end_of_the_slot(backend: LlamaBackend) -> None:
    tokens = backend.vocab.tokenize("The")
    answers = run(backend, [Sequence(Request(1, tokens, sampling=GREEDY, ending=Ending(ignore_eos=True)))])
    assert answers.finish[1].reason == "length"
    assert answers.finish[1].usage.total_tokens == backend.cells.slot_capacity == 256


@pytest.mark.parametrize("text", [*PROMPTS, "", " lead", "tail \n", "\x00\x01", "<s>"])
def test_text_survives_tokenizing_and_detokenizing(backend: LlamaBackend, text: str) -> None:
    tokens = backend.vocab.tokenize(text, add_special=False, parse_special=False)
    assert b"".join(map(backend.vocab.token_bytes, tokens)).decode() == text


def test_a_text_that_spells_the_bos_token_gets_no_second_one(backend: LlamaBackend) -> None:
    bos = backend.vocab.bos_text
    assert backend.vocab.tokenize(bos + "The") == backend.vocab.tokenize("The")


def test_a_token_outside_the_vocabulary_is_named(backend: LlamaBackend) -> None:
    with pytest.raises(InvalidParameter, match="99999"):
        backend.vocab.check_tokens((1, 99999))


def test_a_file_that_llama_cpp_refuses_fails_with_its_reason(loaded_library: library.Library, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(LoadFailed, match=r"broken\.gguf: .+"):
        LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)


def test_an_architecture_that_the_library_does_not_know_is_named(
    loaded_library: library.Library, tmp_path: Path
) -> None:
    path = tmp_path / "new.gguf"
    with Builder(path, "seahorse-9") as model:
        model.vector("output_norm.weight", 64)
    with pytest.raises(LoadFailed, match=r"new\.gguf cannot be loaded: its architecture is unknown to the") as caught:
        LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    assert caught.value.details["architecture"] == "seahorse-9"
    assert "'seahorse-9'" in caught.value.public
    assert "no llama.cpp that this localllm can use knows the architecture 'seahorse-9'" in caught.value.message
