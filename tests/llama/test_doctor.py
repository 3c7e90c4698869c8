"""`localllm doctor`: the story in words and in JSON, also when its own child dies of the library."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from localllm.cli.commands import doctor as command
from localllm.cli.shared.formats import in_generic_format
from localllm.llama.library import CpuChoice
from localllm.llama.probes import doctor as child
from localllm.llama.probes.selftest_memory import Outcome
from localllm.llama.runtimes import installed
from localllm.registry.offers import machine
from localllm.settings.config import Settings
from localllm.system import libraries
from localllm.system import machine as system_machine
from localllm.types.diagnosis import Candidate, Report
from tests.models.maker import write_llama

real = pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")


def report(**changes: object) -> Report:
    return msgspec.structs.replace(
        Report(localllm="0.1.0", python="3.11.7", platform="Linux x86_64", cpu="Test CPU", package_version="0.3.36"),
        **changes,
    )


def candidate(label: str, result: str, detail: str = "") -> Candidate:
    return Candidate(
        label=label, result=result, detail=detail, seconds=0.1, prefill_tokens_per_s=40_000, decode_tokens_per_s=9_000
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@real
def test_doctor_tells_the_whole_story_and_ends_well(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.doctor(Settings(home=home)) == 0
    out, err = capfd.readouterr()
    for wanted in (
        "Library ",
        "llama-cpp-python 0.3",
        "Self-test",
        "works: ",
        "In use ",
        "Features ",
        "Devices ",
        "CPU:",
        "Grammars   schemas and grammars are supported",
        "Formats    the format of calls",
    ):
        assert wanted in out
    assert str(home / "selftest.json") in out
    assert "Models can be loaded here." in out
    assert err == ""


@real
def test_the_json_is_one_object_with_the_same_facts(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command.doctor(Settings(home=home))
    capfd.readouterr()
    assert command.doctor(Settings(home=home), as_json=True) == 0
    out, _ = capfd.readouterr()
    found = msgspec.json.decode(out, type=Report)
    assert found.works
    assert found.remembered
    assert found.used in {candidate.label for candidate in found.candidates if candidate.result == "ok"}
    assert any(device.kind == "cpu" and device.total_bytes > 0 for device in found.devices)


@real
def test_fresh_runs_the_self_test_again(home: Path) -> None:
    machine.examine(Settings(home=home), fresh=False)
    assert machine.examine(Settings(home=home), fresh=False).remembered
    assert not machine.examine(Settings(home=home), fresh=True).remembered


@real
def test_a_plugin_that_does_not_load_is_the_problem_and_the_exit_code(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / libraries.shared_library_names("ggml-bogus")[0]
    plugin.write_bytes(b"this is no library")
    assert command.doctor(Settings(home=home, plugin_dir=tmp_path)) == 4
    out, _ = capfd.readouterr()
    assert "Problem" in out
    assert plugin.name in out
    assert "Models cannot be loaded here." in out


def test_doctor_never_loads_the_library_into_the_command(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from localllm.cli.commands.doctor import doctor; from localllm.settings.config import Settings\n"
        "doctor(Settings(home=Path(sys.argv[1])), as_json=True);"
        "loaded = set(sys.modules) - {'localllm.llama', 'localllm.types.diagnosis'};"
        "sys.exit(any(name.startswith(('llama_cpp', 'localllm.llama', 'rich')) for name in loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("cut", [0, 7])
def test_when_the_child_dies_what_it_had_found_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], cut: int
) -> None:
    """Also when it dies in the middle of the next line."""
    line = msgspec.json.encode(report(used="zen4", candidates=(candidate("zen4", "ok"),))) + b"\n"
    script = tmp_path / "dies.py"
    script.write_text(
        "import os, signal, sys\n"
        f"os.write(1, {line + line[:cut]!r})\n"
        "os.kill(os.getpid(), signal.SIGSEGV)\n"
    )  # fmt: skip
    monkeypatch.setattr(machine, "child_command", lambda: [sys.executable, str(script)])
    assert command.doctor(Settings(home=tmp_path)) == 4
    out, _ = capfd.readouterr()
    assert "zen4  works" in out
    assert "the doctor's process ended early (signal SIGSEGV)" in out


def test_a_child_that_says_nothing_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "child_command", lambda: [sys.executable, "-c", ""])
    found = machine.examine(Settings(home=tmp_path), fresh=False)
    assert (found.works, found.error) == (False, "the doctor's process ended early (it gave no answer)")


def test_the_story_of_a_fallback_names_the_death_the_reason_and_what_to_type() -> None:
    text = "\n".join(
        command.story(
            report(
                works=True,
                candidates=(
                    candidate("linked-in", "died", "signal SIGILL"),
                    candidate("linked-in, use_extra_bufts=off", "ok"),
                ),
                used="linked-in, use_extra_bufts=off",
                advice="a build with CPU variants is faster",
                command=installed.install_command(),
            )
        )
    )
    assert "linked-in                       died: signal SIGILL" in text
    assert "In use     linked-in, use_extra_bufts=off: it computes the expected tokens, as the only one" in text
    assert f"\n  {installed.install_command()}\n" in text


def test_the_story_says_why_there_are_no_grammars() -> None:
    text = "\n".join(command.story(report(works=True, grammars_missing="llguidance cannot be imported (no file)")))
    assert "Grammars   unavailable: llguidance cannot be imported (no file)" in text
    assert "Models can be loaded here." in text


def test_the_story_names_models_whose_chat_format_is_not_known(tmp_path: Path) -> None:
    odd, plain = tmp_path / "odd.gguf", tmp_path / "plain.gguf"
    write_llama(odd, chat_template="{% for m in messages %}{{ m.content }}{% endfor %}")
    write_llama(plain)
    found = in_generic_format([str(odd), str(plain), "demo", "nothing:1b"], tmp_path)
    assert found[str(odd)] == "the template knows no tools"
    assert "no model is called" in found["nothing:1b"]
    assert len(found) == 2, "what is known, and what does not chat, is no news"
    text = "\n".join(command.story(report(generic_formats={"odd": found[str(odd)]})))
    assert "Formats    odd uses the generic format: the template knows no tools" in text
    assert "known for every chat model" in "\n".join(command.story(report(generic_formats={})))
    assert "Formats" not in "\n".join(command.story(report()))


@pytest.mark.parametrize(
    ("used", "reason"),
    [("best", "no other is clearly faster"), ("good", "clearly faster than best, which is rated higher")],
)
def test_the_story_says_why_a_candidate_was_chosen(used: str, reason: str) -> None:
    text = "\n".join(command.story(report(used=used, candidates=(candidate("best", "ok"), candidate("good", "ok")))))
    assert reason in text


def test_nothing_is_wider_than_a_terminal_but_what_is_to_be_copied() -> None:
    found = report(
        error="word " * 60, advice="word " * 60, command="copy " * 60, features={"CPU": ["FEATURE"] * 50}, works=False
    )
    assert all(len(line) <= 110 or "copy" in line for line in "\n".join(command.story(found)).splitlines())


@pytest.mark.skipif(not system_machine.builds_cpu_variants(), reason="the advice is for Linux")
def test_advice_is_given_to_plain_builds_only(tmp_path: Path) -> None:
    files = installed.InstalledBindings("0.3.36", tmp_path, tmp_path, (tmp_path / "libllama.so",), {})
    fast, slow = (Outcome(choice=CpuChoice(None, extra_bufts), tried=()) for extra_bufts in (True, False))
    assert "two to three times" in (child.advice(files, slow, tmp_path) or "")
    assert "plain build" in (child.advice(files, fast, tmp_path) or "")
    with_variants = msgspec.structs.replace(files, variants={"zen4": tmp_path})
    assert child.advice(with_variants, fast, tmp_path) is None
