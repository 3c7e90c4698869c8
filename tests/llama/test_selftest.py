"""The self-test's chooser, with children that really die, hang and lie; then with the real library and file."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from localllm.errors import InternalError, LoadFailed
from localllm.llama.library import CpuChoice
from localllm.llama.probes import selftest
from localllm.llama.probes.selftest_child import Request
from localllm.llama.probes.selftest_memory import Memory, Outcome, Trial
from localllm.llama.runtimes import installed
from localllm.system import cpu, libraries
from tests.models import selftest_file

RECORDED = msgspec.json.decode(selftest.RECORDED_PATH.read_bytes(), type=selftest.RecordedRun)
VARIANTS: list[tuple[str, int]] = [("best", 90), ("good", 80), ("fair", 70), ("plain", 1), ("alien", 0)]


class BadChild:
    """The command of a misbehaving child, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self._plan = folder / "plan.json"
        self.command = [sys.executable, str(Path(__file__).with_name("bad_selftest_child.py")), str(self._plan)]
        self.plan({})

    def plan(self, deeds: dict[str, str], *, linked_in: bool = False) -> None:
        survey: dict[str, Any] = {"linked_in": True} if linked_in else {"variants": VARIANTS}
        self._plan.write_text(json.dumps({"deeds": deeds, "survey": survey, "greedy": RECORDED.greedy}))

    def _log(self) -> list[str]:
        path = Path(f"{self._plan}.log")
        return path.read_text().splitlines() if path.exists() else []

    @property
    def asked(self) -> list[str]:
        """`survey` and the labels of the candidates that were tried, in order."""
        return [line.split()[0] for line in self._log()]

    @property
    def pids(self) -> list[int]:
        return [int(line.split()[1]) for line in self._log()]


@pytest.fixture
def child(tmp_path: Path) -> BadChild:
    return BadChild(tmp_path)


@pytest.fixture
def library_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of files that are no libraries: nothing may load them."""
    package = tmp_path / "site-packages" / "llama_cpp"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "9.9.9"\n')
    path = package / "lib" / libraries.shared_library_names("llama")[0]
    path.write_bytes(b"build one")
    monkeypatch.delitem(sys.modules, "llama_cpp", raising=False)
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH", raising=False)
    monkeypatch.syspath_prepend(package.parent)
    return path


def run(child: BadChild, timeout_s: float = 20) -> Outcome:
    return selftest.run(RECORDED, child.command, timeout_s)


@pytest.mark.parametrize(
    ("deed", "result", "detail"),
    [
        pytest.param("SIGILL", "died", "SIGILL", marks=pytest.mark.skipif(sys.platform == "win32", reason="POSIX")),
        pytest.param("SIGSEGV", "died", "SIGSEGV", marks=pytest.mark.skipif(sys.platform == "win32", reason="POSIX")),
        ("wrong", "wrong", "1 of 81 tokens differ"),
        ("garbage", "failed", "unreadable"),
        ("exit 3", "failed", "exit code 3: no such library"),
        ("error", "failed", "llama_decode returned -3"),
    ],
)
def test_a_candidate_that_fails_makes_room_for_the_next(child: BadChild, deed: str, result: str, detail: str) -> None:
    child.plan({"best": deed})
    outcome = run(child)
    assert outcome.choice == CpuChoice("good")
    assert (outcome.tried[0].choice, outcome.tried[0].result) == (CpuChoice("best"), result)
    assert detail in outcome.tried[0].detail


def test_a_candidate_that_hangs_is_killed_in_time(child: BadChild) -> None:
    child.plan({"best": "hang"})
    outcome = run(child, timeout_s=1.5)
    assert outcome.choice == CpuChoice("good")
    assert (outcome.tried[0].result, outcome.tried[0].detail) == ("hung", "no answer in 1.5 s")
    assert 1.5 <= outcome.tried[0].seconds < 4
    if sys.platform != "win32":
        gone = subprocess.run(["kill", "-0", str(child.pids[1])], capture_output=True, check=False)
        assert gone.returncode != 0


def test_no_more_than_three_survivors_are_measured_and_none_that_the_cpu_cannot_run(child: BadChild) -> None:
    child.plan({"good": "wrong"})
    run(child)
    assert child.asked == ["survey", "best", "good", "fair", "plain"]


@pytest.mark.parametrize(("speed", "choice"), [(110, "best"), (130, "fair")])
def test_a_lower_rated_candidate_wins_only_if_clearly_faster(child: BadChild, speed: int, choice: str) -> None:
    child.plan({"fair": f"ok {speed}"})
    assert run(child).choice.variant == choice


def test_a_plain_build_that_dies_runs_without_extra_buffer_types(child: BadChild) -> None:
    child.plan({"linked-in": "wrong" if sys.platform == "win32" else "SIGILL"}, linked_in=True)
    outcome = run(child)
    assert outcome.choice == CpuChoice(None, extra_bufts=False)
    assert outcome.choice.label() == "linked-in, use_extra_bufts=off"
    assert child.asked == ["survey", "linked-in", "linked-in-safe"]


def test_the_safer_setting_is_not_tried_while_the_fast_one_works(child: BadChild) -> None:
    child.plan({}, linked_in=True)
    assert run(child).choice == CpuChoice(None)
    assert child.asked == ["survey", "linked-in"]


def test_variants_get_the_safer_setting_when_none_survives_with_the_fast_one(child: BadChild) -> None:
    child.plan({name: "wrong" for name, _ in VARIANTS} | {"best-safe": "wrong"})
    assert run(child).choice == CpuChoice("good", extra_bufts=False)


def test_when_nothing_works_the_error_says_what_was_tried_and_what_to_type(child: BadChild) -> None:
    child.plan({"linked-in": "wrong", "linked-in-safe": "exit 3"}, linked_in=True)
    with pytest.raises(selftest.NothingWorks) as caught:
        run(child)
    message = str(caught.value)
    assert "linked-in computes wrongly (1 of 81 tokens differ)" in message
    assert "linked-in, use_extra_bufts=off failed (exit code 3: no such library)" in message
    assert installed.install_command() in message
    assert [trial.result for trial in caught.value.tried] == ["wrong", "failed"]


def test_a_reason_that_all_candidates_share_is_said_once() -> None:
    trials = [
        Trial(choice=CpuChoice(name), result="failed", detail="no such symbol", seconds=0.1)
        for name in ("zen4", "haswell", "x64")
    ]
    other = Trial(choice=CpuChoice("sse42"), result="died", detail="signal SIGILL", seconds=0.1)
    assert selftest.describe_all([*trials, other]) == (
        "zen4 failed (no such symbol), and 2 others likewise; sse42 died (signal SIGILL)"
    )


def test_a_library_that_dies_while_it_is_loaded_is_an_error_with_the_reason(child: BadChild) -> None:
    child.plan({"survey": "exit 3"})
    with pytest.raises(LoadFailed, match=r"cannot be used.*exit code 3.*pip install"):
        run(child)


def test_an_outcome_is_remembered_and_no_child_runs_again(child: BadChild, library_file: Path, tmp_path: Path) -> None:
    child.plan({"best": "wrong"})
    first = selftest.choose(tmp_path / "data", command=child.command)
    num_children = len(child.asked)
    again = selftest.choose(tmp_path / "data", command=child.command)
    assert (first.from_cache, again.from_cache) == (False, True)
    assert (again.choice, again.tried) == (first.choice, first.tried)
    assert len(child.asked) == num_children
    assert not selftest.choose(tmp_path / "data", command=child.command, fresh=True).from_cache


def test_another_library_file_or_cpu_is_tested_anew(
    child: BadChild, library_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not selftest.choose(tmp_path / "data", command=child.command).from_cache
    library_file.write_bytes(b"build two")
    assert not selftest.choose(tmp_path / "data", command=child.command).from_cache
    library_file.write_bytes(b"build one")
    assert selftest.choose(tmp_path / "data", command=child.command).from_cache
    monkeypatch.setattr(cpu, "cpu_model", lambda: "another CPU")
    assert not selftest.choose(tmp_path / "data", command=child.command).from_cache


def test_a_new_variant_file_is_tested_anew(child: BadChild, library_file: Path, tmp_path: Path) -> None:
    folder = library_file.parents[2] / "bin"
    folder.mkdir()
    selftest.choose(tmp_path / "data", command=child.command)
    (folder / libraries.shared_library_names("ggml-cpu-zen9")[0]).write_bytes(b"?")
    assert list(installed.find().variants) == ["zen9"]
    assert not selftest.choose(tmp_path / "data", command=child.command).from_cache


@pytest.mark.parametrize("content", [b"", b"{", b'{"outcomes": 3}', b'{"outcomes": {"x": {"choice": 1}}}', b"\xff\xfe"])
def test_a_corrupt_memory_costs_a_warning_and_a_new_test(
    child: BadChild, library_file: Path, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "selftest.json").write_bytes(content)
    assert not selftest.choose(tmp_path, command=child.command).from_cache
    assert "unreadable" in caplog.text
    assert selftest.choose(tmp_path, command=child.command).from_cache


def test_a_memory_that_cannot_be_written_is_not_fatal(
    child: BadChild, library_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    not_a_folder = tmp_path / "file"
    not_a_folder.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert selftest.choose(not_a_folder / "data", command=child.command).choice == CpuChoice("best")
    assert "not remembered" in caplog.text


def test_the_memory_stays_whole_while_many_write_it_and_keeps_only_the_latest(tmp_path: Path) -> None:
    trial = Trial(choice=CpuChoice("x"), result="ok", detail="", seconds=1)
    memory, outcome = Memory(tmp_path), Outcome(choice=CpuChoice("x"), tried=(trial,))

    def write(writer: int) -> None:
        for number in range(40):
            Memory(tmp_path).put(f"{writer} {number}", outcome)
            json.loads(memory.path.read_bytes())

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(memory.path.read_bytes())["outcomes"]) <= 16
    assert list(tmp_path.iterdir()) == [memory.path]


def test_a_damaged_test_file_is_not_blamed_on_the_library(
    child: BadChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "MODEL_PATH", tmp_path / "selftest.gguf")
    selftest.MODEL_PATH.write_bytes(b"GGUF")
    with pytest.raises(InternalError, match="damaged"):
        run(child)
    assert child.asked == []


def test_the_carried_file_is_what_its_maker_makes_and_small(tmp_path: Path) -> None:
    selftest_file.make(tmp_path)
    for name in ("selftest.gguf", "selftest.json"):
        assert (tmp_path / name).read_bytes() == (selftest_file.DATA / name).read_bytes()
    assert selftest.MODEL_PATH.stat().st_size < 1_000_000


@pytest.mark.parametrize("rounded", [False, True])
def test_every_recorded_token_leads_clearly_in_exact_and_in_rounded_arithmetic(rounded: bool) -> None:
    rows = selftest_file.Oracle(selftest_file.draw(), rounded=rounded).path([*RECORDED.prompt, *RECORDED.singles])
    assert [int(row.argmax()) for row in rows] == list(RECORDED.greedy)
    assert min(selftest_file.margin(row) for row in rows) >= selftest_file.MIN_MARGIN - 0.001
    assert (len(RECORDED.prompt), len(RECORDED.singles)) == (65, 16)


@pytest.mark.parametrize("name", selftest_file.MATRICES)
def test_noise_of_a_third_in_any_one_matrix_changes_a_recorded_token(name: str) -> None:
    """A third of the matrix's own spread; so does leaving the matrix out, at nine positions or more."""
    oracle = selftest_file.Oracle(selftest_file.draw())
    weights = oracle.weights[name]
    noise = np.random.default_rng(0).standard_normal(weights.shape) * weights.std() / 3
    for garbled, at_least in ((weights + noise.astype(np.float32), 1), (weights * 0, 9)):
        oracle.weights[name] = garbled
        rows = oracle.path([*RECORDED.prompt, *RECORDED.singles])
        changed = sum(int(row.argmax()) != token for row, token in zip(rows, RECORDED.greedy, strict=True))
        assert changed >= at_least


def test_the_carried_file_holds_every_type_that_kernels_are_special_for() -> None:
    kinds = {kind.name for kind, _, _ in selftest_file.MATRICES.values()}
    assert kinds == {"Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "F16"}
    assert all(rows % 32 == 0 for _, rows, _ in selftest_file.MATRICES.values())


real = pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")


@real
def test_the_real_library_passes_and_is_remembered_without_being_loaded_here(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from localllm.llama.probes import selftest;"
        "first, again = (selftest.choose(Path(sys.argv[1])) for _ in 'ab');"
        "assert not first.from_cache and again.from_cache and first.choice == again.choice, (first, again);"
        "assert not [name for name in sys.modules if name.startswith('llama_cpp')];"
        "print(first.choice.label())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {*installed.find().variants, "linked-in", "linked-in, use_extra_bufts=off"}


@real
def test_every_cpu_variant_gives_the_recorded_tokens_with_and_without_extra_buffers() -> None:
    """On the plain build this is linked-in twice; a variant may only die or fail, never compute wrongly."""
    candidates = selftest.rounds(selftest.survey(selftest.child_command(), 60))
    trials = [
        selftest.try_choice(choice, RECORDED, selftest.child_command(), 60, measure=False)
        for choices in candidates
        for choice in choices
    ]
    assert [selftest.describe(trial) for trial in trials if trial.result == "wrong"] == []
    assert any(trial.result == "ok" for trial in trials)


@real
def test_a_real_child_on_a_garbled_file_is_found_to_compute_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = selftest_file.draw()
    kind, blocks = tensors["blk.1.ffn_up"]
    tensors["blk.1.ffn_up"] = (kind, np.zeros_like(blocks))
    selftest_file.write_gguf(tmp_path / "garbled.gguf", tensors)
    monkeypatch.setattr(selftest, "MODEL_PATH", tmp_path / "garbled.gguf")
    (first, *_), _ = selftest.rounds(selftest.survey(selftest.child_command(), 60))
    trial = selftest.try_choice(first, RECORDED, selftest.child_command(), 60)
    assert trial.result in {"wrong", "died"}
    assert "tokens differ" in trial.detail or trial.result == "died"


@real
def test_a_child_whose_parent_is_gone_ends_by_itself() -> None:
    """Measuring takes 0.2 s, and it is told to give up before."""
    name = next(iter(selftest.rounds(selftest.survey(selftest.child_command(), 60))[0])).variant
    request = Request(
        choice=CpuChoice(name),
        model_path=str(selftest.MODEL_PATH),
        prompt=RECORDED.prompt,
        singles=RECORDED.singles,
        measure=True,
    )
    command = [*selftest.child_command(), "0.05"]
    done = subprocess.run(command, input=msgspec.json.encode(request), capture_output=True, timeout=30, check=False)
    assert done.returncode != 0
    assert done.stdout == b""
