"""What is computed on a CPU with AMX begins at cache lines, whatever the model and the number of slots."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from localllm.engine.backend import Segment
from localllm.errors import LoadFailed
from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.alignment import LINE_BYTES, align_to_lines
from localllm.llama.model import LlamaModel
from localllm.types.libraries import builds
from localllm.types.load_options import LoadOptions
from tests.llama.planned import planned_backend
from tests.models import families
from tests.models.maker import write_llama

NEWEST = builds.known()[-1]
VIEWS = ("VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "NONE")
"""Operations that compute nothing, or are a part of something else."""
MODELS: dict[str, Callable[[Path], Path]] = {
    "full": write_llama,
    "sliding window": families.write_sliding_window,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
    "mixture": families.write_mixture,
}


@pytest.fixture
def aligned(loaded_library: library.Library) -> Iterator[library.Library]:
    """As with AMX, where it is so from loading on."""
    take_back = align_to_lines(loaded_library.ggml, loaded_library.known)
    yield loaded_library
    if take_back is not None:
        take_back()


def beginnings(
    loaded: library.Library, path: Path, options: LoadOptions, patch: pytest.MonkeyPatch
) -> list[tuple[str, int]]:
    """Each operation that computed something of a prompt and a step of all slots, and where its result begins."""
    patch.setattr(loaded.ggml, "_functions", dict(loaded.ggml._functions))  # others see what the product binds
    loaded.ggml.bind({"ggml_op_desc": (ctypes.c_char_p, [ctypes.c_void_p])})
    found: list[tuple[str, int]] = []

    def on_node(tensor: int, is_question: bool, _: Any) -> bool:
        if is_question and (operation := loaded.ggml.text("op_desc", tensor)) not in VIEWS:
            found.append((operation, loaded.ggml.get_data(tensor)))
        return not is_question

    callback = loaded.api.ggml_backend_sched_eval_callback(on_node)
    make = loaded.api.llama_init_from_model

    def make_watched(model: Any, params: Any) -> Any:
        params.cb_eval = callback
        return make(model, params)

    patch.setattr(loaded.api, "llama_init_from_model", make_watched)
    info = read_model_info(path)
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
    backend = planned_backend(loaded, model, info, options)
    found.clear()
    backend.decoder.decode([Segment(0, 0, [5] * 100, 1)])
    backend.decoder.decode([Segment(slot, 0 if slot else 100, [5], 1) for slot in range(backend.cells.num_slots)])
    backend.decoder.synchronize()
    backend.free()
    model.close()
    return found


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("kind", MODELS)
def test_every_result_begins_at_a_cache_line(
    aligned: library.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, slots: int
) -> None:
    path = MODELS[kind](tmp_path / "a.gguf")
    found = beginnings(aligned, path, LoadOptions(ctx=512, slots=slots, flash_attn="on"), monkeypatch)
    assert len(found) > 50
    assert not [operation for operation, address in found if address % LINE_BYTES]


def test_it_is_so_from_loading_on_with_amx_and_is_taken_back_at_exit(loaded_library: library.Library) -> None:
    """Else it would be called into a Python that has ended."""
    take_back = align_to_lines(loaded_library.ggml, loaded_library.known)
    ggml = loaded_library.ggml
    assert ggml.backend_buft_get_alignment(ggml.backend_cpu_buffer_type()) == LINE_BYTES
    assert (take_back is None) == ("AMX_INT8" in loaded_library.build.features["CPU"])
    if take_back is not None:
        take_back()
        assert ggml.backend_buft_get_alignment(ggml.backend_cpu_buffer_type()) < LINE_BYTES


class OtherGgml:
    """A buffer type of another structure: what is replaced is not what tells the alignment."""

    def __init__(self) -> None:
        self.structure = (ctypes.c_void_p * 8)(*range(1, 9))

    def bind(self, signatures: Mapping[str, tuple[Any, list[Any]]]) -> None:
        assert len(signatures) == 2

    def backend_cpu_buffer_type(self) -> int:
        return ctypes.addressof(self.structure)

    def backend_buft_get_alignment(self, _: int) -> int:
        return LINE_BYTES // 2


def test_another_structure_is_left_as_it_was() -> None:
    ggml: Any = OtherGgml()
    assert align_to_lines(ggml, NEWEST) is None
    assert list(ggml.structure) == list(range(1, 9))


def test_a_library_without_these_functions_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(_: object) -> None:
        raise LoadFailed("this llama.cpp lacks the function")

    ggml: Any = OtherGgml()
    monkeypatch.setattr(ggml, "bind", lacks)
    assert align_to_lines(ggml, NEWEST) is None
    assert list(ggml.structure) == list(range(1, 9))
