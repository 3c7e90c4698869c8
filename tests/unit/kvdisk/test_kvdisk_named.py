"""States under clients' names: whole or an error, bounded together with conversations, shown and cleared with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localllm.errors import DiskFull, InvalidParameter, SlotNotFound
from localllm.kvdisk import named
from localllm.kvdisk.file import DiskCheckpoint, SavedConversation
from localllm.kvdisk.fingerprint import Parts
from localllm.kvdisk.named import NamedStates, named_bytes
from localllm.kvdisk.survey import clear, survey
from tests.kvdisks import MIB, OTHER_PARTS, PARTS, files, opened, put, tokens_of

SAVED = SavedConversation(b"state", (DiskCheckpoint(1, b"half"),))


def states(home: Path, *, parts: Parts = PARTS, max_bytes: int = MIB) -> NamedStates:
    return NamedStates(home / "slots", home / "kv", model="tiny", parts=parts, max_bytes=max_bytes)


def test_what_is_saved_by_name_is_read_back_by_another_process(tmp_path: Path) -> None:
    size_bytes = states(tmp_path).write("notes.v2", tokens_of(1, 2, 3), SAVED)
    found = states(tmp_path).read("notes.v2")
    assert found.tokens.tolist() == [1, 2, 3]
    assert bytes(found.saved.state) == b"state"
    assert [(one.position, bytes(one.state)) for one in found.saved.checkpoints] == [(1, b"half")]
    (path,) = files(tmp_path / "slots")
    assert path.stat().st_size == found.size_bytes == size_bytes
    assert os.name == "nt" or path.stat().st_mode & 0o777 == 0o600


def test_a_name_is_replaced_by_itself_only(tmp_path: Path) -> None:
    slots = states(tmp_path)
    for token in (1, 2):
        slots.write("a", tokens_of(token), SAVED)
    slots.write("tmp-b", tokens_of(3), SAVED)
    slots.write("c", tokens_of(4), SAVED)
    assert [slots.read(name).tokens.tolist() for name in ("a", "tmp-b", "c")] == [[2], [3], [4]]


@given(name=st.text(max_size=70) | st.text("ab.-_/\\\0", max_size=4))
@example("..")
@example("a/../../b")
@example("a:b")
@example("COM1.x")
@example("a\n")
def test_whatever_is_called_a_name_stays_in_its_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    home = tmp_path_factory.mktemp("home")
    try:
        states(home).write(name, tokens_of(1), SAVED)
    except InvalidParameter:
        assert not (home / "slots").exists()
    else:
        (path,) = files(home / "slots")
        assert path.name == f"{name}.kv"
        assert 1 <= len(name) <= 64
        assert not name.startswith(".")
        assert sorted(entry.name for entry in home.iterdir()) == ["kv", "slots"]


@pytest.mark.parametrize("part", ["magic", "head", "token", "state", "length", "empty"])
def test_a_damaged_file_is_an_error_and_stays_for_whoever_wants_to_know_why(tmp_path: Path, part: str) -> None:
    slots = states(tmp_path)
    slots.write("a", tokens_of(1, 2, 3), SavedConversation(b"x" * 1000))
    (path,) = files(tmp_path / "slots")
    content = bytearray(path.read_bytes())
    if part == "length":
        del content[-1]
    elif part == "empty":
        content.clear()
    else:
        content[{"magic": 0, "head": 30, "token": -1005, "state": -1}[part]] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidParameter) as refused:
        slots.read("a")
    assert refused.value.param == "filename"
    assert path.exists()


def test_what_another_model_saved_is_not_given_back(tmp_path: Path) -> None:
    states(tmp_path).write("a", tokens_of(1), SAVED)
    other = states(tmp_path, parts=OTHER_PARTS)
    with pytest.raises(SlotNotFound, match="another model"):
        other.read("a")
    with pytest.raises(SlotNotFound, match="save it first"):
        other.read("b")
    other.write("b", tokens_of(2), SAVED)
    (path,) = tmp_path.glob("slots/*/a.kv")
    path.rename(other.path / "a.kv")
    with pytest.raises(InvalidParameter, match="another model"):
        other.read("a")


def test_named_ones_and_conversations_share_a_bound_and_only_conversations_give_way(tmp_path: Path) -> None:
    max_bytes = 10_000
    slots = states(tmp_path, max_bytes=max_bytes)

    def total() -> int:
        return sum(path.stat().st_size for path in tmp_path.glob("*/*/*.kv"))

    options = {"max_bytes": max_bytes, "beside_bytes": lambda: named_bytes(tmp_path / "slots")}
    with opened(tmp_path / "kv", **options) as cache:  # type: ignore[arg-type]
        for token in range(3):
            put(cache, tokens_of(token), b"x" * 3000)
        assert len(files(tmp_path / "kv")) == 3
        slots.write("a", tokens_of(1), SavedConversation(b"x" * 5000))
        assert (len(files(tmp_path / "kv")), total() <= max_bytes) == (1, True)
        put(cache, tokens_of(7), b"x" * 3000)
        assert (len(files(tmp_path / "kv")), total() <= max_bytes) == (1, True)
        slots.write("a", tokens_of(1), SavedConversation(b"x" * 9000))
        assert (len(files(tmp_path / "kv")), total() <= max_bytes) == (0, True)
        with pytest.raises(DiskFull, match="--kv-disk-mb"):
            slots.write("b", tokens_of(1), SavedConversation(b"x" * 3000))
    assert [path.name for path in files(tmp_path / "slots")] == ["a.kv"]
    assert not list(tmp_path.glob("*/*/tmp-*"))


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/secret/path")

    slots = states(tmp_path)
    slots.write("a", tokens_of(1), SAVED)
    monkeypatch.setattr(named, "publish", full)
    with pytest.raises(DiskFull) as refused:
        slots.write("a", tokens_of(2), SAVED)
    assert "secret" not in str(refused.value)
    assert slots.read("a").tokens.tolist() == [1]


def test_what_a_dead_writer_left_makes_room(tmp_path: Path) -> None:
    slots = states(tmp_path, max_bytes=10_000)
    slots.write("a", tokens_of(1), SAVED)
    (slots.path / "tmp-0000").write_bytes(b"x" * 9000)
    slots.write("b", tokens_of(1), SavedConversation(b"x" * 5000))
    assert not (slots.path / "tmp-0000").exists()


def test_named_ones_are_listed_and_cleared_with_the_conversations_of_their_model(tmp_path: Path) -> None:
    with opened(tmp_path / "kv") as cache:
        put(cache, tokens_of(1, 2))
    for name in ("b", "a"):
        states(tmp_path).write(name, np.arange(10, dtype=np.int32), SAVED)
    states(tmp_path, parts=OTHER_PARTS).write("c", tokens_of(1), SAVED)
    found = {kept.fingerprint: kept for kept in survey(tmp_path)}
    assert sorted((kept.conversations, kept.slots, kept.tokens) for kept in found.values()) == [
        (0, ("c",), 1),
        (1, ("a", "b"), 22),
    ]
    fingerprint = next(name for name, kept in found.items() if kept.conversations)
    cleared = clear(tmp_path, fingerprint)
    assert (cleared.conversations, cleared.slots) == (1, 2)
    assert [kept.slots for kept in survey(tmp_path)] == [("c",)]
    assert clear(tmp_path, "tiny").slots == 1
    assert list((tmp_path / "slots").iterdir()) == []
