"""Getting, listing, using and forgetting models with the command line, from a look-alike of Hugging Face."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm.client.sidecar import Sidecar
from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli
from tests.homes import measured_once
from tests.registry.hub_server import HubServer, Repo

NAME = "hf.co/ann/tiny-GGUF"


@pytest.fixture(scope="module")
def hub(tiny_chat_model: Path) -> Iterator[HubServer]:
    content = tiny_chat_model.read_bytes()
    with HubServer({"ann/tiny-GGUF": Repo({"tiny-F32.gguf": content}, card={"license": "mit"})}) as server:
        yield server


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Iterator[Path]:
    """A home of its own that knows this machine."""
    with measured_once(home, tmp_path):
        yield tmp_path


@pytest.fixture(autouse=True)
def environment(hub: HubServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("LOCALLLM_HOME", str(folder))


def test_a_model_is_pulled_listed_shown_copied_used_and_removed(cli: Cli, folder: Path) -> None:
    pulled = cli("pull", NAME)
    assert pulled.returncode == 0, pulled.stderr
    assert "licence: mit" in pulled.stderr
    assert f"localllm run {NAME}" in pulled.stderr
    listed = cli("list")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["NAME", "demo", NAME]
    shown = cli("show", NAME)
    assert "licence" in shown.stdout
    assert "mit" in shown.stdout
    assert cli("cp", NAME, "mine:1b").returncode == 0
    assert cli("rm", NAME).returncode == 0
    answer = cli("run", "mine:1b", "Hi", "--max-tokens=4", "--temperature=0", "--threads=1")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()
    removed = cli("rm", "mine:1b")
    assert removed.returncode == 0
    assert "freed" in removed.stderr
    assert not list((folder / "models" / "blobs").iterdir())
    gone = cli("show", "mine:1b")
    assert (gone.returncode, "no model is called" in gone.stderr) == (3, True)


def test_run_fetches_what_is_missing_after_saying_what_it_is(cli: Cli) -> None:
    done = cli("run", NAME, "Hi", "--max-tokens=4", "--temperature=0", "--threads=1")
    assert done.returncode == 0, done.stderr
    assert f"{NAME} is hf.co/ann/tiny-GGUF@" in done.stderr
    assert "licence: mit" in done.stderr
    assert done.stdout.strip()


def test_run_uses_the_server_that_is_there(cli: Cli, folder: Path) -> None:
    assert cli("pull", NAME).returncode == 0
    with Sidecar.start(["--threads=1", "--slots=1", f"--home={folder}"]) as server:
        port = server.url.rpartition(":")[2]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOCALLLM_PORT", port)
            patch.setenv("LOCALLLM_API_KEYS", server.token)
            assert cli("run", NAME, "Hi", "--max-tokens=4").returncode == 0
            (model,) = json.loads(cli("ps", "--json").stdout)
            assert (model["model"], model["status"]) == (NAME, "ready")
            assert NAME in cli("ps").stdout
            assert cli("stop", NAME).returncode == 0
            assert json.loads(cli("ps", "--json").stdout) == []
            assert cli("stop", NAME).returncode == 3


def test_ps_without_a_server_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALLLM_PORT", "1")
    done = cli("ps")
    assert (done.returncode, "start one with localllm serve" in done.stderr) == (1, True)


def test_an_unknown_name_is_not_found_and_close_ones_are_named(cli: Cli) -> None:
    for command in ("pull", "run", "show", "rm"):
        done = cli(command, "qwen33")
        assert (done.returncode, "did you mean qwen3" in done.stderr) == (3, True), command


def test_search_looks_in_the_catalog_and_on_hugging_face(cli: Cli) -> None:
    done = cli("search", "tiny")
    assert "hf.co/ann/tiny-GGUF" in done.stdout
    offline = json.loads(cli("search", "embed", "--offline", "--json").stdout)
    assert offline["hub"] == []
    assert any(entry["kind"] == "embedding" for entry in offline["catalog"])


def test_ctrl_c_stops_a_pull_in_order(hub: HubServer, folder: Path) -> None:
    options = ["--max-download-kb-per-s", "64", "--download-connections", "1"]
    pulling = subprocess.Popen([*COMMAND, "pull", NAME, *options], stderr=subprocess.PIPE, text=True)
    assert pulling.stderr is not None
    said = []
    for line in pulling.stderr:
        said.append(line)
        if line.startswith("downloading"):
            pulling.send_signal(signal.SIGINT)
            break
    said += pulling.stderr.readlines()
    pulling.stderr.close()
    assert pulling.wait(TIMEOUT_S) == 130, said
    assert f"localllm pull {NAME} resumes the download" in said[-1]
    assert "Traceback" not in "".join(said)
    before = sum("/resolve/" in asked.path for asked in hub.asked)
    subprocess.run([*COMMAND, "pull", NAME], check=True, capture_output=True, timeout=TIMEOUT_S)
    ranges = [asked.headers.get("range", "") for asked in hub.asked if "/resolve/" in asked.path][before:]
    header, *parts = ranges
    assert header.startswith("bytes=0-"), "read anew, to plan for the memory"
    assert parts
    assert not any(asked.startswith("bytes=0-") for asked in parts), "it began anew"


def test_a_model_is_made_from_a_modelfile_and_answers_in_its_way(cli: Cli, folder: Path) -> None:
    modelfile = folder / "Modelfile"
    modelfile.write_text("FROM demo\nSYSTEM Your name is Rumo.\nPARAMETER temperature 0\nPARAMETER num_predict 12\n")
    made = cli("create", "rumo", "-f", modelfile)
    assert made.returncode == 0, made.stderr
    answer = cli("run", "rumo", "What is your name?")
    assert "Rumo" in answer.stdout, answer.stdout + answer.stderr
    assert "SYSTEM" in cli("show", "rumo", "--modelfile").stdout


def test_quantize_takes_a_name_and_writes_a_file_that_answers(cli: Cli, folder: Path) -> None:
    assert cli("pull", NAME).returncode == 0
    target = folder / "small.gguf"
    done = cli("quantize", NAME, target, "Q8_0")
    assert done.returncode == 0, done.stderr
    assert cli("run", target, "Hi", "--max-tokens=3", "--threads=1").stdout.strip()
    assert os.path.getsize(target) > 0
    again = cli("quantize", NAME, target, "Q8_0")
    assert (again.returncode, "--force" in again.stderr) == (2, True)


def test_import_lists_what_others_have_and_takes_it_in_without_a_copy(
    cli: Cli, folder: Path, tiny_chat_model: Path
) -> None:
    there = folder / "lmstudio" / "ann" / "tiny-GGUF"
    there.mkdir(parents=True)
    shutil.copy(tiny_chat_model, there / "tiny-F32.gguf")
    listed = json.loads(cli("import", there, "--json").stdout)
    assert [row["state"] for row in listed] == ["imported"]
    assert len(json.loads(cli("list", "--json").stdout)) == 2
    blobs = folder / "models" / "blobs"
    files = [path for path in blobs.iterdir() if path.suffix != ".shared"] if blobs.exists() else []
    copied = [path for path in files if path.stat().st_nlink == 1]
    assert not copied
