"""`localllm quantize`: real quantizing in a real child, every refusal, and nothing left behind whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter, dequantize
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.commands.store.quantize import quantize_model
from localllm.errors import Cancelled, DiskFull, InvalidModelFile, InvalidParameter, LoadFailed, ModelNotFound
from localllm.gguf import read_header, read_model_info
from localllm.llama.lacking import QUANTIZE
from localllm.llama.library import Library
from localllm.llama.quantizing import quantize
from localllm.llama.quantizing.imatrix import read_imatrix
from localllm.registry.making.quantizing import job_of
from localllm.registry.making.quantizing import quantize as run_job
from localllm.settings.config import Settings
from localllm.types.quantization import NAMES, NEED_IMPORTANCE, Job, Step, type_of
from localllm.types.upstream import FILE_TYPES
from tests.foreign_stores import write_adapter, write_projector
from tests.llama.needs import needs
from tests.models.maker import shards_of, write_llama
from tests.waiting import until


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of 256, so that every type divides them."""
    return write_llama(tmp_path_factory.mktemp("source") / "wide-F32.gguf", n_embd=256, n_ff=256, n_layer=1)


@pytest.fixture
def loaded_library(loaded_library: Library) -> Library:
    needs(loaded_library, QUANTIZE)
    return loaded_library


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home)


def job_for(source: Path, target: Path, kind: str, home: Path = Path("/tmp")) -> Job:
    return Job(
        source=str(source), target=str(target), temporary=str(target.with_name(".x.part")), type=kind,
        allow_requantize=True, force=False, threads=1, data_dir=str(home),
    )  # fmt: skip


def test_a_model_is_written_in_another_type(
    source: Path, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "wide-Q4_K_M.gguf"
    assert quantize_model(settings, source, target, "q4_k_m", threads=1) == 0
    info = read_model_info(target)
    assert info.file_type == "Q4_K_M"
    assert {"Q4_K", "Q6_K", "F32"} == set(info.quantization)
    assert target.stat().st_size < source.stat().st_size / 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "as Q4_K_M: " in captured.err
    assert os.listdir(tmp_path) == [target.name]


def test_json_says_what_was_done(
    source: Path, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.gguf"
    quantize_model(settings, source, target, "Q8_0", threads=1, as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert (result["type"], result["target_bytes"]) == ("Q8_0", target.stat().st_size)
    assert result["source_bytes"] == source.stat().st_size


def test_a_split_source_becomes_one_file(settings: Settings, tmp_path: Path) -> None:
    write_llama(tmp_path / "split.gguf", n_layer=1, max_tensors_per_file=5)
    shards = shards_of(tmp_path / "split.gguf")
    target = tmp_path / "whole.gguf"
    quantize_model(settings, shards[0], target, "Q8_0", threads=1)
    assert read_model_info(target).split_count == 1
    assert read_model_info(target).num_parameters == read_model_info(shards[0]).num_parameters
    with pytest.raises(InvalidModelFile, match="give the first one"):
        quantize.check(job_for(shards[1], tmp_path / "x.gguf", "Q8_0"))


def test_rows_that_a_type_does_not_divide_are_told(
    settings: Settings, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quantize_model(settings, tiny_model, tmp_path / "a.gguf", "Q4_K_M", threads=1)
    assert "tensors do not fit the blocks of Q4_K_M; they get a larger type" in capsys.readouterr().err
    with pytest.raises(InvalidParameter, match=r"does not fit the blocks of Q1_0.*choose"):
        quantize_model(settings, tiny_model, tmp_path / "b.gguf", "Q1_0", threads=1)
    assert sorted(os.listdir(tmp_path)) == ["a.gguf"]


def test_what_is_quantized_already_is_refused_unless_asked_for(
    settings: Settings, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once, twice = tmp_path / "once.gguf", tmp_path / "twice.gguf"
    quantize_model(settings, source, once, "Q8_0", threads=1)
    with pytest.raises(InvalidParameter, match=r"once.gguf is quantized already \(Q8_0\).*--allow-requantize"):
        quantize_model(settings, once, twice, "Q4_0", threads=1)
    quantize_model(settings, once, twice, "Q4_0", threads=1, allow_requantize=True)
    assert read_model_info(twice).file_type == "Q4_0"
    assert "worse than one made from F16" in capsys.readouterr().err


def test_no_file_is_replaced_unless_asked_for_and_never_the_source(
    settings: Settings, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "there.gguf"
    target.write_text("precious")
    with pytest.raises(InvalidParameter, match="exists; --force replaces it"):
        quantize_model(settings, source, target, "Q8_0", threads=1)
    assert target.read_text() == "precious"
    quantize_model(settings, source, target, "Q8_0", threads=1, force=True)
    assert read_model_info(target).file_type == "Q8_0"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidParameter, match="pipe is not a regular file"):
        quantize_model(settings, source, pipe, "Q8_0", threads=1, force=True)
    own = tmp_path / "own.gguf"
    shutil.copy(source, own)
    (tmp_path / "link.gguf").symlink_to(own)
    for name in (own, tmp_path / "link.gguf", tmp_path / "." / "own.gguf"):
        with pytest.raises(InvalidParameter, match="is the source itself"):
            quantize.check(job_for(own, name, "Q8_0"))
    assert own.read_bytes() == source.read_bytes()


def test_a_target_that_is_no_place_for_a_file_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="is a folder"):
        quantize.check(job_for(source, tmp_path, "Q8_0"))
    with pytest.raises(InvalidParameter, match="is not a writable folder"):
        quantize.check(job_for(source, tmp_path / "no" / "x.gguf", "Q8_0"))


@pytest.mark.parametrize("kind", ["missing", "fifo", "text", "cut", "adapter", "projector", "tensor behind the end"])
def test_a_source_that_is_no_sound_model_is_refused(
    settings: Settings, source: Path, tmp_path: Path, kind: str
) -> None:
    """CVE-2026-7482: a tensor that reached beyond the file put memory into the result."""
    path = tmp_path / "bad.gguf"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "text":
        path.write_text("no model at all")
    elif kind == "cut":
        path.write_bytes(source.read_bytes()[:-1000])
    elif kind == "adapter":
        write_adapter(path)
    elif kind == "projector":
        write_projector(path)
    elif kind == "tensor behind the end":
        content = bytearray(source.read_bytes())
        at = content.index(b"blk.0.ffn_up.weight") + len(b"blk.0.ffn_up.weight") + 4 + 8
        content[at : at + 8] = (1 << 40).to_bytes(8, "little")
        path.write_bytes(content)
    with pytest.raises(ModelNotFound if kind == "missing" else InvalidModelFile):
        quantize.check(job_for(path, tmp_path / "out.gguf", "Q8_0"))
    if kind == "tensor behind the end":
        with pytest.raises(LoadFailed, match=r"ends at byte 1,12.*but the file has"):
            quantize_model(settings, path, tmp_path / "out.gguf", "Q8_0")
    assert os.listdir(tmp_path) in ([], ["bad.gguf"])


def test_unknown_types_list_the_known_ones_and_low_ones_say_what_they_lack() -> None:
    with pytest.raises(InvalidParameter, match=r"unknown type 'Q4_KM' \(did you mean Q4_K_M") as caught:
        type_of("Q4_KM")
    assert all(name in caught.value.message for name in NAMES)
    with pytest.raises(InvalidParameter, match="IQ2_XS needs an importance matrix"):
        type_of("iq2_xs")
    assert (type_of("q4_k"), type_of("mxfp4")) == ("Q4_K_M", "MXFP4_MOE")


def test_every_type_of_the_library_is_in_the_table_but_one_that_it_cannot_write() -> None:
    assert {*FILE_TYPES.values()} - {*NAMES} == {"NVFP4"}
    assert len({*NAMES}) == len(NAMES)


def test_every_type_is_taken_or_refused_as_the_table_says(
    loaded_library: Library, source: Path, tmp_path: Path
) -> None:
    checked = quantize.check(job_for(source, tmp_path / "x.gguf", "Q8_0"))
    for name in NAMES:
        job = job_for(source, tmp_path / "x.gguf", name)
        if name in NEED_IMPORTANCE:
            with pytest.raises(InvalidParameter, match="importance matrix"):
                quantize._rehearse(job, checked, loaded_library)
        else:
            assert quantize._rehearse(job, checked, loaded_library) == ()
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_told_before_anything_is_written(
    loaded_library: Library, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    job = job_for(source, tmp_path / "x.gguf", "Q8_0")
    with pytest.raises(DiskFull, match="1,000 are free") as caught:
        quantize.run(job, quantize.check(job), loaded_library, lambda _: None)
    needed = caught.value.details["needed_bytes"]
    assert isinstance(needed, int)
    assert needed > 1000
    assert os.listdir(tmp_path) == []


def test_progress_grows_to_the_whole(loaded_library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "POLL_S", 0.001)
    model = write_llama(tmp_path / "m.gguf", n_embd=256, n_ff=512, n_layer=3)
    job = job_for(model, tmp_path / "out.gguf", "Q4_K_M")
    steps: list[Step] = []
    quantize.run(job, quantize.check(job), loaded_library, steps.append)
    done = [step.done_bytes for step in steps]
    assert len(done) > 1
    assert done == sorted(done)
    assert done[-1] == steps[-1].total_bytes


def test_progress_counts_a_tensor_once_that_is_logged_while_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "POLL_S", 0.001)
    polls = threading.Semaphore(0)

    class Busy:
        """A log that gets a line after each mark, so that the next read finds it again."""

        def __init__(self) -> None:
            self.lines: list[str] = []

        def mark(self) -> int:
            return len(self.lines)

        def lines_since(self, mark: int, *, min_level: int) -> list[str]:  # noqa: ARG002
            if len(self.lines) < 4:
                self.lines.append(f"[   {len(self.lines) + 1}/   4]   t{len(self.lines)} - [ 8, 8, 1, 1], type = f16")
            polls.release()
            return self.lines[mark:]

    source = quantize.Source(cast(Any, None), (), {f"t{number}": 10 for number in range(4)}, {}, None, {})
    steps: list[Step] = []
    with quantize._progress(cast(Any, SimpleNamespace(log=Busy())), source, steps.append):
        for _ in range(7):
            assert polls.acquire(timeout=20)
    assert [step.done_bytes for step in steps] == [10, 20, 30]


def test_a_target_that_comes_into_being_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "target").write_text("precious")
    with pytest.raises(InvalidParameter, match="meanwhile"):
        quantize._publish(tmp_path / "new", tmp_path / "target", force=False)
    assert (tmp_path / "target").read_text() == "precious"


CHILDREN = {
    "dies": "import os, sys; sys.stdin.readline(); os.abort()",
    "leaves": "import sys; sys.stdin.readline(); sys.exit(7)",
    "writes and dies": (
        "import json, os, sys; job = json.loads(sys.stdin.readline());"
        "open(job['temporary'], 'w').write('half'); print('{\"type\": \"st', flush=True); os.abort()"
    ),
}


@pytest.mark.parametrize("child", sorted(CHILDREN))
def test_a_child_that_dies_is_an_error_and_leaves_nothing(
    settings: Settings, source: Path, tmp_path: Path, child: str
) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0));" + CHILDREN[child]
    with pytest.raises(LoadFailed, match="ended early"):
        quantize_model(settings, source, tmp_path / "x.gguf", "Q8_0", command=[sys.executable, "-c", code])
    assert os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def slow_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Takes some seconds in IQ4_XS on one thread."""
    return write_llama(tmp_path_factory.mktemp("slow") / "slow.gguf", n_embd=1024, n_ff=1024, n_layer=2, n_head=8)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ctrl_c_or_a_death_leaves_nothing_behind(
    slow_source: Path, home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    code = (
        "import sys; from pathlib import Path; from localllm.settings.config import Settings;"
        "from localllm.cli.commands.store.quantize import quantize_model;"
        "quantize_model(Settings(home=Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]), 'IQ4_XS', threads=1)"
    )
    target = tmp_path / "out.gguf"
    command = [sys.executable, "-P", "-c", code, str(home), str(slow_source), str(target)]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE)
    with parent:
        until(lambda: any(path.stat().st_size > 0 for path in tmp_path.glob(".*.part")))
        parent.send_signal(number)
        parent.communicate(timeout=30)
    until(lambda: os.listdir(tmp_path) == [])  # after SIGKILL it is the child that notices


# --- Importance matrices ----------------------------------------------------------------------------------------------


def columns(source: Path) -> dict[str, int]:
    """Tensors that are quantized, and how long their rows are."""
    return {tensor.name: tensor.dims[0] for tensor in read_header(source).tensors if len(tensor.dims) == 2}


def importance(num_columns: int) -> Any:
    """Every fourth column matters a thousand times as much."""
    return np.where(np.arange(num_columns) % 4 == 0, 1000.0, 1.0).astype(np.float32)


def write_imatrix(path: Path, source: Path, *, unseen: str = "-", left_out: str = "-") -> Path:
    """As llama-imatrix does since 2025. `unseen`, `left_out`: parts of the names of tensors without data."""
    writer = GGUFWriter(path, arch="")
    writer.add_type("imatrix")
    for name, length in columns(source).items():
        count = 0 if unseen in name else 7
        if left_out in name:
            continue
        writer.add_tensor(f"{name}.in_sum2", importance(length).reshape(1, -1) * count)
        writer.add_tensor(f"{name}.counts", np.array([[count]], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_dat(path: Path, source: Path, *, num_calls: int = 7) -> Path:
    """As it did before."""
    entries = [struct.pack("<i", len(columns(source)))]
    for name, length in columns(source).items():
        entries.append(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", num_calls, length))
        entries.append((importance(length) * num_calls).astype("<f4").tobytes())
    path.write_bytes(b"".join(entries))
    return path


def weighted_error(source: Path, target: Path) -> float:
    """Of all quantized tensors, by what matters."""
    wanted = {tensor.name: tensor for tensor in GGUFReader(source).tensors}
    total = 0.0
    for tensor in GGUFReader(target).tensors:
        if tensor.tensor_type.name == "F32":
            continue
        got = dequantize(tensor.data, tensor.tensor_type)
        right = np.array(wanted[tensor.name].data, np.float32).reshape(got.shape)
        total += float((np.square(got - right) * importance(got.shape[-1])).sum())
    return total


@pytest.mark.parametrize("write", [write_imatrix, write_dat])
def test_what_an_importance_matrix_says_matters_comes_out_better(
    source: Path, settings: Settings, tmp_path: Path, write: Callable[[Path, Path], Path]
) -> None:
    matrix = write(tmp_path / "matrix", source)
    blind, seeing = tmp_path / "blind.gguf", tmp_path / "seeing.gguf"
    assert quantize_model(settings, source, blind, "Q3_K_M", threads=1) == 0
    assert quantize_model(settings, source, seeing, "Q3_K_M", threads=1, imatrix=matrix) == 0
    assert weighted_error(source, seeing) < 0.8 * weighted_error(source, blind)


def test_with_an_importance_matrix_the_smallest_types_can_be_written(
    source: Path, settings: Settings, tmp_path: Path
) -> None:
    matrix = write_imatrix(tmp_path / "matrix.gguf", source)
    assert quantize_model(settings, source, tmp_path / "tiny.gguf", "IQ2_XS", threads=1, imatrix=matrix) == 0
    assert "IQ2_XS" in read_model_info(tmp_path / "tiny.gguf").quantization


def rehearsed(library: Library, source: Path, matrix: Path, kind: str) -> str:
    """What is noted before anything is written."""
    job = msgspec.structs.replace(job_for(source, matrix.with_name("out.gguf"), kind), imatrix=str(matrix))
    return "; ".join(quantize._rehearse(job, quantize.check(job), library))


@pytest.mark.parametrize("how", ["left_out", "unseen"])
def test_tensors_that_a_matrix_has_no_data_for_are_named_or_refused(
    loaded_library: Library, source: Path, tmp_path: Path, how: str
) -> None:
    """Refused before anything is written where llama.cpp would give up in the middle."""
    matrix = write_imatrix(tmp_path / "none.gguf", source, **{how: "blk."})
    for kind in NEED_IMPORTANCE:
        with pytest.raises(InvalidParameter, match=rf"has no data for \d tensors \(blk.0.*, and {kind} needs them"):
            rehearsed(loaded_library, source, matrix, kind)
    matrix = write_imatrix(tmp_path / "half.gguf", source, **{how: "ffn_"})
    assert re.search(
        r"no data for 3 tensors \(blk.0.ffn_.*\) of 7", rehearsed(loaded_library, source, matrix, "Q4_K_M")
    )
    assert "Q8_0 uses no importance matrix" in rehearsed(loaded_library, source, matrix, "Q8_0")
    matrix = write_imatrix(tmp_path / "whole.gguf", source, **{how: "token_embd"})
    assert [rehearsed(loaded_library, source, matrix, kind) for kind in NEED_IMPORTANCE] == [""] * len(NEED_IMPORTANCE)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        ("narrow", r"has 32 values for blk.0.\w+.weight, which has 256 columns"),
        (b"", "truncated"),
        (b"\xff\xff\xff\xff", "not an importance matrix"),
        (struct.pack("<ii", 1, 4) + b"name" + struct.pack("<ii", 1, 1000), "truncated"),
        (struct.pack("<ii", 1, 4) + b"name" + struct.pack("<iif", 1, 1, float("nan")), "not all numbers"),
        (struct.pack("<ii", 1, 4) + b"name" + struct.pack("<iif", 1, 1, 1.0), "another model"),
        ("model", "another kind"),
    ],
)
def test_what_is_no_importance_matrix_of_this_model_is_refused_before_anything_is_written(
    source: Path, settings: Settings, tmp_path: Path, content: bytes | str | None, says: str
) -> None:
    matrix = tmp_path / "matrix"
    if isinstance(content, bytes):
        matrix.write_bytes(content)
    elif content == "narrow":
        write_imatrix(matrix, write_llama(tmp_path / "narrow.gguf", n_embd=32, n_ff=32, n_layer=1))
    elif content is not None:
        shutil.copy(source, matrix)
    with pytest.raises((LoadFailed, ModelNotFound), match=says):
        quantize_model(settings, source, tmp_path / "out.gguf", "Q4_K_M", threads=1, imatrix=matrix)
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("of_gguf", [True, False])
@given(data=st.data())
def test_a_damaged_importance_matrix_is_read_or_refused(
    of_gguf: bool, source: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = (write_imatrix if of_gguf else write_dat)(folder / "matrix", source)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, min(len(raw) - 1, 3000)))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    with contextlib.suppress(InvalidModelFile):
        assert all(one.values.dtype == np.float32 for one in read_imatrix(path).values())


def test_an_expert_that_no_text_reached_counts_all_columns_alike(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", arch="")
    writer.add_type("imatrix")
    writer.add_tensor("x.in_sum2", np.array([[2, 4], [0, 0]], np.float32))
    writer.add_tensor("x.counts", np.array([[2], [0]], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = read_imatrix(tmp_path / "m.gguf")["x"]
    assert (found.values.tolist(), found.num_unseen, found.num_experts) == ([1, 2, 1, 1], 1, 2)


def test_a_cancelled_job_ends_with_its_own_error_and_leaves_nothing(tmp_path: Path) -> None:
    step = msgspec.json.encode(Step(1, 2)).decode()
    child = [sys.executable, "-c", f"import sys; sys.stdin.readline(); print({step!r}, flush=True); sys.stdin.read()"]
    cancel = threading.Event()
    cancel.set()
    job = job_of(tmp_path / "in.gguf", tmp_path / "out.gguf", "Q8_0", tmp_path)
    with pytest.raises(Cancelled, match="stopped"):
        run_job(job, lambda _: None, command=child, cancel=cancel)
    assert list(tmp_path.iterdir()) == []
