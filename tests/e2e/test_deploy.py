"""The files of `localllm deploy`: accepted by the programs they are for, where these are installed; nginx and HAProxy
with them in front of two servers."""

from __future__ import annotations

import contextlib
import json
import plistlib
import shutil
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.cli.deploy.command import deploy
from localllm.cli.deploy.files import FILES, Wanted, template
from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from tests.e2e.conftest import TIMEOUT_S, Cli
from tests.server.conftest import Served, running
from tests.waiting import until

MODELS = ("qwen3:0.6b", '/models/a "b" $c 100%.gguf')
GATEWAYS = {"nginx": "localllm.conf", "haproxy": "haproxy.cfg"}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
STREAMS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
    "/v1/responses": {"model": "tiny", "input": "Hi"},
    "/v1/messages": {**CHAT, "max_tokens": 9},
    "/completion": {"prompt": "Hi"},
    "/api/chat": CHAT,
}


def made(kind: str, folder: Path, wanted: Wanted) -> dict[str, str]:
    assert deploy(kind, wanted, folder) == 0
    files = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert files.keys() == FILES[kind].keys()
    return files


@pytest.mark.parametrize("kind", FILES)
def test_every_place_is_filled_in(kind: str, tmp_path: Path) -> None:
    for text in made(kind, tmp_path, Wanted(MODELS, 11435, 8080, ())).values():
        assert not [word for word in text.split() if word.startswith("@") and word.strip('@";').isupper()]


def test_every_template_is_used() -> None:
    used = {source for files in FILES.values() for source, _ in files.values()}
    assert all(template(source) for source in used)
    folder = Path(__file__).parents[2] / "localllm" / "data" / "deploy"
    assert {path.name for path in folder.iterdir()} == used


def test_files_are_printed_or_written_and_none_is_overwritten(cli: Cli, tmp_path: Path) -> None:
    shown = cli("deploy", "systemd", "demo", "--port", "1234")
    assert "# ---- localllm.socket" in shown.stdout
    assert "ListenStream=127.0.0.1:1234" in shown.stdout
    assert cli("deploy", "nginx", "--out", tmp_path / "new").returncode == 0
    again = cli("deploy", "nginx", "--out", tmp_path / "new")
    assert (again.returncode, "exists" in again.stderr) == (2, True)
    assert cli("deploy", "apache").returncode == 2


@pytest.mark.parametrize(
    "wrong",
    [Wanted((), 0, 8080, ()), Wanted((), 1, 70000, ()), Wanted((), 1, 8080, ("a;b:1",)), Wanted((), 1, 8080, ("host",)),
     Wanted(("a\nb",), 1, 8080, ())],
)  # fmt: skip
def test_values_that_would_make_another_file_are_refused(wrong: Wanted, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        deploy("nginx", wrong, tmp_path)


def test_names_arrive_as_they_are_in_every_format(tmp_path: Path) -> None:
    wanted = Wanted(MODELS, 11435, 8080, ())
    plist = plistlib.loads(made("launchd", tmp_path / "launchd", wanted)["localllm.plist"].encode())
    assert plist["ProgramArguments"][1:] == ["serve", *MODELS, "--port", "11435"]
    docker = made("docker", tmp_path / "docker", wanted)["Dockerfile"]
    assert json.loads(docker.rpartition("CMD ")[2]) == [*MODELS]
    compose = made("compose", tmp_path / "compose", wanted)["compose.yaml"]
    command = compose.partition("command: ")[2].partition("\n")[0]
    assert [word.replace("$$", "$") for word in json.loads(command)] == [*MODELS]
    unit = made("systemd", tmp_path / "systemd", wanted)["localllm.service"]
    assert r'serve qwen3:0.6b "/models/a \"b\" $$c 100%%.gguf" --port 11435' in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd's own check")
def test_systemd_accepts_its_units(tmp_path: Path) -> None:
    made("systemd", tmp_path, Wanted(MODELS[:1], 11435, 8080, ()))
    units = [tmp_path / "localllm.service", tmp_path / "localllm.socket"]
    checked = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if "localllm" in line]) == (0, [])


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="a checker of Dockerfiles")
def test_hadolint_has_nothing_to_say(tmp_path: Path) -> None:
    made("docker", tmp_path, Wanted(MODELS[:1], 11435, 8080, ()))
    checked = subprocess.run(["hadolint", tmp_path / "Dockerfile"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_kubernetes_schemas_accept_the_manifest(tmp_path: Path) -> None:
    validator, yaml = pytest.importorskip("kubernetes_validate"), pytest.importorskip("yaml")
    text = made("k8s", tmp_path, Wanted(MODELS, 11435, 8080, ()))["localllm.yaml"]
    documents = [*yaml.safe_load_all(text)]
    for document in documents:
        validator.validate(document, "1.33", strict=True)
    container = documents[1]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == [*MODELS, "--drain-delay-s", "10"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def gateway(kind: str, folder: Path, servers: list[Served]) -> Iterator[str]:
    """nginx or HAProxy with our file in front of the servers: its URL."""
    backends = [f"{host}:{port}" for host, port in (server.address for server in servers)]
    port = free_port()  # both take no socket
    made(kind, folder, Wanted((), 11435, port, backends))
    file = folder / GATEWAYS[kind]
    if kind == "nginx":
        whole = folder / "nginx.conf"
        temporary = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        whole.write_text(
            f"daemon off; pid {folder}/pid; error_log stderr error;\n"
            f"events {{}}\nhttp {{ access_log off; include {file};\n"
            + "".join(f"{name}_temp_path {folder}/{name};\n" for name in temporary)
            + "}\n"
        )
        command = ["nginx", "-e", "stderr", "-c", str(whole)]
        check = [*command, "-t"]
    else:
        command = ["haproxy", "-db", "-f", str(file)]
        check = ["haproxy", "-c", "-f", str(file)]
    checked = subprocess.run(check, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{url}/ready", trust_env=False).status_code == 200
        return False

    with process:
        try:
            until(answers)
            yield url
        finally:
            process.terminate()


@contextlib.contextmanager
def two_servers() -> Iterator[list[Served]]:
    with contextlib.ExitStack() as stack:
        settings = [Settings(port=0, grace_s=5, server_name=name) for name in ("first", "second")]
        yield [stack.enter_context(running(each)) for each in settings]


def each_gateway() -> list[Any]:
    return [
        pytest.param(kind, marks=pytest.mark.skipif(shutil.which(kind) is None, reason=f"{kind} is not installed"))
        for kind in GATEWAYS
    ]


@pytest.mark.parametrize("kind", each_gateway())
def test_every_kind_of_stream_passes_byte_by_byte_and_chats_stay_on_their_server(kind: str, tmp_path: Path) -> None:
    with two_servers() as servers, gateway(kind, tmp_path, servers) as url, httpx.Client(trust_env=False) as http:
        for path, body in STREAMS.items():
            direct = servers[0].http.post(path, json={**body, "stream": True})
            passed = http.post(f"{url}{path}", json={**body, "stream": True})
            assert passed.status_code == 200
            assert passed.headers["content-type"] == direct.headers["content-type"]
            assert passed.text.count("\n") == direct.text.count("\n")
        used: Counter[str] = Counter()
        for number in range(16):
            headers = {"x-session-id": f"chat-{number}"}
            names = {
                http.post(f"{url}/v1/chat/completions", json=CHAT, headers=headers).headers["x-localllm-server"]
                for _ in range(3)
            }
            assert len(names) == 1, "each turn on the same server"
            used.update(names)
    assert used.keys() == {"first", "second"}


@pytest.mark.parametrize("kind", each_gateway())
def test_no_request_fails_when_a_server_ends_under_load(kind: str, tmp_path: Path) -> None:
    body = {**CHAT, "stream": True}
    failures: list[object] = []
    answers: Counter[str] = Counter()
    over = threading.Event()

    def ask(number: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            headers = {"x-session-id": f"{number}-{turn}"}
            try:
                got = httpx.post(url + "/v1/chat/completions", json=body, headers=headers, timeout=20)
                if got.status_code == 200 and "[DONE]" in got.text:
                    answers[got.headers["x-localllm-server"]] += 1
                else:
                    failures.append((got.status_code, got.text))
            except httpx.HTTPError as error:
                failures.append(error)

    with running(Settings(port=0, grace_s=5, server_name="stays")) as stays, contextlib.ExitStack() as leaving:
        leaves = leaving.enter_context(running(Settings(port=0, grace_s=5, server_name="leaves")))
        with gateway(kind, tmp_path, [leaves, stays]) as url:
            threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            try:
                until(lambda: min(answers["leaves"], answers["stays"]) >= 5)
                leaving.close()
                before = answers["stays"]
                until(lambda: answers["stays"] >= before + 30)
            finally:
                over.set()
                for thread in threads:
                    thread.join()
    assert failures == []
