"""Agents look at a picture in each of 20 turns: the model that sees gets all of them, and no turn costs more."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from localllm.client.sidecar import Sidecar
from tests.agents.replay_pictures import PICTURE_AGENTS
from tests.pictures import png

TURNS = 20
ROWS = 49
"""Of a picture for the demo model."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar.start(["demo", "--slots=1", "--ctx=8192", "--rope-scaling=yarn", "--rope-scale=4"]) as sidecar:
        yield sidecar


def _usage(stream: str) -> dict[str, Any]:
    """In the last event that has one."""
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    found = [event.get("response", event).get("usage") for event in events]
    return next(usage for usage in reversed(found) if usage and len(usage) > 1)


def _counted(usage: dict[str, Any]) -> tuple[int, int]:
    """Tokens of the prompt, and how many of them were computed."""
    if "cache_read_input_tokens" in usage:
        return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["input_tokens"]
    name = "input_tokens" if "input_tokens" in usage else "prompt_tokens"
    total: int = usage[name]
    return total, total - int(usage[f"{name}_details"]["cached_tokens"])


def _resident_mb(pid: int) -> float:
    """Of a process and its children."""
    status = Path(f"/proc/{pid}/status").read_text()
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    tasks = Path("/proc").glob(f"{pid}/task/*/children")
    return own / 1000 + sum(_resident_mb(int(child)) for task in tasks for child in task.read_text().split())


def _encoded(http: httpx.Client) -> float:
    """How many pictures have been encoded."""
    lines = http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("localllm_media_encoded_total{"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="measures memory in /proc")
@pytest.mark.parametrize("name", PICTURE_AGENTS)
def test_a_session_with_a_picture_in_each_of_20_turns_goes_on_flat(sidecar: Sidecar, name: str) -> None:
    agent, rng = PICTURE_AGENTS[name], np.random.default_rng(len(name))
    pictures: list[str] = []
    prompts, computed, resident_mb = list[int](), list[int](), list[float]()
    headers = {"authorization": f"Bearer {sidecar.token}"}
    with httpx.Client(base_url=sidecar.url, headers=headers, trust_env=False, timeout=60) as http:
        before = _encoded(http)
        for turn in range(1, TURNS + 1):
            pictures.append(base64.b64encode(png(rng.integers(0, 256, (128, 128, 3), np.uint8))).decode())
            body = {"model": "demo", **agent.body(pictures), agent.limit: 4}
            with http.stream("POST", agent.path, json=body) as response:
                assert response.status_code == 200, response.read()
                assert "omitted" not in response.headers.get("x-localllm-messages", "")
                usage = _usage(response.read().decode())
            prompt, new = _counted(usage)
            prompts.append(prompt)
            computed.append(new)
            assert _encoded(http) - before == turn
            resident_mb.append(_resident_mb(sidecar.process.pid))
    assert max(computed[1:]) < 3 * ROWS, computed
    assert all(later - earlier > ROWS for earlier, later in itertools.pairwise(prompts)), prompts
    assert resident_mb[-1] - resident_mb[TURNS // 2] < 20, resident_mb
