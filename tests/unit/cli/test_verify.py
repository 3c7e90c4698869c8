"""Bit-rot: `localllm verify` finds it and the next pull mends it; a damaged manifest is named, and in nobody's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localllm.cli.app import run_app
from localllm.errors import InvalidModelFile, LoadFailed, ModelNotFound
from localllm.registry import listing
from localllm.registry.again import again
from localllm.registry.disk import locks
from localllm.registry.disk.layout import Layout
from localllm.registry.disk.store import Store
from localllm.registry.header_reading import read_info
from localllm.registry.listing import store_of
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names.model_names import parse
from localllm.registry.resolve import resolve
from localllm.registry.verifying import verify, works_of
from tests.homes import measured_once
from tests.registry.hub_server import HubServer, Repo
from tests.stores import CREATED_AT, digest_of, put

NAME = "hf.co/ann/tiny-GGUF:F32"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hub(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer({"ann/tiny-GGUF": Repo({"tiny-F32.gguf": tiny_model.read_bytes()})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def run(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """A command: its exit code, stdout and stderr."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALLLM_GPU_LAYERS", "0")  # no process lists the devices

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["localllm", *words])
        code = run_app()
        return code, *capfd.readouterr()

    with measured_once(home, tmp_path):
        yield run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_of(tmp_path)


def flip(path: Path, offset: int) -> None:
    """One bit, and the same size."""
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def blob_of(store: Store, name: str = "hf.co/ann/tiny-GGUF:F32") -> Path:
    (model,) = [one for one in store.list() if one.name == name]
    return store.blob_path(model.files[0].digest)


def manifest_path(store: Store, name: str) -> Path:
    (path,) = [one for one in (store.root / "manifests").iterdir() if json.loads(one.read_bytes())["name"] == name]
    return path


def test_a_flipped_bit_is_found_set_aside_and_fetched_again(run: Run, hub: HubServer, store: Store) -> None:
    assert run("pull", NAME)[0] == 0
    assert run("verify")[0] == 0
    blob = blob_of(store)
    good = blob.read_bytes()
    flip(blob, -1)
    code, _, err = run("verify", NAME)
    assert code == 1
    assert "is damaged: its sha256 is" in err
    assert f"localllm pull {NAME}" in err
    assert not blob.exists()
    with pytest.raises(ModelNotFound, match="was damaged and has been set aside"):
        resolve(NAME, store.root.parent)
    assert run("pull", NAME)[0] == 0
    assert blob.read_bytes() == good
    assert run("verify")[0] == 0
    assert [item.kind for item in store.gc().removed] == ["damaged"]


def test_a_cut_file_is_set_aside_too_and_the_report_is_data(run: Run, store: Store) -> None:
    put(store, "mine", b"12345")
    put(store, "good", b"good")
    blob = blob_of(store, "mine")
    blob.chmod(0o644)
    blob.write_bytes(b"123")
    code, out, _ = run("verify", "--json")
    assert code == 1
    told = json.loads(out)
    assert sorted(told["verified"]) == ["good", "mine"]
    assert [(one["model"], one["set_aside"]) for one in told["damaged"]] == [("mine", True)]
    assert not blob.exists()
    assert run("verify", "good")[0] == 0


def test_what_is_not_here_cannot_be_verified(run: Run) -> None:
    assert run("verify", "mine")[0] == 3
    assert run("verify", "demo")[0] == 2


def test_a_content_of_two_models_is_read_once_and_many_threads_find_the_same(store: Store) -> None:
    for number in range(20):
        put(store, f"m{number}", b"%d" % number * 100_000)
    store.copy(parse("m1"), parse("again"))
    flip(blob_of(store, "m7"), 0)
    heard: list[int] = []
    found = verify(works_of(store.list()), store, on_bytes=heard.append, cancel=threading.Event())
    assert [manifest.name for manifest, _ in found] == ["m7"]
    assert sum(heard) == sum(one.size_bytes for one in store.list() if one.name != "again")


def test_every_model_that_shares_a_damaged_file_is_named(run: Run, store: Store) -> None:
    put(store, "mine", b"12345")
    store.copy(parse("mine"), parse("yours"))
    flip(blob_of(store, "mine"), 0)
    code, out, _ = run("verify", "--json")
    assert code == 1
    assert [(one["model"], one["set_aside"]) for one in json.loads(out)["damaged"]] == [("mine", True), ("yours", True)]
    code, _, err = run("verify")
    assert code == 1
    assert [line.split(":")[1].strip() for line in err.splitlines()] == ["mine", "yours"]


def test_a_blob_that_was_replaced_while_it_was_read_stays(store: Store) -> None:
    manifest = put(store, "mine", b"12345")
    blob = blob_of(store, "mine")
    flip(blob, 0)

    def mended(_: int) -> None:
        new = blob.with_name("new")
        new.write_bytes(b"12345")
        new.replace(blob)

    damage = store.verify_file(manifest.files[0], mended, set_aside=True)
    assert damage is not None
    assert not damage.is_set_aside
    assert blob.read_bytes() == b"12345"


def test_a_damaged_header_is_noticed_at_the_load_with_what_to_type(run: Run, hub: HubServer, store: Store) -> None:
    assert run("pull", NAME)[0] == 0
    flip(blob_of(store), 0)
    file = resolve(NAME, store.root.parent)
    with pytest.raises(InvalidModelFile, match=rf"localllm verify {NAME} .* localllm pull {NAME}"):
        read_info(file)
    file.release()
    code, _, err = run("show", NAME)
    assert code != 0
    assert f"localllm verify {NAME}" in err


def test_a_cut_file_is_noticed_at_the_load_with_what_to_type(run: Run, hub: HubServer, store: Store) -> None:
    assert run("pull", NAME)[0] == 0
    blob = blob_of(store)
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(LoadFailed, match=f"localllm pull {NAME}"):
        resolve(NAME, store.root.parent)


@pytest.mark.parametrize(
    ("name", "source", "pulled"),
    [
        ("hf.co/a/b:Q4_0", "hf.co/a/b@" + "0" * 40, "hf.co/a/b:Q4_0"),
        ("mine", "hf.co/a/b@" + "0" * 40, "hf.co/a/b:Q8_0@" + "0" * 40),
        ("mine", "ollama:llama3:latest@sha256:12", "ollama:llama3:latest"),
        ("mine", "https://example.org/a.gguf", "https://example.org/a.gguf"),
        ("mine", "/some/file.gguf", None),
        ("mine", None, None),
    ],
)
def test_the_remedy_names_what_can_be_pulled(name: str, source: str | None, pulled: str | None) -> None:
    file = StoredFile(file_name="a.gguf", size_bytes=1, digest=digest_of(b"1"))
    said = again(Manifest(name=name, source=source, created_at=CREATED_AT, files=(file,), quant="Q8_0"))
    assert said.endswith(f"localllm pull {pulled}") if pulled else "localllm create" in said


# --- Damaged manifests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("damage", ["cut", "newer"])
def test_a_damaged_manifest_is_listed_and_removed_by_its_name(
    run: Run, store: Store, damage: str, by_file: bool
) -> None:
    put(store, "mine", b"mine")
    put(store, "fine", b"fine")
    path = manifest_path(store, "mine")
    raw = path.read_bytes()
    path.write_bytes(raw[:-40] if damage == "cut" else raw.replace(b"{", b'{"version": 2,', 1))
    code, out, err = run("list")
    assert code == 1
    assert "damaged" in next(line for line in out.splitlines() if line.startswith("mine "))
    assert "localllm rm mine" in err
    assert [model.id for model in listing.available(store.root.parent)] == ["demo", "fine"]
    with pytest.raises(InvalidModelFile, match="localllm rm mine"):
        resolve("mine", store.root.parent)
    code, _, err = run("rm", path.stem if by_file else "mine")
    assert code == 0, err
    assert run("list")[0] == 0
    assert not store.blob_path(digest_of(b"mine")).exists()
    assert store.blob_path(digest_of(b"fine")).exists()


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_model_that_lacks_a_file_is_listed_as_damaged_with_the_remedy(
    run: Run, hub: HubServer, store: Store, damage: str
) -> None:
    put(store, "fine", b"fine")
    assert run("pull", NAME)[0] == 0
    blob = blob_of(store)
    size_bytes = blob.stat().st_size
    blob.chmod(0o644)
    os.truncate(blob, 1000)
    if damage == "missing":
        blob.unlink()
    code, out, err = run("list")
    assert code == 1
    assert "damaged" in next(line for line in out.splitlines() if line.startswith(NAME))
    assert f"{NAME} cannot be used: " in err
    assert f"localllm pull {NAME}" in err
    code, out, _ = run("list", "--json")
    assert code == 1
    problems = {each["id"]: each.get("problem") for each in json.loads(out)}
    assert (problems["fine"], problems["demo"]) == (None, None)
    fault = "is not in the store" if damage == "missing" else f"has 1,000 bytes and should have {size_bytes:,}"
    assert fault in problems[NAME]
    assert str(store.root) not in problems[NAME], "clients of a server see it"
    assert [model.id for model in listing.available(store.root.parent)] == ["demo", "fine"]
    assert run("pull", NAME)[0] == 0
    assert run("list")[0] == 0


def test_gc_gets_past_a_damaged_manifest_that_still_shows_what_it_needs(run: Run, store: Store) -> None:
    put(store, "mine", b"mine")
    put(store, "gone", b"gone")
    path = manifest_path(store, "mine")
    path.write_bytes(path.read_bytes().replace(b"{", b'{"version": 2,', 1))
    store.remove(parse("gone"))
    assert run("gc")[0] == 0
    assert not store.blob_path(digest_of(b"gone")).exists()
    assert store.blob_path(digest_of(b"mine")).exists()


def test_gc_deletes_no_blob_while_a_manifest_is_too_broken_to_show_what_it_needs(run: Run, store: Store) -> None:
    put(store, "mine", b"mine")
    put(store, "gone", b"gone")
    manifest_path(store, "mine").write_bytes(b'{"name": "mine"')
    store.remove(parse("gone"))
    code, _, err = run("gc")
    assert code == 1
    assert "localllm rm mine" in err
    assert store.blob_path(digest_of(b"gone")).exists()
    assert run("rm", "mine")[0] == 0
    assert not store.blob_path(digest_of(b"gone")).exists()


# --- Removing what is loaded ---------------------------------------------------------------------------------------


def unloaded() -> None:
    for thread in threading.enumerate():
        if thread.name == "leaving":
            thread.join()


def test_a_list_with_a_damaged_manifest_says_so_once_and_in_words(store: Store, tmp_path: Path) -> None:
    put(store, "mine", b"mine")
    (manifest,) = (store.root / "manifests").iterdir()
    manifest.write_text("{")
    command = [sys.executable, "-P", "-m", "localllm", "list", "--home", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert [line.partition(" ")[0] for line in done.stderr.splitlines()] == ["localllm:"], done.stderr


def test_a_loaded_model_that_is_removed_says_when_its_bytes_go_and_they_go_then(run: Run, store: Store) -> None:
    manifest = put(store, "mine", b"mine", b"its second shard")
    blobs = [store.blob_path(file.digest) for file in manifest.files]
    first, second = store.open_model(manifest), store.open_model(manifest)
    code, _, err = run("rm", "mine")
    assert code == 0
    assert "freed when it is unloaded" in err
    first.close()
    unloaded()
    assert all(blob.exists() for blob in blobs)
    second.close()
    unloaded()
    assert not any(blob.exists() for blob in blobs)
    assert list((store.root / "views").iterdir()) == []
    assert store.gc().removed == ()


def test_what_was_removed_with_its_files_kept_stays_at_the_unload(run: Run, store: Store) -> None:
    manifest = put(store, "mine", b"mine")
    with store.open_model(manifest):
        assert run("rm", "--keep-files", "mine")[0] == 0
    unloaded()
    assert store.blob_path(digest_of(b"mine")).exists()


def test_what_got_a_name_again_while_it_was_loaded_stays_at_the_unload(run: Run, store: Store) -> None:
    manifest = put(store, "mine", b"mine")
    with store.open_model(manifest):
        assert run("rm", "mine")[0] == 0
        store.put(manifest)
    unloaded()
    assert store.blob_path(digest_of(b"mine")).exists()


def test_a_store_that_is_busy_at_the_unload_costs_nobody_anything(
    run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = put(store, "mine", b"mine")
    opened = store.open_model(manifest)
    assert run("rm", "mine")[0] == 0
    monkeypatch.setattr(locks, "GATE_TIMEOUT_S", 0.0)
    with locks.Locks(Layout(store.root)).gate(exclusive=False):
        opened.close()
        unloaded()
        assert store.blob_path(digest_of(b"mine")).exists()
    assert store.gc().freed_bytes == 4


def test_a_model_whose_manifest_is_illegible_is_removed_by_its_name(run: Run, hub: HubServer, store: Store) -> None:
    assert run("pull", NAME)[0] == 0
    manifest_path(store, NAME).write_bytes(b"\xff\x00garbage")
    assert run("rm", NAME)[0] == 0
    assert run("list")[0] == 0
    assert not [*(store.root / "blobs").iterdir()]


@pytest.mark.parametrize("damage", ["set aside", "cut"])
def test_a_file_that_is_known_to_be_damaged_is_reported_once(
    damage: str, run: Run, hub: HubServer, store: Store
) -> None:
    assert run("pull", NAME)[0] == 0
    path = blob_of(store)
    if damage == "cut":
        path.chmod(0o644)
        os.truncate(path, 1000)
    else:
        flip(path, 5000)
        assert run("verify")[0] == 1
    code, _, err = run("verify")
    assert code == 1
    assert err.count(str(path)) == 1
    assert err.count("localllm pull") == 1
    (found,) = json.loads(run("verify", "--json")[1])["damaged"]
    assert found["reason"] == "was damaged and has been set aside"
