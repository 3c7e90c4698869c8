"""The model store in one process: what is put is found, what is needed stays, what is wrong is said."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import stat
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import localllm
from localllm.errors import (
    DiskFull,
    InternalError,
    InvalidModelFile,
    InvalidParameter,
    LoadFailed,
    LocalLLMError,
    ModelNotFound,
)
from localllm.registry.disk.intake import How
from localllm.registry.disk.layout import Layout
from localllm.registry.disk.store import Store
from localllm.registry.manifest import MAX_MANIFEST_BYTES, StoredFile
from localllm.registry.names.model_names import CatalogName, Demo, PathName, parse
from localllm.registry.remote import Cancelled
from localllm.system import files as system_files
from tests.stores import contents_of, digest_of, fetch, files_below, manifest_of, put, shard_names

ABC = b"abc" * 1000
QWEN = CatalogName("qwen3", "0.6b")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data" / "models")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of another program."""
    path = tmp_path / "other" / "their model.gguf"
    path.parent.mkdir()
    path.write_bytes(ABC)
    return path


def manifest_path(store: Store) -> Path:
    (path,) = (store.root / "manifests").iterdir()
    return path


# --- Models ----------------------------------------------------------------------------------------------------------


def test_looking_into_a_store_that_is_not_there_makes_none(store: Store) -> None:
    assert store.list() == ()
    assert store.scan() == ((), ())
    assert store.find(QWEN) is None
    assert not store.has_blob(digest_of(ABC), len(ABC))
    assert store.gc().removed == ()
    assert store.free_bytes() > 0
    with pytest.raises(ModelNotFound, match=r"qwen3:0\.6b is not on this machine"):
        store.remove(QWEN)
    assert not store.root.parent.exists()


def test_what_was_put_is_found_listed_opened_and_read_only(store: Store) -> None:
    manifest = put(store, "qwen3:0.6b", ABC)
    put(store, "ollama:a:latest", b"a")
    assert store.find(QWEN) == manifest
    assert [one.name for one in store.list()] == ["ollama:a:latest", "qwen3:0.6b"]
    with store.open_model(manifest) as opened:
        assert opened.path == store.blob_path(digest_of(ABC))
        assert opened.path.read_bytes() == ABC
        assert opened.projector is None
        assert not opened.path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    assert manifest_path_names(store) == {
        "ollama-a-latest-" + Layout(store.root).manifest(parse("ollama:a")).name[-17:],
        Layout(store.root).manifest(QWEN).name,
    }
    assert files_below(store.root / "partials") == set()


def manifest_path_names(store: Store) -> set[str]:
    return {path.name for path in (store.root / "manifests").iterdir()}


def test_a_second_name_costs_nothing_and_outlives_the_first(store: Store) -> None:
    put(store, "qwen3:0.6b", ABC)
    copied = store.copy(QWEN, CatalogName("mine"))
    assert copied.name == "mine"
    assert store.remove(QWEN).name == "qwen3:0.6b"
    assert store.gc().removed == ()
    with store.open_model(copied) as opened:
        assert opened.path.read_bytes() == ABC
    with pytest.raises(ModelNotFound):
        store.copy(QWEN, CatalogName("again"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("hf.co/User/Repo:Q4_K_M", "hf.co/user/repo:q4_k_m", True),
        ("hf.co/user/repo:Q4@main", "hf.co/user/repo:Q4@Main", False),
        ("hf:User/repo/a.gguf", "hf:user/repo/a.gguf", True),
        ("hf:user/repo/a.gguf", "hf:user/repo/A.gguf", False),
        ("ollama:Me/Mine:Q4", "ollama:me/mine:q4", True),
        ("https://example.org/a.gguf", "https://example.org/A.gguf", False),
        ("qwen3:0.6b", "qwen3", False),
        ("hf.co/a/b-c:d", "hf.co/a-b/c:d", False),
    ],
)
def test_names_differ_by_case_where_it_means_something_whatever_the_file_system_says(
    store: Store, one: str, other: str, same: bool
) -> None:
    put(store, one, b"one")
    put(store, other, b"other")
    assert [model.name for model in store.list()] == [other] if same else len(store.list()) == 2
    found = store.find(parse(one))
    assert found is not None
    assert found.name == (other if same else one)
    assert len({name.lower() for name in manifest_path_names(store)}) == len(store.list())


NAME_TEXT = st.text("aAbB0._-:/@", min_size=1, max_size=30)


@given(st.sampled_from(["", "hf.co/", "hf:", "ollama:", "https://x.org/"]), NAME_TEXT, st.sampled_from(["", ".gguf"]))
def test_no_name_leads_out_of_the_folder_or_is_a_device(prefix: str, text: str, ending: str) -> None:
    layout = Layout(Path("/store"))
    try:
        path = layout.manifest(parse(prefix + text + ending))
    except InvalidParameter:
        return
    assert path.parent == layout.manifests
    assert set(path.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert len(path.name) <= 100
    assert len(path.name.split(".json")[0].rpartition("-")[2]) == 12


@pytest.mark.parametrize("name", [Demo(), PathName("./x.gguf")])
def test_a_path_is_no_name_to_store_under(store: Store, name: Demo | PathName) -> None:
    with pytest.raises(InvalidParameter, match="choose a name like"):
        put(store, str(name), ABC)


def test_a_model_with_a_missing_or_cut_off_file_is_not_put(store: Store) -> None:
    lacking = StoredFile(file_name="b.gguf", size_bytes=3, digest=digest_of(b"xyz"))
    with pytest.raises(ModelNotFound, match=r"lacks b\.gguf.*is not in the store.*localllm pull qwen3:0\.6b"):
        store.put(manifest_of("qwen3:0.6b", fetch(store, ABC), lacking))
    cut = msgspec.structs.replace(fetch(store, ABC), size_bytes=len(ABC) + 1)
    with pytest.raises(LoadFailed, match="has 3,000 bytes and should have 3,001"):
        store.put(manifest_of("qwen3:0.6b", cut))
    assert store.list() == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "ollama:qwen3"}, "canonical form is 'ollama:qwen3:latest'"),
        ({"license_text": ("x" * MAX_MANIFEST_BYTES,)}, "the limit is 4,194,304"),
        ({"files": ()}, "names 0 files"),
        ({"source": "/models/\udcff.gguf"}, "not valid Unicode"),
    ],
)
def test_a_manifest_that_could_not_be_read_again_is_not_written(
    store: Store, changes: dict[str, object], reason: str
) -> None:
    manifest = msgspec.structs.replace(manifest_of("qwen3:0.6b", fetch(store, ABC)), **changes)
    with pytest.raises(LocalLLMError, match=reason):
        store.put(manifest)
    assert store.list() == ()


def test_two_files_of_a_model_do_not_share_a_name(store: Store) -> None:
    files = [fetch(store, content, file_name=name) for content, name in ((b"1", "a.gguf"), (b"2", "A.gguf"))]
    with pytest.raises(InvalidModelFile, match="two files with the same name"):
        store.put(manifest_of("qwen3:0.6b", *files))


@pytest.mark.parametrize("damage", ["cut", "empty", "folder", "link", "renamed", "newer", "pipe"])
def test_a_damaged_manifest_is_told_and_spoils_neither_the_list_nor_the_blobs(store: Store, damage: str) -> None:
    put(store, "qwen3:0.6b", ABC)
    path = manifest_path(store)
    put(store, "fine", b"fine")
    raw = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(raw[:-20])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "folder":
        path.mkdir()
    elif damage == "link":
        path.symlink_to("/dev/zero")
    elif damage == "renamed":
        path = path.with_name("something.json")
        path.write_bytes(raw)
    elif damage == "newer":
        path.write_bytes(raw.replace(b"{", b'{"version": 2,', 1))
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path)
    models, damaged = store.scan()
    assert [model.name for model in models] == ["fine"]
    assert [one.path for one in damaged] == [str(path)]
    assert path.name in damaged[0].reason
    if damage != "renamed":
        with pytest.raises(InvalidModelFile, match="not a manifest"):
            store.find(QWEN)
    store.remove(CatalogName("fine"))
    report = store.gc(keep_partials_s=0)
    assert report.damaged == damaged
    if damage in ("renamed", "newer"):  # what it needs can still be read
        assert not report.is_blocked
        assert [item.id for item in report.removed] == [str(digest_of(b"fine"))]
    else:
        assert report.removed == ()
        assert {item.reason for item in report.kept} == {f"{path} cannot be read and might need it"}
    assert store.has_blob(digest_of(ABC), len(ABC))


def test_files_of_editors_and_file_managers_are_no_models(store: Store) -> None:
    put(store, "qwen3:0.6b", ABC)
    for name in (".DS_Store", "._x.json", "Thumbs.db", "x.json~", ".tmp-0123.json"):
        (store.root / "manifests" / name).write_bytes(b"?")
    models, damaged = store.scan()
    assert len(models) == 1
    assert damaged == ()


def test_listing_and_opening_a_huge_model_reads_none_of_it(store: Store) -> None:
    digest, size_bytes = digest_of(b"40 GB"), 40 * 1024**3
    with store.claim(str(digest)) as partial:
        partial.touch()
        os.truncate(partial, size_bytes)
        store.publish(partial, digest)
    store.put(manifest_of("huge", StoredFile(file_name="h.gguf", size_bytes=size_bytes, digest=digest)))
    with store.open_model(store.list()[0]) as opened:
        assert opened.path.stat().st_size == size_bytes


# --- Blobs -----------------------------------------------------------------------------------------------------------


def test_a_partial_has_one_place_and_a_place_of_its_own(store: Store) -> None:
    assert store.partial("https://x.org/a.gguf") == Store(store.root).partial("https://x.org/a.gguf")
    assert store.partial("https://x.org/a.gguf") != store.partial("https://x.org/A.gguf")
    assert store.partial("../../x").parent == store.root / "partials"


def test_publishing_what_is_there_already_removes_the_partial_and_leaves_the_blob(store: Store) -> None:
    fetch(store, ABC)
    blob = store.blob_path(digest_of(ABC))
    before = blob.stat()
    partial = store.partial("https://x.org/same-content.gguf")
    partial.write_bytes(ABC)
    assert store.publish(partial, digest_of(ABC)) == blob
    assert (blob.stat().st_ino, blob.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not partial.exists()


def test_publishing_repairs_a_blob_that_was_cut_off(store: Store) -> None:
    fetch(store, ABC)
    blob = store.blob_path(digest_of(ABC))
    blob.chmod(0o644)
    blob.write_bytes(ABC[:10])
    assert not store.has_blob(digest_of(ABC), len(ABC))
    fetch(store, ABC)
    assert blob.read_bytes() == ABC


def test_a_publication_that_was_interrupted_leaves_a_partial_that_can_be_written(store: Store) -> None:
    partial = store.partial("key")
    partial.write_bytes(ABC)
    partial.chmod(0o444)
    assert store.partial("key").read_bytes() == ABC
    assert os.stat(partial).st_mode & stat.S_IWUSR


def test_links_planted_in_the_store_are_not_written_through(store: Store, outside: Path) -> None:
    """A symbolic or hard link in the place of a partial, temporary file, blob or view would be a write elsewhere."""
    partial = store.partial("key")
    for plant in (os.symlink, os.link):
        plant(outside, partial)
        assert not store.partial("key").exists()
    partial.symlink_to(outside)
    with pytest.raises(InternalError, match="not a regular file"):
        store.publish(partial, digest_of(ABC))
    (store.root / "blobs").mkdir()
    store.blob_path(digest_of(b"new")).symlink_to(outside)
    fetch(store, b"new")
    temporary = Layout(store.root).temporary(f"bytes:{digest_of(b'more')}")
    temporary.symlink_to(outside)
    store.add_bytes(b"more")
    manifest = put(store, "big", b"1", b"2")
    with store.open_model(manifest) as opened:
        view = opened.path.parent
    shutil.rmtree(view)
    view.symlink_to(outside.parent)
    with store.open_model(manifest) as opened:
        assert contents_of(opened.path, 2) == [b"1", b"2"]
    assert outside.read_bytes() == ABC
    assert outside.stat().st_mode & stat.S_IWUSR
    assert files_below(outside.parent) == {outside.name}


def test_verify_names_the_damaged_file_and_a_discarded_one_can_be_fetched_anew(store: Store) -> None:
    manifest = put(store, "big", b"one", b"two", b"three")
    blob = store.blob_path(digest_of(b"two"))
    blob.chmod(0o644)
    blob.write_bytes(b"TWO")
    heard: list[int] = []
    (damaged,) = store.verify(manifest, on_bytes=heard.append)
    assert sum(heard) == manifest.size_bytes
    assert damaged.file == manifest.files[1]
    assert damaged.path == str(blob)
    assert "is damaged: its sha256 is" in damaged.reason
    store.discard(damaged.file.digest)
    assert "is not in the store" in store.verify(manifest)[0].reason
    fetch(store, b"two")
    assert store.verify(manifest) == ()
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        store.verify(manifest, cancel=cancel)


def test_bytes_become_a_file_of_a_model(store: Store) -> None:
    file = store.add_bytes(ABC, file_name="p.gguf", role="projector")
    manifest = manifest_of("seer", fetch(store, b"model"), file)
    store.put(manifest)
    with store.open_model(manifest) as opened:
        assert opened.projector == store.blob_path(digest_of(ABC))
    assert files_below(store.root / "partials") == set()


# --- Files of others -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["reference", "hardlink", "copy", "auto"])
def test_a_local_file_is_taken_in_and_stays_as_it_was(store: Store, outside: Path, how: How) -> None:
    before = outside.stat()
    heard: list[int] = []
    file = store.add_file(outside, how=how, digest=digest_of(ABC), on_bytes=heard.append)
    assert sum(heard) == len(ABC)
    assert (file.digest, file.size_bytes, file.file_name) == (digest_of(ABC), len(ABC), "their model.gguf")
    assert (file.path is not None) == (how == "reference")
    manifest = manifest_of("mine", file)
    store.put(manifest)
    assert store.gc(keep_partials_s=0).removed == ()
    with store.open_model(manifest) as opened:
        assert opened.path.read_bytes() == ABC
    after = outside.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_size) == (before.st_mode, before.st_mtime_ns, before.st_size)
    assert len(store.add_file(outside, how=how).digest.hex) == 64


@pytest.mark.parametrize("how", ["hardlink", "reference"])
@pytest.mark.parametrize("change", ["written", "appended", "deleted"])
def test_a_file_of_others_that_changed_is_told_with_its_path_when_it_is_opened(
    store: Store, outside: Path, how: How, change: str
) -> None:
    manifest = manifest_of("mine", store.add_file(outside, how=how))
    store.put(manifest)
    if change == "deleted":
        outside.unlink()
    else:
        with open(outside, "r+b" if change == "written" else "ab") as file:
            file.write(b"!")
        os.utime(outside, ns=(1, 1))
    if (how, change) == ("hardlink", "deleted"):
        with store.open_model(manifest) as opened:
            assert opened.path.read_bytes() == ABC
        return
    with pytest.raises(LocalLLMError, match=r"mine .*(localllm import|localllm pull)") as caught:
        store.open_model(manifest)
    assert isinstance(caught.value, ModelNotFound if change == "deleted" else LoadFailed)
    assert change == "appended" or str(outside) in caught.value.message
    assert [file for file in files_below(store.root / "locks") if file != "gate"] == []


def test_a_pull_does_not_trust_a_hard_link_that_was_written_to(store: Store, outside: Path) -> None:
    file = store.add_file(outside, how="hardlink")
    store.put(manifest_of("mine", file))
    outside.write_bytes(ABC[:-1] + b"!")
    os.utime(outside, ns=(1, 1))
    assert not store.has_blob(file.digest, len(ABC))
    pulled = put(store, "pulled", ABC)
    with store.open_model(pulled) as opened:
        assert opened.path.read_bytes() == ABC
    assert outside.read_bytes() == ABC[:-1] + b"!"
    assert store.verify(pulled) == ()


def test_a_referenced_file_that_vanished_does_not_matter_once_its_content_was_pulled(
    store: Store, outside: Path
) -> None:
    mine = manifest_of("mine", store.add_file(outside, how="reference"))
    store.put(mine)
    outside.unlink()
    put(store, "pulled", ABC)
    with store.open_model(mine) as opened:
        assert opened.path == store.blob_path(digest_of(ABC))


def test_a_file_whose_content_is_in_the_store_is_not_taken_in_again(store: Store, outside: Path) -> None:
    fetch(store, ABC)
    for how in ("reference", "hardlink", "copy", "auto"):
        assert store.add_file(outside, how=how).path is None
    assert outside.stat().st_nlink == 1


def test_where_nothing_can_be_linked_auto_refers_and_hardlink_says_so(
    store: Store, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(InvalidParameter, match=r"as a hardlink: Invalid cross-device link; add it by reference"):
        store.add_file(outside, how="hardlink")
    file = store.add_file(outside, how="auto")
    assert file.path == str(outside)
    assert store.locate(manifest_of("mine", file), file) == outside


def test_where_files_can_be_cloned_the_clone_is_ours(
    store: Store, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(source_fd: int, target: Path) -> None:
        target.write_bytes(os.pread(source_fd, len(ABC), 0))

    monkeypatch.setattr(system_files, "clone_file", clone)
    file = store.add_file(outside, how="auto")
    blob = store.blob_path(file.digest)
    assert file.path is None
    assert not blob.stat().st_mode & stat.S_IWUSR
    outside.write_bytes(b"changed")
    assert store.has_blob(file.digest, len(ABC))
    assert blob.read_bytes() == ABC


@pytest.mark.parametrize("how", ["reference", "hardlink", "copy", "auto"])
def test_a_file_that_is_not_what_it_should_be_is_refused_and_leaves_nothing(
    store: Store, outside: Path, how: How
) -> None:
    with pytest.raises(InvalidModelFile, match=r"their model\.gguf is damaged: its sha256 is"):
        store.add_file(outside, how=how, digest=digest_of(b"other"))
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        store.add_file(outside, how=how, cancel=cancel)
    assert {name for name in files_below(store.root) if name != os.path.join("locks", "gate")} == set()


@pytest.mark.parametrize("how", ["copy", "auto"])
def test_a_file_that_is_still_being_written_is_refused(store: Store, outside: Path, how: How) -> None:
    def write_on(_: int) -> None:
        with open(outside, "ab") as file:
            file.write(b"more")

    with pytest.raises(LoadFailed, match="changed while it was being read"):
        store.add_file(outside, how=how, on_bytes=write_on)


def test_folders_pipes_and_what_is_not_there_are_refused_at_once(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="there is no file"):
        store.add_file(tmp_path / "none.gguf")
    with pytest.raises(InvalidParameter):
        store.add_file(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidParameter, match="not a regular file"):
            store.add_file(tmp_path / "pipe")


def test_a_full_disk_forbids_neither_opening_a_model_nor_protecting_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty file takes no block, so what is needed stands in the names of some."""
    manifest = put(store, "big", b"1", b"2")

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        opened = store.open_model(manifest)
    store.remove(CatalogName("big"))
    report = store.gc(keep_partials_s=0, dry_run=True)
    assert report.removed == ()
    assert {item.reason for item in report.kept} == {f"process {os.getpid()} uses it"}
    assert contents_of(opened.path, 2) == [b"1", b"2"]
    opened.close()
    assert [file for file in files_below(store.root / "locks") if file != "gate"] == []
    assert len(store.gc(keep_partials_s=0).removed) == 3


# --- Split models ----------------------------------------------------------------------------------------------------


def test_the_shards_of_a_split_model_lie_under_their_own_names(store: Store) -> None:
    manifest = put(store, "big", b"1", b"2", b"3")
    with store.open_model(manifest) as opened:
        assert opened.path.parent.parent == store.root / "views"
        assert contents_of(opened.path, 3) == [b"1", b"2", b"3"]
        again = store.open_model(store.copy(CatalogName("big"), CatalogName("second")))
        assert again.path == opened.path
        again.close()
    assert store.gc(keep_partials_s=0).removed == ()
    store.remove(CatalogName("big"))
    store.remove(CatalogName("second"))
    report = store.gc()
    assert sorted(item.kind for item in report.removed) == ["blob", "blob", "blob", "view"]
    assert report.freed_bytes == 3
    assert list((store.root / "views").iterdir()) == []


def test_a_half_made_or_spoilt_view_is_completed_when_it_is_opened(store: Store) -> None:
    manifest = put(store, "big", b"1", b"2", b"3")
    with store.open_model(manifest) as opened:
        folder = opened.path.parent
    (folder / shard_names(3)[0]).unlink()
    (folder / shard_names(3)[1]).unlink()
    (folder / shard_names(3)[1]).write_bytes(b"spoilt")
    (folder / shard_names(3)[2]).unlink()
    (folder / shard_names(3)[2]).symlink_to("/nowhere")
    with store.open_model(manifest) as opened:
        assert contents_of(opened.path, 3) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("links", ["symlink", None])
def test_without_hard_links_a_view_has_symbolic_ones_and_without_those_it_is_an_error(
    store: Store, links: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    manifest = put(store, "big", b"1", b"2")
    monkeypatch.setattr(os, "link", refuse)
    if links is None:
        monkeypatch.setattr(os, "symlink", refuse)
        with pytest.raises(LoadFailed, match=r"needs links.*LOCALLLM_HOME"):
            store.open_model(manifest)
        return
    with store.open_model(manifest) as opened:
        assert opened.path.is_symlink()
        assert contents_of(opened.path, 2) == [b"1", b"2"]
    store.remove(CatalogName("big"))
    assert store.gc(keep_partials_s=0).freed_bytes == 2
    assert files_below(store.root) == {os.path.join("locks", "gate")}


def test_referenced_shards_that_lie_together_are_opened_where_they_lie(store: Store, tmp_path: Path) -> None:
    files = []
    for number, name in enumerate(shard_names(2)):
        (tmp_path / name).write_bytes(b"%d" % number)
        files.append(store.add_file(tmp_path / name, how="reference"))
    manifest = manifest_of("big", *files)
    store.put(manifest)
    with store.open_model(manifest) as opened:
        assert opened.path == tmp_path / shard_names(2)[0]
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / shard_names(2)[1]).rename(moved / "odd-name")
    files[1] = msgspec.structs.replace(files[1], path=str(moved / "odd-name"))
    manifest = manifest_of("big", *files)
    store.put(manifest)
    with store.open_model(manifest) as opened:
        assert contents_of(opened.path, 2) == [b"0", b"1"]


# --- Disk space ------------------------------------------------------------------------------------------------------


def test_gc_says_what_would_go_before_it_goes(store: Store) -> None:
    put(store, "qwen3:0.6b", ABC)
    put(store, "other", b"other")
    store.remove(QWEN)
    before = files_below(store.root)
    planned = store.gc(dry_run=True)
    assert [(item.kind, item.id) for item in planned.removed] == [("blob", str(digest_of(ABC)))]
    assert planned.freed_bytes == len(ABC)
    assert files_below(store.root) == before
    done = store.gc()
    assert (done.removed, done.freed_bytes) == (planned.removed, len(ABC))
    assert store.has_blob(digest_of(b"other"), 5)
    assert not store.has_blob(digest_of(ABC), len(ABC))


def test_gc_keeps_unfinished_downloads_for_a_week_and_then_not(store: Store) -> None:
    partial = store.partial("https://x.org/a.gguf")
    partial.write_bytes(ABC)
    notes = partial.with_name(partial.name + ".json")
    notes.write_text("{}")
    fetch(store, b"the first shard of three")
    report = store.gc()
    assert report.removed == ()
    assert {(item.kind, item.reason) for item in report.kept} == {
        ("partial", "it is recent, so its pull can be resumed"),
        ("blob", "it was fetched for a model that is still incomplete"),
    }
    for path in (store.root / "partials").iterdir():
        os.utime(path, (1, 1))
    os.utime(notes)  # the downloader has just noted something
    assert [item.kind for item in store.gc().removed] == ["blob"]
    os.utime(notes, (1, 1))
    assert [item.kind for item in store.gc().removed] == ["partial"]
    assert files_below(store.root) == {os.path.join("locks", "gate")}


def test_gc_frees_nothing_for_a_hard_link_to_a_file_that_stays(store: Store, outside: Path) -> None:
    store.put(manifest_of("mine", store.add_file(outside, how="hardlink")))
    store.remove(CatalogName("mine"))
    report = store.gc()
    assert (len(report.removed), report.freed_bytes) == (1, 0)
    assert outside.read_bytes() == ABC
    assert files_below(store.root) == {os.path.join("locks", "gate")}


def test_gc_leaves_alone_what_the_store_did_not_make(store: Store) -> None:
    put(store, "qwen3:0.6b", ABC)
    mine = [store.root / folder / "mine.txt" for folder in ("", "blobs", "manifests", "partials", "views", "locks")]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    store.gc(keep_partials_s=0)
    assert all(path.exists() for path in mine)


def test_gc_report_is_plain_data(store: Store) -> None:
    put(store, "qwen3:0.6b", ABC)
    store.remove(QWEN)
    assert msgspec.json.decode(msgspec.json.encode(store.gc()))["removed"][0]["kind"] == "blob"


def test_what_does_not_fit_is_refused_with_both_numbers(store: Store) -> None:
    free = store.free_bytes()
    store.require_room(1)
    with pytest.raises(DiskFull, match="LOCALLLM_HOME") as caught:
        store.require_room(free * 2)
    assert caught.value.details["needed_bytes"] == free * 2
    assert isinstance(caught.value.details["free_bytes"], int)


def test_a_full_disk_is_told_and_leaves_the_old_model(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = put(store, "qwen3:0.6b", ABC)
    other = fetch(store, b"other")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DiskFull, match="is full"):
            store.put(manifest_of("qwen3:0.6b", other))
        with pytest.raises(DiskFull):
            store.add_bytes(b"third")
    assert store.find(QWEN) == manifest
    assert not any(name.startswith(".tmp-") for name in manifest_path_names(store))
    assert store.add_bytes(b"third").size_bytes == 5


def test_a_model_on_a_disk_that_cannot_be_written_is_opened(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = put(store, "qwen3:0.6b", ABC)

    def refuse(path: Path, flags: int, mode: int = 0o666) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(system_files, "open_plain", refuse)
    with store.open_model(manifest) as opened:
        assert opened.path.read_bytes() == ABC


# --- The house -------------------------------------------------------------------------------------------------------


def test_only_the_layout_makes_a_path_of_a_digest() -> None:
    """CVE-2024-37032 came back in a second download client that had its own way to do it (CVE-2026-7020)."""
    package = Path(localllm.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == "file_name" and "digest" in ast.unparse(node.value):
                found.add(path.relative_to(package).as_posix())
    assert found <= {"registry/disk/layout.py", "registry/foreign/ollama.py"}  # the latter reads in Ollama's own store
    assert "registry/disk/layout.py" in found
