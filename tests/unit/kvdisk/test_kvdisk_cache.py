"""Conversations that were put on disk are found again, whole or not at all, and never take more room than they may."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import numpy as np
import pytest

from localllm.kvdisk import cache as kv_cache
from localllm.kvdisk import folder as kv_folder
from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.entry import DiskEntry
from localllm.kvdisk.file import DiskCheckpoint
from localllm.kvdisk.folder import MIN_FREE_BYTES, Folder, Item, NoRoom, all_items, to_remove
from tests.kvdisks import (
    MIB,
    OTHER_PARTS,
    PARTS,
    TIMEOUT_S,
    calls_of,
    complaints,
    files,
    holds,
    known,
    opened,
    put,
    tokens_of,
)
from tests.waiting import until

A, AB, ABC, B = tokens_of(1), tokens_of(1, 2), tokens_of(1, 2, 3), tokens_of(9, 9)


class Door:
    """Holds every write of a file's content until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        write = kv_folder._write

        def wait_and_write(file: FileIO, data: memoryview, stopping: Callable[[], bool]) -> None:
            self.reached.set()
            while not self.open.wait(0.01):
                if stopping():
                    raise kv_folder.WritingStopped
            write(file, data, stopping)

        monkeypatch.setattr(kv_folder, "_write", wait_and_write)


def test_a_conversation_is_there_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as cache:
        put(cache, AB, b"two tokens", checkpoints=[DiskCheckpoint(1, b"one")])
    with opened(tmp_path) as cache:
        (entry,) = cache.entries
        assert entry.tokens.tolist() == [1, 2]
        assert (entry.positions, entry.num_bytes) == ((1,), 13)
        assert cache.status(entry) == "disk"
        saved = cache.load(entry)
        assert saved is not None
        assert bytes(saved.state) == b"two tokens"
        assert [(position, bytes(state)) for position, state in saved.checkpoints] == [(1, b"one")]


def test_it_can_be_loaded_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch)
    with opened(tmp_path) as cache:
        entry = cache.store(AB, state := b"state")
        assert entry is not None
        assert door.reached.wait(TIMEOUT_S)
        assert cache.status(entry) == "memory"
        saved = cache.load(entry)
        assert saved is not None
        assert saved.state is state
        assert not files(tmp_path)
        door.open.set()
        assert cache.flush(TIMEOUT_S)
        assert (cache.status(entry), len(files(tmp_path))) == ("disk", 1)


def test_what_the_disk_cannot_follow_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch)
    with opened(tmp_path, max_queue_bytes=10) as cache:
        assert cache.store(AB, b"a state of more than ten bytes")
        assert door.reached.wait(TIMEOUT_S)
        assert cache.store(B, b"another") is None
        assert known(cache) == [[1, 2]]
        door.open.set()
        assert cache.flush(TIMEOUT_S)
        assert put(cache, B, b"another")


def test_a_conversation_that_went_on_while_it_waited_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(monkeypatch)
    written = calls_of(monkeypatch, kv_folder.Folder, "store")
    with opened(tmp_path, max_queue_bytes=15) as cache:
        cache.store(B, b"first")
        assert door.reached.wait(TIMEOUT_S)
        cache.store(A, b"earlier")
        assert cache.store(AB, b"later")
        assert known(cache) == [[1, 2], [9, 9]]
        door.open.set()
        assert cache.flush(TIMEOUT_S)
        assert len(written) == 2


def test_the_beginning_of_a_conversation_is_replaced_by_all_of_it(tmp_path: Path) -> None:
    with opened(tmp_path) as cache:
        put(cache, A)
        put(cache, AB)
        put(cache, B)
        put(cache, ABC)
        assert known(cache) == [[1, 2, 3], [9, 9]]
        assert len(files(tmp_path)) == 2
        assert holds(cache, AB)
        assert not holds(cache, tokens_of(1, 3))


def test_what_is_there_already_is_not_written_again_unless_it_has_other_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = calls_of(monkeypatch, kv_folder.Folder, "store")
    with opened(tmp_path) as cache:
        entry = put(cache, AB)
        assert put(cache, AB) is entry
        assert len(written) == 1
        other = put(cache, AB, checkpoints=[DiskCheckpoint(1, b"one")])
        assert cache.entries == (other,)
        assert cache.status(entry) == "gone"
        assert len(files(tmp_path)) == 1


def test_prefetching_tells_when_the_state_is_there(tmp_path: Path) -> None:
    read: list[DiskEntry] = []
    done = threading.Event()

    def on_read(entry: DiskEntry) -> None:
        read.append(entry)
        done.set()

    with opened(tmp_path, on_read=on_read) as cache:
        entry = put(cache, AB, b"state")
        assert cache.status(entry) == "disk"
        assert cache.prefetch(entry)
        assert done.wait(TIMEOUT_S)
        assert (read, cache.status(entry)) == ([entry], "memory")
        files(tmp_path)[0].unlink()
        saved = cache.load(entry)
        assert saved is not None
        assert bytes(saved.state) == b"state"
        assert cache.load(entry) is None
        assert cache.status(entry) == "gone"
        assert not cache.prefetch(entry)


def test_loading_waits_for_what_is_just_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = calls_of(monkeypatch, kv_cache, "read")
    with opened(tmp_path) as cache:
        entry = put(cache, AB, b"x" * MIB)
        assert cache.prefetch(entry)
        assert cache.prefetch(entry)
        assert cache.load(entry) is not None
        assert read == [entry]


def test_what_was_prefetched_and_not_taken_makes_room(tmp_path: Path) -> None:
    done = threading.Semaphore(0)
    with opened(tmp_path, max_prefetched_bytes=10, on_read=lambda _: done.release()) as cache:
        first, second, third = (put(cache, tokens_of(n), b"seven b") for n in range(3))
        for entry in (first, second):
            assert cache.prefetch(entry)
            assert done.acquire(timeout=TIMEOUT_S)
        assert [cache.status(entry) for entry in (first, second)] == ["disk", "memory"]
        cache.drop(second)
        assert cache.status(second) == "disk"
        assert cache.prefetch(third)
        assert cache.load(third) is not None


def test_the_one_used_longest_ago_goes_first_whoever_used_it(tmp_path: Path) -> None:
    state = b"x" * MIB
    with opened(tmp_path, max_bytes=4 * MIB) as cache, opened(tmp_path, parts=OTHER_PARTS, max_bytes=4 * MIB) as other:
        first, second = put(cache, A, state), put(cache, B, state)
        foreign = put(other, A, state)
        assert cache.load(first) is not None
        assert cache.flush(TIMEOUT_S)
        put(other, B, state)
        assert cache.load(second) is None
        put(other, tokens_of(5), state)
        assert other.load(foreign) is None
        assert cache.load(first) is not None
        assert len(files(tmp_path)) == 3


def test_the_folder_never_holds_more_than_it_may_not_even_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = 0
    write = kv_folder._write

    def look_and_write(file: FileIO, data: memoryview, stopping: Callable[[], bool]) -> None:
        nonlocal largest
        largest = max(largest, sum(item.size_bytes for item in all_items(tmp_path)))
        write(file, data, stopping)

    monkeypatch.setattr(kv_folder, "_write", look_and_write)
    with opened(tmp_path, max_bytes=10_000) as cache:
        for number in range(20):
            put(cache, tokens_of(number), b"x" * (number * 400))
        assert cache.store(tokens_of(100), b"x" * 10_000) is None
    assert 5_000 < largest <= 10_000
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 10_000


def test_there_are_never_too_many_to_compare_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_folder, "MAX_CONVERSATIONS", 3)
    with opened(tmp_path) as cache:
        for number in range(5):
            put(cache, tokens_of(number))
        assert known(cache) == [[2], [3], [4]]
    assert len(files(tmp_path)) == 3


def test_some_of_the_disk_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 2 * MIN_FREE_BYTES
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(free))
    warnings: list[str] = []
    with opened(tmp_path, warn=complaints(warnings)) as cache:
        put(cache, A)
        free = MIN_FREE_BYTES - MIB
        cache.store(B, b"x")
        assert cache.flush(TIMEOUT_S)
        cache.store(ABC, b"x")
        assert cache.flush(TIMEOUT_S)
        assert known(cache) == [[1]]
    assert len(warnings) == 1


class Usage:
    def __init__(self, free: int) -> None:
        self.free = free


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES, errno.EROFS])
def test_a_disk_that_takes_no_more_costs_one_warning_and_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    warnings: list[str] = []
    with opened(tmp_path, warn=complaints(warnings)) as cache:
        put(cache, A)
        with monkeypatch.context() as patch:

            def fail(*_: object) -> None:
                raise OSError(number, os.strerror(number))

            patch.setattr(kv_folder, "_write", fail)
            for tokens in (AB, B):
                entry = cache.store(tokens, b"state")
                assert entry is not None
                assert cache.flush(TIMEOUT_S)
                assert cache.load(entry) is None
        assert known(cache) == [[1]]
        assert put(cache, B)  # there is room again
    assert len(warnings) == 1
    assert os.strerror(number) in warnings[0]
    assert not list(tmp_path.glob("*/tmp-*"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_costs_one_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    warnings: list[str] = []
    with opened(tmp_path / "kv", warn=complaints(warnings)) as cache:
        for tokens in (A, B):
            cache.store(tokens, b"state")
    tmp_path.chmod(0o700)
    assert len(warnings) == 1


def test_a_file_in_the_place_of_the_folder_costs_warnings_only(tmp_path: Path) -> None:
    (tmp_path / "kv").write_text("not a folder")
    warnings: list[str] = []
    with opened(tmp_path / "kv", warn=complaints(warnings)) as cache:
        for tokens in (A, B):
            cache.store(tokens, b"state")
        assert cache.flush(TIMEOUT_S)
        assert cache.entries == ()
    assert len(warnings) <= 2


def test_a_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "kv"
    with opened(root) as cache:
        entry = put(cache, A)
        shutil.rmtree(root)
        assert cache.load(entry) is None
        put(cache, B)
    with opened(root) as cache:
        assert known(cache) == [[9, 9]]


def test_a_conversation_that_was_deleted_is_saved_again(tmp_path: Path) -> None:
    with opened(tmp_path) as cache:
        entry = put(cache, AB)
        files(tmp_path)[0].unlink()
        cache.used(entry)
        assert cache.flush(TIMEOUT_S)
        assert cache.entries == ()
        put(cache, AB)
        assert len(files(tmp_path)) == 1


def test_a_damaged_state_is_not_given_out_but_removed(tmp_path: Path) -> None:
    warnings: list[str] = []
    with opened(tmp_path, warn=complaints(warnings)) as cache:
        entry = put(cache, AB, b"x" * 1000)
        (path,) = files(tmp_path)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        assert cache.load(entry) is None
        assert cache.entries == ()
    assert not path.exists()
    assert "damaged" in warnings[0]


def test_truncated_foreign_and_strange_files_are_not_believed(tmp_path: Path) -> None:
    with opened(tmp_path) as cache, opened(tmp_path, parts=OTHER_PARTS) as other:
        put(cache, AB)
        put(cache, B)
        put(other, tokens_of(7))
        folder, foreign = cache._folder.path, other._folder.path
    mine = sorted(folder.glob("*.kv"))
    mine[0].write_bytes(mine[0].read_bytes()[:-1])
    (stranger,) = foreign.glob("*.kv")
    (folder / stranger.name).write_bytes(stranger.read_bytes())
    (folder / f"{'0' * 32}.kv").write_bytes(b"something else altogether")
    (folder / "notes.txt").write_text("mine")
    warnings: list[str] = []
    with opened(tmp_path, warn=complaints(warnings)) as cache:
        assert len(cache.entries) == 1
        put(cache, tokens_of(3))
    assert len(warnings) == 1
    assert "(and 2 more)" in warnings[0]
    assert not mine[0].exists()
    assert (folder / "notes.txt").exists()
    assert (folder / stranger.name).exists()


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="links need a privilege")
def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    with opened(outside) as cache:
        put(cache, AB)
    (secret,) = files(outside)
    before = secret.read_bytes()
    root = tmp_path / "kv"
    own = root / secret.parent.name
    own.mkdir(parents=True)
    (own / secret.name).symlink_to(secret)
    with opened(root, max_bytes=1500) as cache:
        assert cache.entries == ()
        put(cache, AB, b"mine")
        put(cache, B, b"x" * 1200)
    assert secret.read_bytes() == before
    assert not list(own.glob(secret.name))
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / own.name).symlink_to(secret.parent)
    warnings: list[str] = []
    with opened(linked, warn=complaints(warnings)) as cache:
        assert cache.entries == ()
        cache.store(B, b"state")
    assert len(warnings) == 1
    assert os.listdir(secret.parent) == os.listdir(outside / own.name)
    assert files(outside) == [secret]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_only_the_owner_can_read_what_was_said(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with opened(tmp_path / "data" / "kv") as cache:
            put(cache, AB)
    finally:
        os.umask(before)
    for path in (tmp_path / "data" / "kv").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE((tmp_path / "data" / "kv").stat().st_mode) == 0o700


def test_two_caches_of_one_model_see_what_the_other_wrote(tmp_path: Path) -> None:
    with opened(tmp_path) as one, opened(tmp_path) as other:
        put(one, AB, b"from one")
        put(other, B, b"from the other")
        assert known(other) == [[1, 2], [9, 9]]
        put(one, tokens_of(4))
        assert known(one) == [[1, 2], [4], [9, 9]]
        for cache in (one, other):
            for entry in cache.entries:
                assert cache.load(entry) is not None


def test_what_others_add_and_remove_is_noticed_without_an_own_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_cache, "LOOK_S", 0.01)
    with opened(tmp_path) as reader, opened(tmp_path) as writer:
        assert known(reader) == []
        put(writer, AB, b"from the writer")
        until(lambda: known(reader) == [[1, 2]])
        (entry,) = reader.entries
        found = reader.load(entry)
        assert found is not None
        assert bytes(found.state) == b"from the writer"
        files(tmp_path)[0].unlink()
        until(lambda: reader.entries == ())


def test_a_folder_in_which_nothing_happens_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_cache, "LOOK_S", 0.001)
    with opened(tmp_path) as cache:
        put(cache, AB)
        looks, listings = calls_of(monkeypatch, Folder, "changed_ns"), calls_of(monkeypatch, Folder, "items")
        until(lambda: len(looks) > 20)
        assert len(listings) <= 1, "one for the own write"


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    from localllm.system import files as system_files

    with opened(tmp_path) as cache:
        put(cache, A)
        dead, living = (cache._folder.path / f"tmp-{name}" for name in ("dead", "living"))
        dead.write_bytes(b"half")
        living.write_bytes(b"half")
        fd = system_files.open_plain(living, os.O_RDWR)
        try:
            assert system_files.try_lock(fd, exclusive=True)
            put(cache, B)
            assert (dead.exists(), living.exists()) == (False, True)
        finally:
            os.close(fd)


def test_what_a_crash_left_and_what_is_too_much_by_now_goes_at_the_start(tmp_path: Path) -> None:
    with opened(tmp_path) as cache:
        for number in range(3):
            put(cache, tokens_of(number), b"x" * 1000)
        leftover = cache._folder.path / "tmp-0"
    leftover.write_bytes(b"half")
    with opened(tmp_path, max_bytes=1500) as cache:
        put(cache, tokens_of(2), b"x" * 1000)  # so that the start is over
        assert known(cache) == [[2]]
    assert len(files(tmp_path)) == 1
    assert not leftover.exists()


def test_closing_gives_up_what_takes_too_long_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(monkeypatch)
    cache = DiskCache(Folder(tmp_path, model="tiny", parts=PARTS, max_bytes=MIB))
    assert cache.store(A, b"state")
    assert door.reached.wait(TIMEOUT_S)
    assert not cache.close(timeout_s=0)
    assert cache.store(B, b"state") is None
    assert cache.entries == ()
    assert not files(tmp_path)
    assert not list(tmp_path.glob("*/tmp-*"))


def test_without_room_the_disk_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "kv", max_bytes=0) as cache:
        assert cache.store(A, b"state") is None
        assert cache.flush(0)
    assert not (tmp_path / "kv").exists()


def test_the_oldest_go_until_it_fits_and_unfinished_ones_never() -> None:
    def item(name: str, size_bytes: int, used_ns: int, is_temporary: bool = False) -> Item:
        return Item(Path(name), size_bytes, used_ns, is_temporary)

    items = [item("new", 30, 9), item("old", 30, 1), item("older", 10, 0), item("unfinished", 20, 0, True)]
    assert to_remove(items, 10, 100) == []
    assert [one.path.name for one in to_remove(items, 11, 100)] == ["older"]
    assert [one.path.name for one in to_remove(items, 80, 100)] == ["older", "old", "new"]
    with pytest.raises(NoRoom):
        to_remove(items, 81, 100)


def test_tokens_are_the_caches_own(tmp_path: Path) -> None:
    with opened(tmp_path) as cache:
        tokens = np.array([1, 2], np.int32)
        entry = put(cache, tokens)
        tokens[0] = 7
        assert entry.tokens.tolist() == [1, 2]
        assert not entry.tokens.flags.writeable
