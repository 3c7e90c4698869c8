"""Control vectors on the real llama.cpp: they are adapters of another kind, alone and beside others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from localllm.cli.commands.store.adapters import steer
from localllm.engine.cache.domain import Domain
from localllm.engine.requests.adapters import NO_ADAPTERS, ScaledAdapter, adapter_set
from localllm.errors import InvalidModelFile, InvalidParameter
from localllm.gguf.adapters import read_adapter
from localllm.gguf.control_vectors import write_control_vector
from localllm.gguf.header import read_header
from localllm.llama import library
from localllm.llama.adapters.steering import LayerOutputs, directions, increments
from localllm.llama.backend import LlamaBackend
from localllm.llama.model import LlamaModel
from localllm.registry.adapters.shelf import Shelf
from localllm.settings.config import Settings
from localllm.types import Layers
from tests.llama.test_adapters import know, logits
from tests.llama.test_kv_reuse import opened
from tests.models.families import N_EMBD, write_lora
from tests.models.maker import write_llama

LAYERS = 4


def numbers(seed: int, layers: int = LAYERS - 1) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((layers, N_EMBD)).astype(np.float32)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("steered") / "base.gguf", n_layer=LAYERS)


@pytest.fixture(scope="module")
def backend(
    loaded_library: library.Library, base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaBackend]:
    folder = tmp_path_factory.mktemp("vectors")
    with opened(loaded_library, base) as backend:
        for name, vectors, first in (
            ("all", numbers(1), 1), ("other", numbers(2), 1), ("last", numbers(1)[2:], 3),
            ("sum", numbers(1) + 2 * numbers(2), 1),
        ):  # fmt: skip
            write_control_vector(folder / f"{name}.gguf", "llama", vectors, first=first)
            assert read_adapter(folder / f"{name}.gguf", base).num_layers == len(vectors)
            know(backend, name, folder / f"{name}.gguf")
        know(backend, "lora", write_lora(folder / "lora.gguf"))
        yield backend
        backend.decoder.use_adapters(NO_ADAPTERS)


def test_they_add_up_can_be_scaled_and_leave_nothing_behind(backend: LlamaBackend) -> None:
    def under(**scales: float) -> npt.NDArray[np.float32]:
        return logits(backend, tuple(ScaledAdapter(name, scale) for name, scale in sorted(scales.items())))

    plain = under()
    found = {"all": under(all=1), "last": under(last=1), "lora": under(lora=1), "both": under(all=1, lora=1)}
    rows = [plain, *found.values()]
    for index, row in enumerate(rows):
        assert min(float(np.abs(row - other).max()) for at, other in enumerate(rows) if at != index) > 0.05
    assert np.allclose(under(all=1, other=2), under(sum=1), atol=1e-3)
    assert np.allclose(under(all=2, other=4), under(sum=2), atol=1e-3)
    for name, row in found.items():
        if name != "both":
            assert np.array_equal(under(**{name: 1}), row), "layers that one does not change keep no numbers of another"
    assert np.array_equal(under(), plain)
    assert np.array_equal(under(all=1, lora=1), found["both"])


def test_a_range_of_layers_changes_these_alone_and_makes_another_set(backend: LlamaBackend) -> None:
    whole, first, last = (ScaledAdapter("all", 1.0, layers) for layers in (None, Layers(1, 2), Layers(3, 3)))
    row = logits(backend, (last,))
    assert np.array_equal(row, logits(backend, (ScaledAdapter("last", 1.0),)))
    assert float(np.abs(row - logits(backend, (whole,))).max()) > 0.05
    both = adapter_set([first, last])
    assert np.allclose(logits(backend, both), logits(backend, (whole,)), atol=1e-3)
    assert np.array_equal(logits(backend, (last,)), row)
    assert adapter_set([last, last]) == (last._replace(scale=2.0),)
    sets = (), (whole,), (first,), (last,), both
    assert len({Domain.of(cache_salt="", adapters=each) for each in sets}) == len(sets)


def test_a_vector_made_of_pairs_is_the_difference_of_means_and_steers_towards_the_positive_texts(
    loaded_library: library.Library, base: Path
) -> None:
    pairs = [("a b c", "a x c"), ("b c", "x c")]
    model = LlamaModel(loaded_library, base, gpu_layers=0, devices=(), must_offload=False)
    try:
        with LayerOutputs(loaded_library, model, threads=1) as outputs:
            rows = {text: outputs.of(text) for pair in pairs for text in pair}
            assert np.array_equal(outputs.of("b c"), rows["b c"]), "no text sees another"
            found, strengths = directions(outputs, pairs)
            with pytest.raises(InvalidParameter, match="tokens; 1 to 2048"):
                outputs.of("a b " * 2000)
    finally:
        model.close()
    wanted = (rows["a b c"] + rows["b c"] - rows["a x c"] - rows["x c"]) / 2
    assert found.shape == (LAYERS - 1, N_EMBD)
    assert np.allclose(found, wanted, atol=1e-5)
    assert np.allclose(increments(found).sum(axis=0), found[-1], atol=1e-5)
    assert all(strength > 0 for strength in strengths)


def test_steer_make_keeps_it_under_its_name_and_says_what_is_wrong_with_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, settings = tmp_path / "pairs.jsonl", Settings(home=tmp_path, threads=1)
    lines = '{"positive": "Ahoy, I", "negative": "Hello, I"}', "", '{"positive": "Aye, we", "negative": "Yes, we"}'
    pairs.write_text("\n".join(lines))
    assert steer(settings, "demo", "sailor", pairs, layers="2-3", scale=0.5) == 0
    assert "2 layers; the pairs differ most behind layer" in capsys.readouterr().err
    (stored,) = Shelf(tmp_path).all()
    assert (stored.name, stored.base, stored.scale, stored.rank) == ("sailor", "demo", 0.5, 0)
    header = read_header(Shelf(tmp_path).path(stored))
    assert [tensor.name for tensor in header.tensors] == ["direction.2", "direction.3"]
    for text, layers, reason in (
        ("{}", None, "line 1 is not"),
        ("", None, "has 0 pairs"),
        ("\n".join(lines), "3", "is not FIRST-LAST"),
        ("\n".join(lines), "1-9", "layers 1-9: the model has vectors of the layers 1-3"),
    ):
        pairs.write_text(text)
        with pytest.raises(InvalidParameter, match=reason):
            steer(settings, "demo", "other", pairs, layers=layers, scale=1.0)
    assert [each.name for each in Shelf(tmp_path).all()] == ["sailor"]


def test_those_of_another_model_are_refused_by_name(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "wrong.gguf"
    for architecture, vectors, first, reason in (
        ("qwen2", numbers(1), 1, "for models of architecture qwen2"),
        ("llama", numbers(1)[:, :7], 1, r"direction.1' has the shape \[7\]; the base's vectors have 64"),
        ("llama", numbers(1), 2, "direction.4' is for a layer that the base, with 4, does not have"),
        ("llama", numbers(1), 0, "direction.0' is not of the form"),
        ("llama", numbers(1)[:0], 1, "it has no directions"),
    ):
        write_control_vector(path, architecture, vectors, first=first)
        with pytest.raises(InvalidModelFile, match=reason):
            read_adapter(path, base)


def test_layers_that_are_not_there_are_refused(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "last.gguf"
    write_control_vector(path, "llama", numbers(1)[2:], first=3)
    assert read_adapter(path, base, Layers(2, 3)).num_layers == 1
    lora = write_lora(tmp_path / "lora.gguf", n_layer=LAYERS)
    for file, layers, reason in (
        (path, Layers(1, 4), "layers 1-4 of last.gguf: the model has vectors of the layers 1-3"),
        (path, Layers(3, 2), "layers 3-2 of last.gguf"),
        (path, Layers(1, 2), "layers 1-2 of last.gguf: it has directions of the layers 3-3 only"),
        (lora, Layers(1, 2), "layers 1-2 of lora.gguf: it is a LoRA adapter"),
    ):
        with pytest.raises(InvalidParameter, match=reason):
            read_adapter(file, base, layers)
