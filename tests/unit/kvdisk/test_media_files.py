"""Encoded pictures and sounds on disk: whole or absent, bounded together, deleted by model."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localllm.kvdisk.media_files import FOLDER, MediaFiles, clear_media
from localllm.kvdisk.survey import clear

CONTENT = bytes(range(256))


def _paths(data_dir: Path) -> list[Path]:
    return [path for path in (data_dir / FOLDER).rglob("*") if path.is_file()]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 295), is_cut=st.booleans())
def test_a_changed_or_cut_file_is_not_read_and_goes(tmp_path: Path, place: int, is_cut: bool) -> None:
    files = MediaFiles(tmp_path, "model", 10**6)
    files.write("name", CONTENT)
    [path] = _paths(tmp_path)
    data = bytearray(path.read_bytes())
    assert len(data) == 296
    data[place] ^= 1
    path.write_bytes(data[:place] if is_cut else data)
    assert files.read("name") is None
    assert not files.has("name")
    files.write("name", CONTENT)
    assert files.read("name") == CONTENT


def test_the_least_recently_used_of_all_models_go_first_and_what_a_killed_writer_left(tmp_path: Path) -> None:
    one, other = (MediaFiles(tmp_path, model, 4096) for model in ("one", "other"))
    one.write("used", CONTENT)
    other.write("unused", CONTENT)
    left = _paths(tmp_path)[0].with_name("killed.part")
    left.write_bytes(CONTENT)
    for age_s, path in enumerate(sorted(_paths(tmp_path))):
        os.utime(path, (1000 + age_s, 1000 + age_s))
    assert one.read("used") == CONTENT
    for number in range(12):
        other.write(f"new {number}", CONTENT)
    assert sum(path.stat().st_size for path in _paths(tmp_path)) <= 4096 + 4096 // 16 + 300
    assert one.has("used")
    assert not other.has("unused")
    assert not left.exists()
    if os.name == "posix":
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in _paths(tmp_path))


@pytest.mark.parametrize("model", [None, "one"])
def test_clearing_the_disk_deletes_them_with_the_conversations(tmp_path: Path, model: str | None) -> None:
    for name in ("one", "other"):
        MediaFiles(tmp_path, name, 10**6).write("name", CONTENT)
    assert clear(tmp_path, model).size_bytes == (592 if model is None else 296)
    assert MediaFiles(tmp_path, "other", 10**6).has("name") == (model is not None)
    assert clear_media(tmp_path, "one") == 0


def test_a_full_or_forbidden_disk_costs_only_the_file(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file in the way")
    files = MediaFiles(tmp_path, "model", 10**6)
    files.write("name", CONTENT)
    assert files.read("name") is None
    nothing = MediaFiles(tmp_path / "other", "model", 0)
    nothing.write("name", CONTENT)
    assert not (tmp_path / "other").exists()
