"""`localllm tune` as a user meets it: real workers are measured, what is kept is used by every load, and undone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import httpx
import msgspec
import pytest

from localllm import LLM
from localllm.client.api import Client
from localllm.client.sidecar import Sidecar
from localllm.planning.tuned import AS_TUNED, Place, Tuning, Tunings, Values, base_of, forget
from localllm.runtime.finding import Finder
from localllm.settings import config
from localllm.tuning.candidates import DEFAULT
from localllm.tuning.workers import Workers
from localllm.types.load_options import LoadOptions
from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli
from tests.homes import share_findings
from tests.models import families

WON = Values(ubatch=128, repack="off", speculation="off")
"""That no default is."""
ONE_CANDIDATE = LoadOptions(ctx=2048, slots=4, ubatch=512, threads=1, threads_batch=1, repack="off", speculation="off")
"""Leaves attention to localllm."""
AS_OPTIONS = [
    "--ctx=2048", "--ubatch=512", "--threads=1", "--threads-batch=1", "--repack=off", "--speculation=off",
]  # fmt: skip


@pytest.fixture
def data_dir(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    share_findings(home, tmp_path)
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))
    monkeypatch.delenv("LOCALLLM_FLASH_ATTN", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def place(home: Path, tiny_chat_model: Path) -> Place:
    """This machine, as a worker sees it."""

    async def look() -> Place:
        settings = config.load({"home": home}, environ={})
        model, options = await Finder(settings).find_to_load(tiny_chat_model, None, {}, allow_paths=True)
        workers = Workers(settings, model, options)
        try:
            return (await workers.load(DEFAULT)).place
        finally:
            await workers.aclose()
            model.release()

    return asyncio.run(look())


@pytest.fixture
def tuned(data_dir: Path, place: Place, tiny_chat_model: Path) -> Path:
    """A model that was tuned here."""
    tuning = Tuning(
        model=tiny_chat_model.stem, place=place, base=base_of(LoadOptions(slots=4)), ctx=512, values=WON, gain=1.5
    )
    Tunings(data_dir).keep(tiny_chat_model, tuning)
    return tiny_chat_model


def mislead(data_dir: Path) -> None:
    """Turn round what is known of attention, so that the default is far slower than it could be."""
    with LLM("demo", options=ONE_CANDIDATE) as llm:
        assert llm.info.tuned == ""
    memory = data_dir / "attention.json"
    outcomes = msgspec.json.decode(memory.read_bytes())["outcomes"]
    point = {"decode_with_s": 1.0, "decode_without_s": 0.5, "prompt_with_s": 1.0, "prompt_without_s": 0.5}
    figures = {"points": [{"depth": 192, **point}, {"depth": 1024, **point}], "attempts": 1}
    memory.write_bytes(msgspec.json.encode({"outcomes": dict.fromkeys(outcomes, figures)}))


def test_real_workers_are_measured_and_the_faster_way_is_kept_and_used(cli: Cli, data_dir: Path) -> None:
    """Beside other programs it may be too noisy to keep anything: then nothing is, which is tested as well."""
    mislead(data_dir)
    done = cli("tune", "demo", "--minutes=0.25", "--json", *AS_OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "1 candidate" in done.stderr
    found = json.loads(done.stdout)
    (row,) = found["rows"]
    assert row["candidate"] == "flash_attn on"
    assert row["num_pairs"] >= 2
    assert min(row["prompt_tokens_per_s"], found["default"]["answer_tokens_per_s"]) > 0
    assert found["took_s"] < 60
    assert (found["outcome"] in ("kept", "default")) == (data_dir / "tuned").is_dir()
    with LLM("demo", options=ONE_CANDIDATE) as llm:
        info = llm.info
    if found["outcome"] == "kept":
        assert found["check"]["gain"] - found["check"]["noise"] > 1.0
        assert (info.flash_attn, info.flash_attn_reason) == ("on", AS_TUNED)
        assert info.tuned.startswith("flash_attn on: 1.")
    else:
        assert info.flash_attn == "off"
        assert info.tuned.startswith("as by default: ") == (found["outcome"] == "default")


def test_a_models_own_heads_stay_off_where_they_were_found_to_cost_more_than_they_bring(
    data_dir: Path, place: Place, tmp_path: Path
) -> None:
    model = families.write_gated_delta(tmp_path / "headed.gguf", n_nextn=1)
    with LLM(model) as llm:
        assert "mtp" in llm.info.sources
    base = base_of(LoadOptions(slots=4))
    tuning = Tuning(model="headed", place=place, base=base, ctx=512, values=Values(mtp="off"), gain=1.5)
    Tunings(data_dir).keep(model, tuning)
    with LLM(model) as llm:
        assert (llm.info.sources, llm.info.mtp_reason) == (("lookup", "prediction"), AS_TUNED)
        assert llm.info.tuned.startswith("mtp off: 1.50 x")


def test_every_face_loads_a_tuned_model_so_and_says_it(cli: Cli, tuned: Path, data_dir: Path) -> None:
    with Sidecar.start([str(tuned)]) as sidecar, Client(sidecar.url, sidecar.token) as client:
        (process,) = client.processes()
        url, key = f"{sidecar.url}/v1/models/{process.model}", {"x-api-key": sidecar.token}
        entry = httpx.get(url, headers=key, trust_env=False).json()
    assert (
        process.tuned
        == entry["tuned"]
        == "ubatch 128, repack off, speculation off: 1.50 x as fast as the default on 1970-01-01"
    )
    assert (entry["speculation"], entry["speculation_reason"]) == ("off", AS_TUNED)
    with LLM(tuned) as llm:
        assert (llm.info.ubatch, llm.info.speculation, llm.info.tuned) == (128, "off", process.tuned)
        assert llm.info.backend.endswith("use_extra_bufts=off")
    assert process.tuned in cli("show", tuned).stdout
    assert json.loads(cli("show", tuned, "--json").stdout)["tuned"][0]["values"]["ubatch"] == 128
    assert "ubatch 128" in cli("tune", "--list").stdout
    assert any("ubatch 128" in line for line in json.loads(cli("doctor", "--json").stdout)["tunings"])


def test_forgetting_it_brings_the_default_back(cli: Cli, tuned: Path) -> None:
    done = cli("tune", "--forget", tuned)
    assert (done.returncode, "loaded with the defaults" in done.stderr) == (0, True)
    with LLM(tuned) as llm:
        assert (llm.info.ubatch, llm.info.tuned) == (512, "")
    assert "nothing was tuned" in cli("tune", "--forget").stderr
    assert json.loads(cli("tune", "--list", "--json").stdout) == []


def test_what_is_set_wins_on_the_command_line_in_a_section_and_in_python(cli: Cli, tuned: Path, data_dir: Path) -> None:
    why = "not used: it was tuned with other settings (ubatch)"
    with LLM(tuned, options=LoadOptions(ubatch=256)) as llm:
        assert (llm.info.ubatch, llm.info.tuned) == (256, why)
    with Sidecar.start([str(tuned), "--ubatch=64"]) as sidecar, Client(sidecar.url, sidecar.token) as client:
        (process,) = client.processes()
        assert process.tuned == why
    assert cli("set", tuned, "ubatch=96").returncode == 0
    with LLM(tuned) as llm:
        assert (llm.info.ubatch, llm.info.tuned) == (96, why)


def test_another_runtime_does_not_use_it(tuned: Path, data_dir: Path, place: Place) -> None:
    (kept,) = Tunings(data_dir).every()
    (tuning,) = kept.tunings
    elsewhere = msgspec.structs.replace(place, backend="built-cpu: zen4")
    forget(kept)
    Tunings(data_dir).keep(tuned, msgspec.structs.replace(tuning, place=elsewhere))
    with LLM(tuned) as llm:
        assert llm.info.ubatch == 512
        assert llm.info.tuned == f"not used: it was tuned with built-cpu: zen4, and this is {place.backend}"


def test_a_damaged_file_is_said_with_the_remedy_and_the_model_loads(cli: Cli, tuned: Path, data_dir: Path) -> None:
    (file,) = (data_dir / "tuned").iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    done = cli("run", tuned, "Hi", "--max-tokens=2")
    assert done.returncode == 0
    assert "`localllm tune --forget` removes it" in done.stderr
    assert "damaged" in cli("tune", "--list").stderr
    assert cli("tune", "--forget", tuned).returncode == 0
    assert "damaged" not in cli("run", tuned, "Hi", "--max-tokens=2").stderr


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_ctrl_c_ends_it_with_nothing_written_and_no_process_left(data_dir: Path, tiny_chat_model: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "tune", str(tiny_chat_model), "--minutes=5"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "candidates" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, words) == (130, "localllm: interrupted; nothing was changed\n")
    assert not (data_dir / "tuned").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["tune"], 2, "name the model to tune"),
        (["tune", "demo", "--minutes=0"], 2, "minutes must be from"),
        (["tune", "demo", "--list", "--forget"], 2, "cannot be combined"),
        (["tune", "./none.gguf"], 3, "there is no model file"),
        (["tune", "--forget", "./none.gguf"], 3, "there is no model file"),
        (["tune", "demo", "--ubatch=1"], 2, "ubatch must be from"),
    ],
)
def test_what_cannot_be_tuned_is_said(arguments: list[str], code: int, words: str, cli: Cli, data_dir: Path) -> None:
    done = cli(*arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_more_threads_for_prompts_are_told_and_repacking_that_is_asked_for_is_had_or_refused(
    tiny_chat_model: Path,
) -> None:
    with LLM(tiny_chat_model, options=LoadOptions(threads=1, threads_batch=2, repack="off")) as llm:
        assert (llm.info.threads, llm.info.threads_batch) == (1, 2)
        assert llm.info.backend.endswith("use_extra_bufts=off")
        assert llm.complete("Hello").finish.usage.completion_tokens
