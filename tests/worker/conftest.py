"""Sessions with badly behaved children."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localllm.llama import library
from localllm.llama.library import Library
from localllm.llama.media.opening import why_no_media
from localllm.llama.probes import selftest
from localllm.supervisor.session import Session, SessionLimits
from localllm.supervisor.session_observer import SessionObserver
from localllm.types import LayerMemory, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.types.placement import Placement
from localllm.worker.messages import Hello, Load

INFO = ModelInfo(
    architecture="llama", name=None, num_parameters=1, size_bytes=1, quantization={"F32": 1}, file_type=None,
    context_length=256, num_layers=1, embedding_length=32, feed_forward_length=32, num_heads=1, num_kv_heads=1,
    vocabulary_size=32, tokenizer="llama", chat_templates={}, sampling={}, layer_bytes=(1,), other_bytes=0,
    split_count=1, layer_memory=(LayerMemory(keys=32, values=32),),
)  # fmt: skip

StartSession = Callable[..., Session]


def bad_worker(*arguments: str) -> list[str]:
    return [sys.executable, "-P", str(Path(__file__).with_name("bad_worker.py")), *arguments]


PLACEMENT = Placement(
    ctx=256, slots=2, kv="partitioned", kv_reason="", flash_attn="auto", flash_attn_reason="", ubatch_tokens=512,
    plain_ubatch_tokens=512, max_outputs=64, snapshots=0, num_cells=512, gpu_layers=0, devices=(), must_offload=False,
    pooling="last", embedding_ctx=256,
)  # fmt: skip


def make_load(_hello: Hello) -> Load:
    return Load("fake", "fake.gguf", INFO, LoadOptions(), PLACEMENT)


@pytest.fixture
def start_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StartSession:
    """A session with a bad worker: call it on an event loop."""
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setenv("BAD_WORKER_LIVES", str(tmp_path / "lives"))

    def start(*arguments: str, observer: SessionObserver | None = None, saves: bool = False, **limits: Any) -> Session:
        some = SessionLimits(**{"max_waiting": 8, **limits})
        return Session(bad_worker(*arguments), make_load, some, observer=observer, saves=saves)

    return start


@pytest.fixture(scope="module")
def loaded(home: Path) -> Library:
    """A library that reads media."""
    made = library.load(selftest.choose(home).choice)
    if reason := why_no_media(made):
        pytest.skip(reason)
    return made
