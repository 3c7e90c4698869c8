"""What all tests share: a home of their own, the tiny model, and one native library per test run."""

from __future__ import annotations

import functools
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localllm import LLM
from tests.examples import register_profiles, try_some
from tests.homes import use_runtime
from tests.llama_library import missing
from tests.models.maker import write_llama
from tests.models.media import MediaModel, MediaModelKind, write_media_model
from tests.models.tokenizers import SPECIAL_TOKENS
from tests.pairwise import mark_the_rest_as_exhaustive

EXHAUSTIVE_TIMEOUT_S = 800
"""For tests that take minutes; `timeout` in pyproject.toml is for all others."""

register_profiles()

# Threads of llama.cpp that wait for each other spin, unless they are told to sleep: of two test processes on two cores
# each took most of its time from the other. Before any library is loaded; children inherit it.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_sessionstart() -> None:
    """Hundreds of failures would say the same."""
    if (reason := missing()) is not None:
        pytest.exit(reason, returncode=4)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nine thousand tests and their modules stay until the end: the garbage collector need not look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_the_rest_as_exhaustive(items)
    try_some(items)
    for item in items:
        if item.get_closest_marker("exhaustive") is not None:
            item.add_marker(pytest.mark.timeout(EXHAUSTIVE_TIMEOUT_S))


CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """LOCALLLM_HOME of the whole run, so that the user's own is left alone and the self-test runs once.

    LOCALLLM_TEST_RUNTIME names the folder of a runtime that `localllm runtime install` made, to be tested in place of
    the package's llama.cpp.
    """
    folder = tmp_path_factory.mktemp("home")
    if runtime := os.environ.get("LOCALLLM_TEST_RUNTIME"):
        use_runtime(Path(runtime), folder)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("LOCALLLM_")]:
            patch.delenv(name)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # else each of hundreds of processes compiles localllm
        patch.setenv("LOCALLLM_HOME", str(folder))
        # Each model that a test makes would be measured at its first load; `tests/llama/test_attention.py` does.
        patch.setenv("LOCALLLM_FLASH_ATTN", "on")
        yield folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `pytest -n 2`."""
    from tests.scheduler import ByFile

    return ByFile(config, log)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_works() -> None:
    """A shell starts background jobs with SIGINT ignored, and every child inherits that: tests of Ctrl-C would hang."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama with 512 tokens of context and no chat template."""
    return write_llama(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny_chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights with a ChatML template."""
    return write_llama(tmp_path_factory.mktemp("models") / "tiny-chat.gguf", chat_template=CHATML)


@pytest.fixture(scope="session")
def media_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[MediaModelKind], MediaModel]:
    """Makes a model of that kind that sees or hears, once."""
    folder = tmp_path_factory.mktemp("media-models")
    return functools.cache(lambda kind: write_media_model(kind, folder))


@pytest.fixture(scope="session")
def demo(home: Path) -> Iterator[LLM]:
    """The model that localllm carries, loaded once: for tests that need answers which make sense."""
    with LLM("demo", slots=4) as llm:
        yield llm


@pytest.fixture(scope="session")
def endless_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model whose greedy answer only ends with its context: 65,536 tokens, ten seconds and more.

    The output rows of all special tokens are zero, and of 315 random logits some are always larger than that.
    """
    output = np.random.default_rng(5).normal(0, 0.5, (320, 64)).astype(np.float32)
    output[: len(SPECIAL_TOKENS)] = 0
    path = tmp_path_factory.mktemp("models") / "endless.gguf"
    return write_llama(path, ctx=65536, chat_template=CHATML, given={"output.weight": output})
