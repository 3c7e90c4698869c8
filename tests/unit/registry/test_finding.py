"""What the owner of a runtime had loaded stays there by its id, as long as it is there."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from localllm.registry import draft_choice, resolve
from localllm.registry.disk.store import now_text
from localllm.registry.listing import remove, store_of
from localllm.registry.manifest import Manifest
from localllm.registry.resolve import ModelFile
from localllm.runtime.finding import Finder, StartedModel
from localllm.settings.config import Settings
from localllm.types.load_options import LoadOptions


def remembered(finder: Finder, model: str | Path) -> str:
    candidate, _ = asyncio.run(finder.find(model, allow_paths=True))
    candidate.release()
    finder.remember(candidate, StartedModel(model, LoadOptions(), -1, True))
    return candidate.id


def ids(finder: Finder) -> list[str]:
    return [model.id for model in finder.available()]


def test_a_file_is_listed_and_found_by_its_id_until_it_is_deleted(tiny_model: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(tiny_model, tmp_path / "mine.gguf"))
    finder = Finder(Settings(home=tmp_path / "data"))
    assert ids(finder) == ["demo"]
    assert remembered(finder, str(path)) == "mine"
    assert ids(finder) == ["demo", "mine"]
    candidate, _ = asyncio.run(finder.find("mine", allow_paths=False))
    assert candidate.path == path
    path.unlink()
    assert ids(finder) == ["demo"]


def test_a_model_of_the_store_is_not_listed_any_more_once_it_is_removed(tiny_model: Path, tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.put(Manifest(name="first:1b", created_at=now_text(), files=(store.add_file(tiny_model, how="copy"),)))
    finder = Finder(Settings(home=tmp_path))
    assert remembered(finder, "first:1b") == "first:1b"
    assert ids(finder) == ["demo", "first:1b"]
    remove("first:1b", tmp_path)
    assert ids(finder) == ["demo"]


def test_a_draft_that_is_opened_while_its_load_is_cancelled_is_released(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_opening, may_open = threading.Event(), threading.Event()
    released: list[str] = []

    def resolved(model: str | Path, data_dir: Path, *, allow_paths: bool = True) -> ModelFile:
        if str(model) == "draft.gguf":
            is_opening.set()
            may_open.wait(20)
        return ModelFile(id=str(model), path=tiny_model, release=lambda: released.append(str(model)))

    monkeypatch.setattr(resolve, "resolve", resolved)
    monkeypatch.setattr(draft_choice, "resolve", resolved)

    async def scenario() -> None:
        finder = Finder(Settings(home=tmp_path))
        load = finder.find_to_load("target.gguf", LoadOptions(draft="draft.gguf"), {}, allow_paths=True)
        loading = asyncio.create_task(load)
        await asyncio.to_thread(is_opening.wait, 20)
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        may_open.set()
        await asyncio.wait(finder.pending(), timeout=20)
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert sorted(released) == ["draft.gguf", "target.gguf"]
