"""How a server begins, ends and gets over a death: parents, signals, crashes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from localllm.client.api import Client, ServerGone
from localllm.client.sidecar import Sidecar
from localllm.errors import Draining, InvalidModelFile, LoadFailed, ModelNotFound
from localllm.types import SamplingParams
from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli
from tests.later import openai
from tests.waiting import line_with

ENDLESS = ("--threads", "1", "--slots", "1", "--ctx", "65536")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the worker in Linux' list of processes")
def test_a_model_whose_process_is_killed_ends_its_streams_with_an_error_and_answers_the_next(
    endless_model: Path,
) -> None:
    with (
        Sidecar.start([str(endless_model), *ENDLESS]) as sidecar,
        openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client,
    ):
        stream = client.completions.create(model="endless", prompt="x", stream=True, temperature=0)
        next(iter(stream))
        tasks = Path(f"/proc/{sidecar.ready.pid}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        (worker,) = (
            int(child) for child in children if b"localllm.worker\0" in Path(f"/proc/{child}/cmdline").read_bytes()
        )
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(openai.APIError) as caught:
            for _ in stream:
                pass
        assert caught.value.code == "worker_crashed"
        again = client.completions.create(model="endless", prompt="x", max_tokens=2)
        assert again.usage is not None
        assert again.usage.completion_tokens == 2
        metrics = httpx.get(f"{sidecar.url}/metrics", headers={"x-api-key": sidecar.token}).text
        assert 'localllm_worker_restarts_total{model="endless"} 1.0' in metrics


def test_a_sidecar_that_cannot_load_raises_the_reason(home: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"nothing\.gguf"):
        Sidecar.start([str(home / "nothing.gguf")])
    bad = home / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"\0" * 20)
    with pytest.raises(LoadFailed) as caught:
        Sidecar.start([str(bad)])
    assert not isinstance(caught.value, InvalidModelFile) or caught.value.details


def test_a_sidecar_that_is_no_sidecar_raises(home: Path) -> None:
    with pytest.raises(LoadFailed, match="exit code 0"):
        Sidecar.start(["x"], command=[COMMAND[0], "-c", "print('hello')"])


def test_a_parent_reads_exactly_one_line_and_nothing_is_left_behind(tiny_model: Path, tmp_path: Path) -> None:
    home, user = tmp_path / "data", tmp_path / "user"
    user.mkdir()
    process = subprocess.Popen(
        [*COMMAND, "serve", str(tiny_model), "--port", "0", "--ready", "json", "--home", str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": str(user), "XDG_DATA_HOME": str(user), "XDG_CONFIG_HOME": str(user)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told.keys() == {"url", "token", "model", "pid", "version"}
    assert httpx.get(f"{told['url']}/ready").json()["models"] == ["tiny"]
    process.stdin.close()
    assert process.wait(TIMEOUT_S) == 0
    assert process.stdout.read() == b""
    process.stdout.close()
    assert list(user.iterdir()) == []
    assert [path.name for path in home.iterdir()] == ["selftest.json"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{told['url']}/health")


def _serve(*args: str | Path) -> tuple[subprocess.Popen[str], str]:
    """A `serve` for people, and the URL of its line on stderr."""
    process = subprocess.Popen(
        [*COMMAND, "serve", *map(str, args), "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    found = re.search(r"serving .* at (\S+)/v1", line_with(process, "/v1 ("))
    assert found is not None
    return process, found[1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_lets_running_answers_end(tiny_model: Path, number: signal.Signals, code: int) -> None:
    process, url = _serve(tiny_model, "--threads", "1")
    with process:
        with Client(url) as client:
            deltas = client.complete("tiny", "Once", SamplingParams(max_tokens=40, ignore_eos=True, seed=1))
            next(deltas)
            process.send_signal(number)
            *_, last = deltas
        assert last.finish is not None
        assert last.finish.reason == "length"
        assert process.wait(TIMEOUT_S) == code
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_a_second_ctrl_c_ends_at_once(endless_model: Path) -> None:
    process, url = _serve(endless_model, *ENDLESS, "--grace-s", "1000")
    with process, Client(url) as client:
        deltas = client.complete("endless", "Once", SamplingParams(temperature=0))
        next(deltas)
        process.send_signal(signal.SIGINT)
        while _try_health(url) == httpx.codes.OK:
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        with pytest.raises(ServerGone):
            list(deltas)


def _try_health(url: str) -> int:
    """0 once the server takes no more connections."""
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code
    except httpx.HTTPError:
        return 0


def test_answers_that_outlast_the_grace_are_told_and_not_just_cut(endless_model: Path) -> None:
    process, url = _serve(endless_model, *ENDLESS, "--grace-s", "0.05")
    with process, Client(url) as client:
        deltas = client.complete("endless", "Once", SamplingParams(temperature=0))
        next(deltas)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(Draining, match="shutting down"):
            list(deltas)
        assert process.wait(TIMEOUT_S) == 0


def test_what_cannot_be_served_is_one_sentence_and_an_exit_code(cli: Cli, home: Path, tiny_model: Path) -> None:
    open_bind = cli("serve", tiny_model, "--host", "0.0.0.0", "--port", "0")
    assert (open_bind.returncode, open_bind.stdout) == (2, "")
    assert "--allow-remote-without-key" in open_bind.stderr
    assert cli("serve", home / "nothing.gguf", "--port", "0").returncode == 3
    ready = cli("serve", home / "nothing.gguf", "--port", "0", "--ready", "json")
    assert ready.returncode == 3
    assert json.loads(ready.stdout)["error"]["code"] == "model_not_found"
    assert ready.stderr == ""
