"""A saved conversation's file: what was written comes back, and nothing else is ever taken for it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.kvdisk import file as kv_file
from localllm.kvdisk.file import (
    DamagedFile,
    DiskCheckpoint,
    Foreign,
    SavedConversation,
    encode,
    read_head,
    read_saved,
    read_tokens,
)
from localllm.kvdisk.fingerprint import FORMAT

FINGERPRINT = "ab" * 32
TOKENS = np.arange(5, dtype=np.int32)
SAVED = SavedConversation(b"the state of five tokens", (DiskCheckpoint(2, b"two"), DiskCheckpoint(4, b"four")))

states = st.binary(max_size=300)


def content_of(tokens: list[int], saved: SavedConversation, chunk_bytes: int = 7) -> bytes:
    head, sections = encode(FINGERPRINT, np.array(tokens, np.int32), saved, chunk_bytes)
    return head + b"".join(sections)


def read_back(path: Path) -> tuple[list[int], SavedConversation]:
    with io.FileIO(path) as file:
        head = read_head(file)
        assert head.fingerprint == FINGERPRINT
        return read_tokens(file, head).tolist(), read_saved(file, head)


def as_bytes(saved: SavedConversation) -> tuple[bytes, list[tuple[int, bytes]]]:
    return bytes(saved.state), [(position, bytes(state)) for position, state in saved.checkpoints]


@given(
    tokens=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=50),
    state=states,
    checkpoints=st.lists(st.tuples(st.integers(0, 50), states), max_size=3),
    chunk_bytes=st.integers(1, 400),
    rows=st.none() | st.tuples(st.integers(1, 60), st.integers(1, 60), st.booleans()),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    tokens: list[int],
    state: bytes,
    checkpoints: list[tuple[int, bytes]],
    chunk_bytes: int,
    rows: tuple[int, int, bool] | None,
) -> None:
    """With rows that are used whole or not at all, from any token on, which may go on behind the last one."""
    saved = SavedConversation(
        state,
        tuple(DiskCheckpoint(min(position, len(tokens)), data) for position, data in checkpoints),
        () if rows is None else [(len(tokens) - 1, len(tokens) - 1 + rows[0], *rows[1:])],
    )
    path = tmp_path_factory.getbasetemp() / "written.kv"
    path.write_bytes(content_of(tokens, saved, chunk_bytes))
    tokens_again, again = read_back(path)
    assert tokens_again == tokens
    assert as_bytes(again) == as_bytes(saved)
    assert list(again.extents) == list(saved.extents)


@pytest.mark.parametrize("extents", [[(5, 9, 4, False)], [(-1, 2, 3, False)], [(1, 1, 1, True)], [(1, 2, 0, True)],
                                     [(0, 3, 3, False), (2, 4, 2, False)]])  # fmt: skip
def test_extents_that_cannot_be_are_damage(tmp_path: Path, extents: list[tuple[int, int, int, bool]]) -> None:
    path = tmp_path / "damaged.kv"
    path.write_bytes(content_of(TOKENS.tolist(), SAVED._replace(extents=extents)))
    with pytest.raises(DamagedFile, match="extents"):
        read_back(path)


def test_every_wrong_byte_is_noticed(tmp_path: Path) -> None:
    path, content = tmp_path / "wrong.kv", content_of(TOKENS.tolist(), SAVED)
    for place in range(len(content)):
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
            with pytest.raises((DamagedFile, Foreign)):
                read_back(path)


def test_every_other_length_is_noticed_before_the_state_is_read(tmp_path: Path) -> None:
    path, content = tmp_path / "short.kv", content_of(TOKENS.tolist(), SAVED)
    for wrong in (*(content[:length] for length in range(len(content))), content + b"\0", content + content):
        path.write_bytes(wrong)
        with io.FileIO(path) as file, pytest.raises(DamagedFile):
            read_head(file)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, rest: bytes, begins_well: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "any.kv"
    path.write_bytes(content_of([1, 2], SavedConversation(b"state"))[:12] * begins_well + rest)
    with pytest.raises((DamagedFile, Foreign)):
        read_back(path)


def test_two_chunks_that_changed_places_are_noticed(tmp_path: Path) -> None:
    path, state = tmp_path / "swapped.kv", b"first..second."
    content = content_of([1], SavedConversation(state))
    path.write_bytes(content.replace(state, state[7:] + state[:7]))
    with pytest.raises(DamagedFile):
        read_back(path)


def test_another_version_is_foreign_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "newer.kv"
    with monkeypatch.context() as patch:
        patch.setattr(kv_file, "FORMAT", FORMAT + 1)
        path.write_bytes(content_of([1], SavedConversation(b"state")))
    with pytest.raises(Foreign, match="format"):
        read_back(path)


def test_a_state_that_was_read_can_be_handed_to_native_code_without_a_copy(tmp_path: Path) -> None:
    import ctypes

    path = tmp_path / "state.kv"
    path.write_bytes(content_of(TOKENS.tolist(), SAVED))
    _, saved = read_back(path)
    assert isinstance(saved.state, memoryview)
    assert len(saved.state) == len(SAVED.state)
    assert bytes((ctypes.c_uint8 * len(saved.state)).from_buffer(saved.state)) == SAVED.state
