"""A header is read as it was written, or refused with the byte and the reason."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader

from localllm.errors import InvalidModelFile, LoadFailed, ModelNotFound
from localllm.gguf import UndecodedValue, read_header
from localllm.gguf.cursor import WINDOW_BYTES
from localllm.gguf.header import MAX_TENSORS
from localllm.gguf.values import MAX_ARRAY_ITEMS, MAX_KEYS, MAX_STRING_BYTES
from tests.models import raw
from tests.models.maker import write_llama
from tests.models.raw import Tensor, gguf, key

ARCHITECTURE = key("general.architecture", raw.STRING, "llama")
HEAD_BYTES = 24


def refused(folder: Path, data: bytes) -> InvalidModelFile:
    path = folder / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(InvalidModelFile) as caught:
        read_header(path)
    assert caught.value.details["path"] == str(path)
    return caught.value


def accepted(folder: Path, data: bytes) -> dict[str, Any]:
    path = folder / "good.gguf"
    path.write_bytes(data)
    return {name: entry.value for name, entry in read_header(path).metadata.items()}


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        pytest.param(b"", 0, "ends within the magic", id="empty"),
        pytest.param(b"GGUF\x03", 4, "ends within the version", id="cut in the version"),
        pytest.param(
            gguf([], [])[:20], 16, "ends within the number of metadata keys", id="cve_2024_12055 cut in a count"
        ),
        pytest.param(gguf([], [], magic=b"FUGG"), 0, "byte-swapped", id="swapped magic"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\n", 0, "Git LFS pointer", id="LFS pointer"),
        pytest.param(b"<!DOCTYPE html><html></html>", 0, "web page", id="web page"),
        pytest.param(gguf([], [], version=1), 4, "version 1", id="version 1"),
        pytest.param(gguf([], [], version=4), 4, "version 4", id="version 4"),
        pytest.param(gguf([], [], version=3 << 24), 4, "big-endian", id="big-endian"),
        pytest.param(
            gguf([], [], num_tensors=2**63), 8, "claims 9,223,372,036,854,775,808 tensors", id="cve_2025_0315 tensors"
        ),
        pytest.param(gguf([], [], num_keys=2**64 - 1), 16, "metadata keys, but only", id="cve_2025_0315 too many keys"),
        pytest.param(
            gguf([raw.text("k", 2**62)], []), HEAD_BYTES, "claims 4,611", id="cve_2025_0315 key longer than the file"
        ),
        pytest.param(gguf([key("", raw.U8, 1)], []), HEAD_BYTES, "has 0 bytes", id="empty key"),
        pytest.param(gguf([key(b"\xff\xfe", raw.U8, 1)], []), HEAD_BYTES, "not valid UTF-8", id="key not UTF-8"),
        pytest.param(gguf([key("k" * 65_536, raw.U8, 1)], []), HEAD_BYTES, "allowed are 1 to 65,535", id="long key"),
        pytest.param(gguf([raw.text("k") + struct.pack("<I", 13)], [], bytes(8)), 33, "value type 13", id="value type"),
        pytest.param(
            gguf([key("a", raw.U8, 1)] * 2, []), HEAD_BYTES + 14, "appears twice", id="cve_2024_39720 duplicate key"
        ),
        pytest.param(
            gguf([raw.array("a", raw.ARRAY, [], 1)], [], bytes(9)), 37, "array of arrays", id="cve_2024_39720 nesting"
        ),
        pytest.param(gguf([raw.array("a", 99, [], 1)], [], bytes(9)), 37, "unknown type 99", id="item type"),
        pytest.param(
            gguf([raw.array("a", raw.U8, b"", 2**60)], []), 41, "claims 1,152,921", id="cve_2025_0315 array count"
        ),
        pytest.param(
            gguf([raw.array("a", raw.STRING, [], 50)], [], bytes(64)), 41, "claims 50 items", id="cve_2025_0315 strings"
        ),
        pytest.param(
            gguf([raw.array("a", raw.STRING, ["x" * 9, "y"])], [])[:70],
            66,
            "ends within the length",
            id="cve_2024_12055 cut in array",
        ),
        pytest.param(
            gguf([key("general.alignment", raw.U32, 0)], []), HEAD_BYTES, "is 0, not a", id="cve_2025_0317 alignment 0"
        ),
        pytest.param(
            gguf([key("general.alignment", raw.U32, 24)], []),
            HEAD_BYTES,
            "is 24, not a",
            id="cve_2025_0317 alignment 24",
        ),
        pytest.param(
            gguf([key("general.alignment", raw.U64, 32)], []), HEAD_BYTES, "32-bit unsigned", id="alignment as u64"
        ),
    ],
)
def test_a_malformed_head_or_key_is_refused_with_byte_and_reason(
    tmp_path: Path, data: bytes, offset: int, reason: str
) -> None:
    error = refused(tmp_path, data)
    assert reason in str(error.details["reason"])
    assert error.details["offset"] == offset
    assert f"at byte {offset:,}" in error.message


@pytest.mark.parametrize(
    ("rows", "offset", "reason"),
    [
        pytest.param([Tensor(dims=())], 9, "has 0 dimensions", id="no dimensions"),
        pytest.param([Tensor(dims=(1, 1, 1, 1, 1))], 9, "has 5 dimensions", id="cve_2024_12055 five dimensions"),
        pytest.param([Tensor(dims=(32, 0))], 13, "impossible shape [32, 0]", id="zero"),
        pytest.param([Tensor(dims=(2**63,))], 13, "impossible shape", id="negative"),
        pytest.param([Tensor(dims=(2**32, 2**32))], 13, "impossible shape", id="cve_2025_53630 overflow"),
        pytest.param([Tensor(dims=(33,), type=2)], 21, "not a multiple of Q4_0's block of 32", id="row size"),
        pytest.param([Tensor(type=4)], 21, "unknown type 4", id="removed type"),
        pytest.param([Tensor(type=2**32 - 1)], 21, "unknown type", id="type"),
        pytest.param([Tensor(offset=1)], 0, "not a multiple of 32", id="misaligned"),
        pytest.param([Tensor(offset=2**63)], 0, "is it complete?", id="cve_2026_7482 offset beyond the file"),
        pytest.param([Tensor(dims=(2**20,))], 0, "is it complete?", id="cve_2026_7482 size beyond the file"),
        pytest.param([Tensor("a"), Tensor("b", offset=0)], 33, "begins at 0 instead of 128", id="overlap"),
        pytest.param([Tensor("a", offset=128)], 0, "begins at 128 instead of 0", id="gap"),
        pytest.param([Tensor("a"), Tensor("a", offset=128)], 33, "two tensors are named 'a'", id="duplicate name"),
        pytest.param([Tensor("n" * 64)], 0, "allowed are 1 to 63", id="long name"),
    ],
)
def test_a_malformed_tensor_is_refused_with_byte_and_reason(
    tmp_path: Path, rows: list[Tensor], offset: int, reason: str
) -> None:
    error = refused(tmp_path, gguf([], [raw.tensor(row) for row in rows], bytes(1024)))
    assert reason in str(error.details["reason"])
    assert error.details["offset"] == HEAD_BYTES + offset


def test_cve_2024_12055_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gguf([ARCHITECTURE, raw.array("a", raw.STRING, ["x", "yy"])], [raw.tensor(Tensor())], bytes(128))
    accepted(tmp_path, whole)
    for length in range(len(whole)):
        refused(tmp_path, whole[:length])


def test_cve_2025_0315_more_keys_or_tensors_than_anybody_needs_are_refused(tmp_path: Path) -> None:
    padding = bytes(40 * MAX_TENSORS)
    assert "tensors; at most" in refused(tmp_path, gguf([], [], padding, num_tensors=MAX_TENSORS + 1)).message
    assert "keys; at most" in refused(tmp_path, gguf([], [], padding, num_keys=MAX_KEYS + 1)).message


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(tmp_path: Path, version: int) -> None:
    assert accepted(tmp_path, gguf([ARCHITECTURE], [], version=version)) == {"general.architecture": "llama"}


def test_a_missing_file_is_model_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_header(tmp_path / "nothing.gguf")
    (tmp_path / "file").touch()
    with pytest.raises(ModelNotFound):
        read_header(tmp_path / "file" / "model.gguf")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelFile, match="a directory, not a regular file"):
        read_header(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_cve_2024_39721_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe.gguf"
    make: Any = getattr(os, "mkfifo")  # noqa: B009
    make(path)
    with pytest.raises(InvalidModelFile, match="a named pipe, not a regular file"):
        read_header(path)


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="no /dev/zero on this system")
def test_cve_2024_39721_a_device_is_refused() -> None:
    with pytest.raises(InvalidModelFile, match="a device, not a regular file"):
        read_header(Path("/dev/zero"))


def test_a_path_with_a_zero_byte_cannot_be_read() -> None:
    with pytest.raises(LoadFailed):
        read_header(Path("a\0b"))


def test_values_that_are_not_utf8_keep_a_mark_in_their_place(tmp_path: Path) -> None:
    data = gguf([raw.text("name") + struct.pack("<I", raw.STRING) + raw.text(b"caf\xe9")], [])
    assert accepted(tmp_path, data) == {"name": "caf�"}


def test_long_arrays_and_strings_are_counted_but_not_decoded(tmp_path: Path) -> None:
    many = MAX_ARRAY_ITEMS + 1
    keys = [
        raw.array("words", raw.STRING, ["ab"] * many),
        raw.array("numbers", raw.U16, [7] * many),
        key("text", raw.STRING, "x" * (MAX_STRING_BYTES + 1)),
        raw.array("texts", raw.STRING, ["a", "x" * (MAX_STRING_BYTES + 1), "b"]),
        key("last", raw.U8, 5),
    ]
    values = accepted(tmp_path, gguf(keys, []))
    words_at = HEAD_BYTES + 8 + len("words") + 4 + 4 + 8
    assert values["words"] == UndecodedValue(raw.STRING, many, words_at)
    assert values["numbers"].count == many
    assert values["text"].count == MAX_STRING_BYTES + 1
    assert values["texts"].count == 3
    assert values["last"] == 5


def test_strings_that_cross_the_window_s_end_are_walked_over(tmp_path: Path) -> None:
    words = ["w" * 600] * (3 * WINDOW_BYTES // 600)
    keys = [raw.array("words", raw.STRING, words), key("last", raw.STRING, "end")]
    values = accepted(tmp_path, gguf(keys, []))
    assert values["words"].count == len(words)
    assert values["last"] == "end"


def test_a_key_may_lie_anywhere_across_the_window_s_end(tmp_path: Path) -> None:
    last = key("last", raw.STRING, "end")
    for length in range(WINDOW_BYTES - 100, WINDOW_BYTES - 40):
        filler = raw.text("filler") + struct.pack("<I", raw.STRING) + raw.text(bytes(length))
        assert accepted(tmp_path, gguf([filler, last], []))["last"] == "end"


def test_a_real_file_reads_as_the_gguf_package_reads_it(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "model.gguf", chat_template="{{ messages }}", extra={"x.list": [1.5, 2.5]})
    header, theirs = read_header(path), GGUFReader(path)
    names = [name for name in theirs.fields if not name.startswith("GGUF.")]
    assert list(header.metadata) == names
    for name in names:
        contents = theirs.fields[name].contents()
        value = header.metadata[name].value
        assert (list(value) if isinstance(value, tuple) else value) == contents, name
        assert header.metadata[name].offset == theirs.fields[name].offset
    assert header.data_start == theirs.data_offset
    assert header.alignment == theirs.alignment
    for ours, other in zip(header.tensors, theirs.tensors, strict=True):
        assert (ours.name, ours.dims, ours.type) == (other.name, tuple(map(int, other.shape)), other.tensor_type.name)
        assert (ours.n_bytes, ours.num_elements) == (other.n_bytes, other.n_elements)
        assert header.data_start + ours.offset == other.data_offset
