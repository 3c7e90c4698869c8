"""Anthropic's client for Node (TypeScript): answers, events, loops of tools, counts, and errors by their classes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localllm.errors import InvalidParameter, LocalLLMError, ModelNotFound, QueueFull
from localllm.server.errors import Overloaded, PermissionDenied
from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH, Step

KEY = "sesame"
CALLS = (
    Delta(thought="Let me ", num_tokens=1),
    Delta(thought="see.", num_tokens=1),
    Delta("In Ulm", 1),
    Delta(" ✓", 1),
    Delta(calls=(CallDelta(0, "", "weather", "call_1"),)),
    Delta(calls=(CallDelta(0, '{"city": '),)),
    Delta(calls=(CallDelta(0, '"Ulm"}'), CallDelta(1, '{"city": "Bonn"}', "weather", "call_2"))),
    Delta("", 1, FINISH),
)
TEXT = (Delta("It is ", 1), Delta("sunny.", 1), Delta("", 1, FINISH))


@pytest.fixture
def served() -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1, api_keys=KEY)) as served:
        yield served


def run(served: Served, *arguments: str, key: str = KEY) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    if subprocess.run([node, "-e", 'require("@anthropic-ai/sdk")'], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the @anthropic-ai/sdk package of npm; NODE_PATH names the folder that holds it")
    script = Path(__file__).with_name("node_anthropic.js")
    command = [node, str(script), served.url, key, *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_answers_streams_counts_and_runs_tools(served: Served) -> None:
    loop: list[tuple[Step, ...]] = [CALLS, TEXT]
    served.runtime.scripts = [CALLS, CALLS, CALLS, CALLS, *loop, *loop]
    assert run(served) == "all is well\n"


@pytest.mark.parametrize(
    ("error", "kind", "status", "type"),
    [
        (InvalidParameter("bad", param="x"), "BadRequestError", 400, "invalid_request_error"),
        (PermissionDenied("no"), "PermissionDeniedError", 403, "permission_error"),
        (ModelNotFound("no such model"), "NotFoundError", 404, "not_found_error"),
        (QueueFull("full"), "RateLimitError", 429, "rate_limit_error"),
        (Overloaded("busy"), "OverloadedError", 529, "overloaded_error"),
        (RuntimeError("a defect"), "InternalServerError", 500, "api_error"),
    ],
)
def test_errors_are_of_the_classes_that_its_users_catch(
    served: Served, error: LocalLLMError, kind: str, status: int, type: str
) -> None:
    served.runtime.refusal = error
    given: dict[str, Any] = json.loads(run(served, "error"))
    assert given == {"kind": kind, "status": status, "type": type, "has_id": True}


def test_a_wrong_key_and_a_broken_stream_are_errors_of_its_own(served: Served) -> None:
    given = json.loads(run(served, "error", key="wrong"))
    assert (given["kind"], given["type"]) == ("AuthenticationError", "authentication_error")
    served.runtime.script = (Delta("Hi", 1), QueueFull("full"))
    assert json.loads(run(served, "stream-error"))["type"] == "rate_limit_error"
