"""Memory of models without formulas: what a load without weights finds, where formulas know it too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from localllm.gguf import read_model_info
from localllm.planning import dry_loads
from localllm.planning.plan import compute_bytes, memory_bytes
from localllm.registry.resolve import carried
from localllm.types.load_options import LoadOptions
from tests.models import families

MIB = 2**20
CASES: dict[str, Callable[[Path], Path]] = {"demo": lambda _: carried("demo.gguf"), "hybrid": families.write_hybrid}


@pytest.mark.parametrize("kind", CASES)
def test_without_formulas_a_dry_load_plans(
    home: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = CASES[kind](tmp_path / "a.gguf")
    info = read_model_info(path)
    monkeypatch.setattr(dry_loads, "has_formulas", lambda _: False)
    bare = msgspec.structs.replace(info, layer_memory=())
    found = dry_loads.completed(bare, path, home)
    for slots in (1, 4):
        options = LoadOptions(slots=slots, ctx=info.context_length, flash_attn="on")
        planned, known = (sum(memory_bytes(each, options, flash=True)) for each in (found, info))
        assert planned == pytest.approx(known, rel=0.05)
        sizes = [compute_bytes(each, options, flash=True) for each in (found, info)]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.1, abs=4 * MIB)


def test_a_file_that_does_not_load_is_planned_by_the_formulas_that_there_are(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = families.write_hybrid(tmp_path / "a.gguf")
    info = msgspec.structs.replace(read_model_info(path), architecture="newer")
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    assert dry_loads.completed(info, path, home) == info
    assert "dry_load_failed" in caplog.text
