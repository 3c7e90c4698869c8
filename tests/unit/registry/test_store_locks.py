"""Locks of the model store between real processes: shared downloads, loaded models, owners that die."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm.errors import Unavailable
from localllm.registry.disk import locks
from localllm.registry.disk.layout import Layout, id_of
from localllm.registry.disk.store import Store
from localllm.registry.names.model_names import CatalogName
from localllm.registry.remote import Cancelled
from tests.stores import digest_of, fetch, files_below, put

CONTENT = b"the model" * 100

SETUP = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from localllm.registry.disk.store import Store
from tests.stores import digest_of, fetch, put
store = Store(Path(sys.argv[1]))
def say(*what): print(*what, flush=True)
"""

CLAIMS = """
with store.claim("https://x.org/a.gguf") as partial:
    partial.write_bytes(b"x" * 5000)
    say("claimed")
    sys.stdin.readline()
    partial.write_bytes(b"y" * 5001)
"""

LOADS = """
opened = store.open_model(store.list()[0])
say("loaded", opened.path)
sys.stdin.readline()
opened.close()
say("closed")
sys.stdin.readline()
"""

PULLS = """
hold = store.hold("pull of big")
fetch(store, b"first shard", hold=hold)
say("fetched")
sys.stdin.readline()
"""

PULLS_TOO = """
from tests.unit.registry.test_store_locks import CONTENT
say("ready")
sys.stdin.readline()
digest = digest_of(CONTENT)
with store.claim(str(digest)) as partial:
    if store.has_blob(digest, len(CONTENT)):
        say("found")
    else:
        partial.write_bytes(CONTENT)
        store.publish(partial, digest)
        say("downloaded")
"""


class Child:
    """Another process at the same store."""

    def __init__(self, root: Path, code: str) -> None:
        repository = Path(__file__).parents[3]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", SETUP + code, str(root), str(repository)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def child(root: Path, code: str) -> Iterator[Child]:
    one = Child(root, code)
    try:
        yield one
    finally:
        one.kill()
        for pipe in (one.process.stdin, one.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


def locks_left(store: Store) -> set[str]:
    return files_below(store.root / "locks") - {"gate"}


def test_the_second_pull_waits_hears_of_the_progress_and_finds_what_the_first_one_left(store: Store) -> None:
    heard: list[int] = []
    with child(store.root, CLAIMS) as other:
        assert other.hear() == "claimed"

        def waiting(num_bytes: int) -> None:
            heard.append(num_bytes)
            other.go_on()

        with store.claim("https://x.org/a.gguf", waiting=waiting) as partial:
            assert partial.read_bytes() == b"y" * 5001
    assert heard[0] == 5000
    assert locks_left(store) == set()


def test_a_claim_of_a_killed_process_is_free_and_its_partial_is_kept(store: Store) -> None:
    with child(store.root, CLAIMS) as other:
        assert other.hear() == "claimed"
        report = store.gc(keep_partials_s=0)
        assert [item.reason for item in report.kept] == ["it is being downloaded"]
        other.kill()
        with store.claim("https://x.org/a.gguf") as partial:
            assert partial.stat().st_size == 5000
    assert [item.kind for item in store.gc(keep_partials_s=0).removed] == ["partial"]


def test_waiting_for_a_claim_can_be_cancelled(store: Store) -> None:
    cancel = threading.Event()
    with (
        store.claim("key"),
        pytest.raises(Cancelled, match="another process was downloading"),
        store.claim("key", cancel=cancel, waiting=lambda _: cancel.set()),
    ):
        pass
    with store.claim("key"):
        pass


def test_four_pulls_of_one_file_at_once_download_it_once(store: Store) -> None:
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(child(store.root, PULLS_TOO)) for _ in range(4)]
        assert [other.hear() for other in others] == ["ready"] * 4
        for other in others:
            other.go_on()
        assert sorted(other.hear() for other in others) == ["downloaded", "found", "found", "found"]
    assert store.blob_path(digest_of(CONTENT)).read_bytes() == CONTENT


def test_threads_of_one_process_exclude_each_other_too(store: Store) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(5):
            with store.claim("key"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 20


@pytest.mark.parametrize("shards", [1, 3])
def test_gc_leaves_what_another_process_has_loaded_until_it_closes_or_dies(store: Store, shards: int) -> None:
    put(store, "big", *[b"%d" % number for number in range(shards)])
    with child(store.root, LOADS) as one, child(store.root, LOADS) as another:
        path = Path(one.hear().split(" ", 1)[1])
        assert another.hear().endswith(str(path))
        store.remove(CatalogName("big"))
        another.kill()
        report = store.gc(keep_partials_s=0)
        assert report.removed == ()
        assert {item.reason for item in report.kept} == {f"big is loaded (process {one.process.pid})"}
        assert len(report.kept) == (1 if shards == 1 else shards + 1)
        assert path.exists()
        one.go_on()
        assert one.hear() == "closed"
        store.gc(keep_partials_s=0)  # unless that process was faster
        assert not path.exists()
        assert not list((store.root / "blobs").iterdir())
    assert locks_left(store) == set()


def test_gc_leaves_what_a_running_pull_has_fetched_until_that_dies(store: Store) -> None:
    with child(store.root, PULLS) as other:
        assert other.hear() == "fetched"
        (kept,) = store.gc(keep_partials_s=0).kept
        assert kept.reason == f"pull of big (process {other.process.pid})"
        other.kill()
    assert [item.id for item in store.gc(keep_partials_s=0).removed] == [str(digest_of(b"first shard"))]


def test_what_a_pull_found_in_the_store_stays_for_it(store: Store) -> None:
    put(store, "old", CONTENT)
    with store.hold("pull of new", digest_of(CONTENT)):
        store.remove(CatalogName("old"))
        assert store.gc(keep_partials_s=0).removed == ()
        put(store, "new", CONTENT)
    assert store.gc(keep_partials_s=0).removed == ()


def test_gc_waits_for_no_pull_and_says_so_when_the_store_is_not_to_be_had(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(store, CONTENT)
    with store.claim("key"), store.hold("pull of x"):
        assert [item.kind for item in store.gc(keep_partials_s=0).removed] == ["blob"]
    monkeypatch.setattr(locks, "GATE_TIMEOUT_S", 0.0)
    stuck = locks.try_lock(Layout(store.root).gate, exclusive=True)
    assert stuck is not None
    with pytest.raises(Unavailable, match="other processes have kept the model store"):
        fetch(store, CONTENT)
    stuck.release()
    fetch(store, CONTENT)


def test_a_lock_file_that_was_deleted_under_its_owner_locks_nobody_out_and_is_not_believed(store: Store) -> None:
    """`rm -r locks` while pulls run: the next one works on a new lock, not on one that nobody sees."""
    with store.claim("key"):
        pass
    layout = Layout(store.root)
    path = layout.claim(id_of("key"))
    real = os.open

    first = locks.try_lock(path, exclusive=True)
    assert first is not None

    def release_late(*args: object, **options: object) -> int:
        fd = real(*args, **options)  # type: ignore[arg-type]
        if first is not None:
            first.release(remove=True)  # between the other's opening and locking
        return fd

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", release_late)
        second = locks.try_lock(path, exclusive=True)
    assert second is not None
    assert locks.try_lock(path, exclusive=True) is None
    second.release(remove=True)
