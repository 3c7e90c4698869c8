"""`Models` and `AsyncModels` where no thread can be started: an error, not a wait without end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from localllm import AsyncModels, Models, Settings
from localllm.llm import models


def _refuse(_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_a_pull_whose_thread_cannot_be_started_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models._Pull, "start", _refuse)
    errors: list[str] = []

    def pull() -> None:
        try:
            Models(settings=Settings(home=tmp_path)).pull("qwen3:0.6b")
        except RuntimeError as error:
            errors.append(str(error))

    caller = threading.Thread(target=pull, daemon=True)
    caller.start()
    caller.join(20)
    assert errors == ["can't start new thread"]


def test_an_awaited_pull_whose_thread_cannot_be_started_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models._Pull, "start", _refuse)

    async def pull() -> None:
        async with asyncio.timeout(20):
            await AsyncModels(settings=Settings(home=tmp_path)).pull("qwen3:0.6b")

    with pytest.raises(RuntimeError, match="new thread"):
        asyncio.run(pull())
