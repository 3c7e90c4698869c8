"""Attention is measured on the model itself, both ways, once; figures of this machine are never asserted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.model import LlamaModel
from localllm.llama.probes import flash_attention_probe
from localllm.llama.probes.flash_attention import Figures, Point
from localllm.llama.probes.flash_attention_probe import ALL, MAX_PASS_S, MIN_DEEP, MIN_PASS_S, SHALLOW, Probe
from localllm.planning.plan import plan
from localllm.system import cpu
from localllm.types import ModelDefaults
from localllm.types.load_options import LoadOptions
from localllm.worker import attention
from localllm.worker.attention import FILE_NAME, AttentionChoice, shape_of
from localllm.worker.messages import Load
from tests.models import families
from tests.models.maker import write_llama

WRITERS: dict[str, Callable[[Path], Path]] = {
    "full": write_llama,
    "sliding window": families.write_sliding_window,
    "latent": families.write_latent,
    "hybrid": families.write_hybrid,
}
FASTER_WITHOUT = Figures(points=(Point(192, 1, 1, 1, 1), Point(512, 2, 1, 2, 1)))
AS_FAST = Figures(points=(Point(192, 1, 1, 1, 1), Point(512, 1, 1, 1, 1)))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "model.gguf", ctx=1024)


class Opened:
    """A model in memory, and how often its attention was measured."""

    def __init__(self, loaded: library.Library, path: Path, folder: Path) -> None:
        self.path, self.library, self.folder = path, loaded, folder
        self.model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
        self.num_measured = 0

    def settle(self, *results: Figures, threads: int = 1, **options: object) -> AttentionChoice:
        """`results`: of the measurements, the last of any further ones; none: they are real."""
        info = read_model_info(self.path)
        wishes = msgspec.convert({"ctx": 1024, "slots": 1, **options}, LoadOptions)
        load = Load("m", str(self.path), info, wishes, plan(info, wishes, []), ModelDefaults())
        real, given_results = flash_attention_probe.measure, list(results)

        def measure(*arguments: object, **given: object) -> Figures:
            self.num_measured += 1
            if not results:
                return real(*arguments, **given)  # type: ignore[arg-type]
            return given_results.pop(0) if len(given_results) > 1 else given_results[0]

        with mock.patch.object(flash_attention_probe, "measure", measure):
            return attention.settle(self.library, self.model, load, threads, self.folder)


@pytest.fixture
def opened(loaded_library: library.Library, path: Path, tmp_path: Path) -> Opened:
    return Opened(loaded_library, path, tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_memory_is_measured_behind_little_and_behind_much(
    loaded_library: library.Library, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flash_attention_probe, "SETUP_S", 60.0)  # on a machine however busy
    path = WRITERS[kind](tmp_path / "model.gguf")
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    shape = shape_of(read_model_info(path))
    assert shape is not None
    figures = flash_attention_probe.measure(loaded_library, model, shape, ctx=1024, threads=1, max_rows=64)
    model.close()
    assert [point.depth for point in figures.points] == [SHALLOW, MIN_DEEP]
    assert all(seconds > 0 for point in figures.points for seconds in msgspec.structs.astuple(point))


@pytest.mark.parametrize("kind", WRITERS)
def test_every_pass_begins_at_the_depth_that_was_filled(
    loaded_library: library.Library, tmp_path: Path, kind: str
) -> None:
    """Where a recurrent state cannot be rewound, the cache is filled again: deeper passes would look like noise."""
    path = WRITERS[kind](tmp_path / "model.gguf")
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    probe = Probe(loaded_library, model, flash=True, cells=SHALLOW + 64, rows=64, threads=(1, 1))
    probe.fill(SHALLOW)
    for rows in (1, 64, 1, 64, 64):
        probe.pass_s(rows, ALL)
        assert loaded_library.api.llama_memory_seq_pos_max(probe._memory, 0) == SHALLOW - 1
    probe.free()
    model.close()


def test_a_small_model_is_measured_in_a_fraction_of_the_time_of_a_large_one(path: Path) -> None:
    shape = shape_of(read_model_info(path))
    assert shape is not None
    large = shape._replace(num_parameters=10**9)
    assert (shape.pass_s, large.pass_s) == (MIN_PASS_S, MAX_PASS_S)
    assert shape.max_s < 0.3 < large.max_s == pytest.approx(1.6)


def test_a_model_without_attention_is_not_measured(tmp_path: Path) -> None:
    assert shape_of(read_model_info(families.write_recurrent(tmp_path / "model.gguf"))) is None


@pytest.mark.parametrize("flash", [True, False])
def test_a_cache_is_filled_by_a_node_a_chunk_and_large_models_are_computed_in_part(
    opened: Opened, flash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[tuple[str, int]] = []
    """Nodes after which llama.cpp asked whether to go on, with how many numbers each has."""
    count = opened.library.api._lib["ggml_nelements"]
    count.argtypes, count.restype = [ctypes.c_void_p], ctypes.c_int64
    real = Probe._on_node

    def on_node(probe: Probe, tensor: int, is_question: bool, data: object) -> bool:
        wanted = real(probe, tensor, is_question, data)
        name = probe._name_of(tensor).decode()
        if not is_question:
            computed.append((name, 0))
        elif name == "kq-0":
            computed.append((name, count(tensor)))
        return wanted

    monkeypatch.setattr(Probe, "_on_node", on_node)
    probe = Probe(opened.library, opened.model, flash=flash, cells=4096 + 64, rows=64, threads=(1, 1))
    probe.fill(4096)
    assert len(computed) == 4096 / 64, "one node of each chunk"
    assert opened.library.api.llama_memory_seq_pos_max(probe._memory, 0) == 4095
    computed.clear()
    assert probe.pass_s(64, 1) > 0
    assert computed[-1][0] == "l_out-0"
    assert opened.library.api.llama_memory_seq_pos_max(probe._memory, 0) == 4095, "a pass leaves nothing behind"
    if not flash:
        heads = 4
        looked_at = next(size for name, size in computed if name == "kq-0") // (heads * 64)
        assert looked_at >= 4096 + 64, "every cell, though nothing was computed for it"
    computed.clear()
    assert probe.pass_s(1, ALL) > 0
    assert "l_out-0" not in dict(computed), "a whole pass is not stopped"
    probe.free()


def test_what_was_measured_is_remembered_for_this_library_cpu_model_and_thread_count(
    opened: Opened, loaded_library: library.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened.settle(FASTER_WITHOUT)
    assert (first.flash_attn, opened.num_measured) == ("off", 2)
    assert "decoding 0.50 x as fast behind 512 tokens" in first.reason
    assert opened.settle() == first
    assert opened.num_measured == 2, "a second load measures nothing"
    opened.settle(FASTER_WITHOUT, threads=2)
    assert opened.num_measured == 4
    with monkeypatch.context() as patch:
        patch.setattr(cpu, "cpu_model", lambda: "another CPU")
        opened.settle(FASTER_WITHOUT)
    assert opened.num_measured == 6
    with monkeypatch.context() as patch:
        patch.setattr(loaded_library, "build", msgspec.structs.replace(loaded_library.build, fingerprint="another"))
        opened.settle(FASTER_WITHOUT)
    assert opened.num_measured == 8
    other = Opened(loaded_library, write_llama(tmp_path / "other.gguf", ctx=1024, seed=7), opened.folder)
    other.settle(FASTER_WITHOUT)
    assert other.num_measured == 2
    assert opened.settle() == first
    assert opened.num_measured == 8


@pytest.mark.parametrize("content", [b"", b"{", b'{"outcomes": {"x": {"points": 1}}}', b"\xff\xfe"])
def test_a_damaged_memory_is_measured_again_and_whole_afterwards(
    opened: Opened, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (opened.folder / FILE_NAME).write_bytes(content)
    settled = opened.settle(FASTER_WITHOUT)
    assert "unreadable" in caplog.text
    assert opened.settle() == settled
    assert opened.num_measured == 2


def test_a_noisy_measurement_is_made_again_at_the_next_load(opened: Opened) -> None:
    noisy = msgspec.structs.replace(FASTER_WITHOUT, spread=3.0)
    assert opened.settle(noisy).flash_attn == "auto", "in doubt with flash attention"
    assert opened.settle(msgspec.structs.replace(FASTER_WITHOUT, spread=0.2)).flash_attn == "off"
    assert opened.settle(msgspec.structs.replace(AS_FAST, spread=0.19)).flash_attn == "off", "no clearer than before"
    assert opened.settle(AS_FAST).flash_attn == "off"
    assert opened.num_measured == 4, "not for ever"


def test_flash_attention_is_given_up_only_if_a_second_measurement_finds_the_same(opened: Opened) -> None:
    """Another process may slow down all passes of one kind in a short measurement, and equally."""
    disturbed = Figures(points=(Point(192, 1, 1, 1, 1), Point(512, 2, 1, 1, 1)), took_s=0.5)
    assert opened.settle(disturbed, AS_FAST).flash_attn == "auto"
    assert opened.settle().flash_attn == "auto"
    assert opened.num_measured == 2, "and it is remembered"
    too_busy = opened.settle(disturbed, Figures(), threads=2)
    assert too_busy.flash_attn == "auto"
    assert opened.settle(FASTER_WITHOUT, threads=2).flash_attn == "off", "measured again at the next load"


def test_a_model_that_is_too_slow_to_measure_has_flash_attention_and_says_so(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flash_attention_probe, "SETUP_S", -60.0)
    monkeypatch.setattr(flash_attention_probe, "BUSY_SHARE", -1.0)
    settled = opened.settle()
    assert settled.flash_attn == "auto"
    assert "too slow" in settled.reason
    monkeypatch.setattr(flash_attention_probe, "BUSY_SHARE", 1000.0)  # its threads had less than that
    assert "something else used the CPU" in opened.settle(threads=2).reason


def test_what_is_asked_for_or_settled_is_not_measured(opened: Opened) -> None:
    assert opened.settle(flash_attn="on").flash_attn == "on"
    assert opened.settle(flash_attn="off").flash_attn == "off"
    assert opened.settle(kv="unified").flash_attn == "on"
    assert opened.settle(ctx=768).flash_attn == "on"
    assert opened.num_measured == 0


def test_without_flash_attention_fewer_rows_are_computed_at_once_where_scores_are_large(opened: Opened) -> None:
    with mock.patch("localllm.planning.plan.MAX_SCORES_BYTES", 1024 * 1024):
        assert opened.settle(FASTER_WITHOUT).ubatch_tokens == 64
        assert opened.settle(flash_attn="on").ubatch_tokens == 512
