"""Plans for plain URLs, over real HTTP: sizes if the server gives them, and all shards of a split model."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from localllm.errors import AccessDenied, InvalidParameter, LocalLLMError, ModelNotFound, PullFailed
from localllm.registry.fetch.net import Net
from localllm.registry.names.model_names import UrlName
from localllm.registry.remote import Cancelled
from localllm.registry.sources import web
from localllm.registry.sources.source import CancellableFetch
from tests.registry.loopback import Answer, Asked, LoopbackServer, no_pause, ranged

BIG = bytes(200_000)


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with Net(pause=no_pause) as net:
        yield net


class FileServer(LoopbackServer):
    def answer(self, asked: Asked) -> Answer:
        return ranged(BIG, asked) if asked.path.endswith(".gguf") else Answer(404)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as server:
        yield server


def test_a_url_is_planned_with_its_size_name_and_quantization(server: FileServer, net: Net) -> None:
    url = f"{server.url}/models/my%20model-Q4_K_M.gguf?key=1"
    plan = web.plan(UrlName(url), net)
    assert (plan.name, plan.source, plan.quant, plan.size_bytes) == (url, url, "Q4_K_M", len(BIG))
    file = plan.files[0]
    assert (file.file_name, file.url, file.named_by_user, file.digest) == ("my model-Q4_K_M.gguf", url, True, None)


def test_one_shard_stands_for_all(server: FileServer, net: Net) -> None:
    plan = web.plan(UrlName(f"{server.url}/m-Q8_0-00002-of-00003.gguf?key=1"), net)
    assert [file.file_name for file in plan.files] == [f"m-Q8_0-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    assert all(file.url.endswith("?key=1") for file in plan.files)
    assert plan.size_bytes == 3 * len(BIG)


def test_a_server_that_knows_no_ranges_leaves_the_size_open_without_sending_the_file(
    server: FileServer, net: Net
) -> None:
    server.scripted["/m.gguf"] = Answer(200, BIG)
    assert web.plan(UrlName(f"{server.url}/m.gguf"), net).size_bytes is None
    server.scripted["/m.gguf"] = Answer(200, b"tiny")
    assert web.plan(UrlName(f"{server.url}/m.gguf"), net).size_bytes == 4


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (Answer(404), ModelNotFound, "has no http"),
        (Answer(403), AccessDenied, "publicly"),
        (Answer(500), PullFailed, "answered 500"),
        (Answer(200, b"<html>", (("Content-Type", "text/html; charset=utf-8"),)), PullFailed, "web page, not a file"),
        (Answer(302, b"", (("Location", "http://169.254.169.254/m.gguf"),)), PullFailed, "not a public address"),
    ],
)
def test_what_a_server_answers_instead_is_told(
    answer: Answer, error: type[LocalLLMError], says: str, server: FileServer, net: Net
) -> None:
    server.scripted["/m.gguf"] = answer
    with pytest.raises(error, match=says):
        web.plan(UrlName(f"{server.url}/m.gguf"), net)


def test_a_plan_ends_when_somebody_cancels_it(server: FileServer) -> None:
    cancel = threading.Event()

    def cancelling(asked: Asked) -> Answer:
        cancel.set()
        return Answer(503)

    server.scripted["/m.gguf"] = cancelling
    with Net() as waiting, pytest.raises(Cancelled):
        web.plan(UrlName(f"{server.url}/m.gguf"), CancellableFetch(waiting, cancel))
    assert len(server.asked) == 1


@pytest.mark.parametrize("path", ["m-00001-of-09999.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf"])
def test_shards_that_cannot_be_are_refused(path: str, net: Net) -> None:
    with pytest.raises(InvalidParameter, match="of"):
        web.plan(UrlName(f"http://127.0.0.1:9/{path}"), net)


@pytest.mark.parametrize("path", ["%2e%2e%2f%2e%2e%2fm.gguf", "a%5cb.gguf", "%1b%5bm.gguf", "C%3am.gguf"])
def test_a_name_that_not_every_system_can_keep_is_refused(path: str, net: Net) -> None:
    with pytest.raises(PullFailed, match="which not every file system"):
        web.plan(UrlName(f"http://127.0.0.1:9/{path}"), net)
