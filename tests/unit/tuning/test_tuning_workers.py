"""The workers of a tuning are started as a server starts them: with the same devices and the same other machines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from localllm.errors import LoadFailed
from localllm.gguf import read_model_info
from localllm.settings.config import Settings
from localllm.supervisor.candidate import Candidate as Model
from localllm.tuning import workers
from localllm.tuning.candidates import DEFAULT
from localllm.types import ModelDefaults
from localllm.types.load_options import LoadOptions


def test_a_workers_command_has_the_devices_and_the_machines_of_the_settings(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def refuse(command: Sequence[str], *_: object, **__: object) -> None:
        commands.append(list(command))
        raise LoadFailed("enough")

    monkeypatch.setattr(workers, "Session", refuse)
    model = Model("tiny", tiny_model, read_model_info(tiny_model), ModelDefaults(), lambda: None)
    settings = Settings(home=tmp_path, rpc="192.168.1.20")
    options = LoadOptions(devices=("vulkan0", "rpc0"))
    with pytest.raises(LoadFailed, match="enough"):
        asyncio.run(workers.Workers(settings, model, options).load(DEFAULT))
    (command,) = commands
    assert command[command.index("--devices") + 1] == "vulkan0,rpc0"
    assert command[command.index("--rpc") + 1] == "192.168.1.20"
