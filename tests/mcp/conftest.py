"""A model whose answers are written, so that it calls what a test wants it to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_tools import MARKERS, TEMPLATE
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe, with_user_defined

Step = dict[str, Any]
Written = Callable[[list[Step]], Path]


@pytest.fixture(scope="session", autouse=True)
def sdk() -> None:
    """Imported before a request waits for it, and not while tests are collected: it takes more than a second."""
    import localllm.mcp.server_pool  # noqa: F401


@pytest.fixture(scope="session")
def calling_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of random weights, with a template for tools."""
    path = tmp_path_factory.mktemp("models") / "calling.gguf"
    return write_llama(path, ctx=16384, tokenizer=with_user_defined(bpe(), MARKERS), chat_template=TEMPLATE)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A script of these answers, each behind one more result of a call."""

    def write(steps: list[Step]) -> Path:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(steps), "utf-8")
        return path

    return write


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """A file with these servers."""

    def write(servers: dict[str, Any]) -> Path:
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
        return path

    return write
