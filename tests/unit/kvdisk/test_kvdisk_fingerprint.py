"""States are given back only to what made them: whatever they depend on changes the fingerprint."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localllm.kvdisk.fingerprint import HEAD_BYTES, Parts, file_identity, fingerprint
from localllm.types import DeviceInfo
from localllm.worker.states.disk_cache import by_devices

PARTS = Parts(
    model="sha256:00", adapters=(("sha256:11", 1.0),), kv_types=("f16", "f16"), layout="partitioned", slots=4,
    slot_capacity=1024, flash_attention="on", library_version="0.3.36", library_hash="22",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("model", "sha256:01"), ("adapters", ()), ("adapters", (("sha256:11", 0.5),)), ("kv_types", ("q8_0", "f16")),
        ("layout", "unified"), ("slots", 5), ("slot_capacity", 2048), ("flash_attention", "off"),
        ("library_version", "0.3.37"), ("library_hash", "23"), ("other", {"rope_freq_base": "10000"}),
    ],
)  # fmt: skip
def test_each_part_counts(name: str, other: Any) -> None:
    assert fingerprint(msgspec.structs.replace(PARTS, **{name: other})) != fingerprint(PARTS)


def test_every_part_is_tried_above() -> None:
    (mark,) = [mark for mark in test_each_part_counts.pytestmark if mark.name == "parametrize"]
    assert {name for name, _ in mark.args[1]} == set(Parts.__struct_fields__)


def test_it_does_not_depend_on_the_order_of_what_else_was_set() -> None:
    one, other = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    assert fingerprint(msgspec.structs.replace(PARTS, other=one)) == fingerprint(
        msgspec.structs.replace(PARTS, other=other)
    )


def test_a_pulled_model_is_the_same_one_on_every_machine(tmp_path: Path) -> None:
    identities = set()
    for machine, moment_ns in (("one", 10**18), ("other", 2 * 10**18)):
        blob = tmp_path / machine / "blobs" / f"sha256-{'ab' * 32}"
        blob.parent.mkdir(parents=True)
        blob.write_bytes(b"GGUF")
        os.utime(blob, ns=(moment_ns, moment_ns))
        blob.chmod(0o444)
        identities.add(file_identity(blob))
    assert len(identities) == 1
    assert ("sha256:" + "ab" * 32) in identities.pop()


@pytest.mark.parametrize("why", ["writable", "shared", "elsewhere", "other name"])
def test_a_name_proves_nothing_of_a_file_that_may_change(tmp_path: Path, why: str) -> None:
    folder = tmp_path / ("models" if why == "elsewhere" else "blobs")
    folder.mkdir()
    blob = folder / ("sha256-ab" if why == "other name" else f"sha256-{'ab' * 32}")
    blob.write_bytes(b"GGUF")
    if why == "shared":
        (folder / f"{blob.name}.shared").write_bytes(b"{}")
    blob.chmod(0o644 if why == "writable" else 0o444)
    assert file_identity(blob).startswith("file:")


def test_a_file_that_changed_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"x" * (HEAD_BYTES + 10))
    os.utime(path, ns=(0, 0))
    before = file_identity(path)
    assert file_identity(path) == before
    for changed in (b"x" * HEAD_BYTES + b"y" * 10, b"y" + b"x" * (HEAD_BYTES + 9), b"x" * (HEAD_BYTES + 11)):
        path.write_bytes(changed)
        os.utime(path, ns=(0, 0))
        assert file_identity(path) != before
    path.write_bytes(b"x" * (HEAD_BYTES + 10))
    os.utime(path, ns=(0, 1))
    assert file_identity(path) != before


def test_what_computes_the_layers_counts_and_the_cpu_alone_is_nothing_to_tell() -> None:
    devices = [
        DeviceInfo("CPU", "some CPU", "cpu", "CPU", 0, 0),
        DeviceInfo("Vulkan0", "a card", "gpu", "Vulkan", 0, 0),
        DeviceInfo("Vulkan1", "another card", "gpu", "Vulkan", 0, 0),
    ]
    assert by_devices({"CPU": 5}, devices) == {}, "so that what was saved before there was a choice is found"
    placements = [
        {"CPU": 5}, {"CPU": 2, "Vulkan0": 3}, {"CPU": 1, "Vulkan0": 4}, {"Vulkan0": 5}, {"Vulkan1": 5},
        {"Vulkan0": 2, "Vulkan1": 3},
    ]  # fmt: skip
    found = [fingerprint(msgspec.structs.replace(PARTS, other=by_devices(each, devices))) for each in placements]
    assert len(set(found)) == len(placements)
    assert by_devices({"Vulkan0": 5}, devices) == {"devices": "5 on Vulkan: a card"}, "not by its place in a list"
