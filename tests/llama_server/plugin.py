"""The pytest plugin that the suite is run with: its `ServerProcess` starts localllm, and nothing is downloaded.

It runs inside the suite's pytest, in a copy of its folder that `suite.prepare` has made.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from tests.llama_server.options import wanted
from tests.llama_server.pool import Pool, Running
from tests.pictures import png

FOLDER = "LOCALLLM_SUITE_FOLDER"
"""Environment: where models, homes and results lie."""
HUB = "https://huggingface.co/"
TEMPLATES = "../../../models/templates/"


class _NoLock:
    """What the suite locks are its downloads."""

    def __init__(self, _: str) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _Picture:
    """The response to a download of a picture: one of a single color, or what a data URL has."""

    def __init__(self, url: str) -> None:
        data = base64.b64decode(url.partition(",")[2]) if url.startswith("data:") else b""
        color = list(zlib.crc32(url.encode()).to_bytes(4, "big")[:3])
        self.content = data or png(np.full((32, 32, 3), color, np.uint8))

    def raise_for_status(self) -> None:
        pass


def _stand_in(name: str, **contents: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


def _download(url: str, out: str | None = None) -> str:
    return url.rpartition("/")[2] if out is None else out


_stand_in("wget", download=_download)
_stand_in("filelock", FileLock=_NoLock)
_results: dict[str, dict[str, str]] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Before the suite's own modules are imported."""
    folder = Path(os.environ[FOLDER])
    sys.path.insert(0, str(config.rootpath))
    import utils  # type: ignore[import-not-found]  # the suite's

    for name in ("home", "models"):
        (folder / name).mkdir(exist_ok=True)
    pool = Pool(folder / "home", folder / "models")
    taken: dict[int, Running] = {}
    templates = os.environ["LOCALLLM_SUITE_TEMPLATES"]

    def start(self: Any, timeout_seconds: int = 0) -> None:
        if self.chat_template_file and self.chat_template_file.startswith(TEMPLATES):
            self.chat_template_file = f"{templates}/{self.chat_template_file.removeprefix(TEMPLATES)}"
        running = pool.take(wanted(self))
        taken[id(self)] = running
        self.server_port = running.port
        self.ready = True
        utils.server_instances.add(self)

    def stop(self: Any) -> None:
        utils.server_instances.discard(self)
        running = taken.pop(id(self), None)
        if running is not None:
            pool.give(running)

    ask = requests.get
    vars(requests)["get"] = lambda url, **more: _Picture(url) if url.startswith((HUB, "data:")) else ask(url, **more)
    make_request = utils.ServerProcess.make_request

    def make_request_of_any_case(self: Any, *given: Any, **named: Any) -> Any:
        """It looks headers up by their names' case, which means nothing (RFC 9110, 5.1).

        What `--verbose` makes a server tell of every chat has to be asked for here.
        """
        if self.debug and named.get("data") and given[1].endswith("/chat/completions"):
            named["data"] = {"verbose": True} | named["data"]
        answer = make_request(self, *given, **named)
        answer.headers = requests.structures.CaseInsensitiveDict(answer.headers)
        return answer

    utils.ServerProcess.make_request = make_request_of_any_case
    utils.ServerProcess.start = start
    utils.ServerProcess.stop = stop
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.download_file = lambda url, output_file_path=None: _download(url, output_file_path)
    config.add_cleanup(pool.end)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how each test ended, and with what words."""
    if report.when != "call" and report.outcome == "passed":
        return
    if _results.get(report.nodeid, {}).get("outcome") == "failed":
        return
    _results[report.nodeid] = {"outcome": report.outcome, "words": _last_words(report)}


def pytest_sessionfinish() -> None:
    """For who has started this run."""
    path = Path(os.environ[FOLDER]) / "results.json"
    path.write_text(json.dumps(_results, indent=1), "utf-8")


def _last_words(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr or "")[:500]
