"""Control vectors on the real llama.cpp: they are adapters of another kind, alone and beside others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.requests.adapters import NO_ADAPTERS, ScaledAdapter
from localllm.errors import InvalidModelFile
from localllm.gguf.adapters import read_adapter
from localllm.gguf.control_vectors import write_control_vector
from localllm.llama import library
from localllm.llama.backend import LlamaBackend
from tests.llama.test_adapters import know, logits
from tests.llama.test_kv_reuse import opened
from tests.models.families import N_EMBD, write_lora
from tests.models.maker import write_llama

LAYERS = 4


def directions(seed: int, layers: int = LAYERS - 1) -> npt.NDArray[np.float32]:
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
        for name, numbers, first in (
            ("all", directions(1), 1), ("other", directions(2), 1), ("last", directions(1)[2:], 3),
            ("sum", directions(1) + 2 * directions(2), 1),
        ):  # fmt: skip
            write_control_vector(folder / f"{name}.gguf", "llama", numbers, first=first)
            assert read_adapter(folder / f"{name}.gguf", base).num_layers == len(numbers)
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


def test_those_of_another_model_are_refused_by_name(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "wrong.gguf"
    for architecture, numbers, first, reason in (
        ("qwen2", directions(1), 1, "for models of architecture qwen2"),
        ("llama", directions(1)[:, :7], 1, r"direction.1' has the shape \[7\]; the base's vectors have 64"),
        ("llama", directions(1), 2, "direction.4' is for a layer that the base, with 4, does not have"),
        ("llama", directions(1), 0, "direction.0' is not of the form"),
        ("llama", directions(1)[:0], 1, "it has no directions"),
    ):
        write_control_vector(path, architecture, numbers, first=first)
        with pytest.raises(InvalidModelFile, match=reason):
            read_adapter(path, base)
