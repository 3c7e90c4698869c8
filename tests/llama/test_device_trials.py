"""What is made of a device's trial, with children that answer, crash or hang. tests/gpu tries real devices."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from localllm.llama.library import CpuChoice
from localllm.llama.probes import device_trials, selftest
from localllm.llama.probes.device_trials import DeviceTrial, try_device
from localllm.llama.probes.selftest import RecordedRun

RECORDED = msgspec.json.decode(selftest.RECORDED_PATH.read_bytes(), type=RecordedRun)
ANSWER = "import sys; sys.stdin.read(); print({answer!r}, flush=True); {then}"


FAST = {"prompt_times": 30.0, "answer_times": 9.0}
WRONG = {**FAST, "greedy": [1] * len(RECORDED.greedy)}
ROUNDED = {**FAST, "greedy": [0, *RECORDED.greedy[1:]]}
SLOW = "answers 0.2 times as fast as on the CPU, so --gpu-layers auto leaves it alone"


@pytest.mark.parametrize(
    ("answer", "then", "is_automatic", "said"),
    [
        ({**FAST, "greedy": RECORDED.greedy}, "pass", True, "right, prompts 30 and answers 9 times as fast"),
        (ROUNDED, "pass", True, "right"),
        ({"prompt_times": 0.1, "answer_times": 0.2}, "pass", False, SLOW),
        ({"prompt_times": 4.0, "answer_times": 0.2}, "pass", False, SLOW),
        (WRONG, "pass", False, "computes wrongly"),
        (FAST, "import os; os.abort()", False, "failed in the self-test (signal SIGABRT)"),
        ({"error": "it has no memory"}, "pass", False, "failed in the self-test (it has no memory)"),
        (FAST, "import time; time.sleep(60)", False, "no answer in"),
    ],
)
def test_a_device_is_automatic_only_if_it_is_right_and_faster(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, object], then: str, is_automatic: bool, said: str
) -> None:
    line = msgspec.json.encode(answer).decode()
    code = ANSWER.format(answer=line, then=then)
    monkeypatch.setattr(device_trials, "_command", lambda: [sys.executable, "-c", code])
    monkeypatch.setattr(device_trials, "TIMEOUT_S", 2.0)
    trial = try_device(CpuChoice(None, True), "Vulkan0")
    assert trial.is_automatic is is_automatic
    assert said in str(trial)


def test_a_trial_is_made_once_and_again_when_a_fresh_one_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    speeds = iter((30.0, 0.5))
    monkeypatch.setattr(
        device_trials, "try_device", lambda *_: DeviceTrial(prompt_times=next(speeds), answer_times=1.0)
    )
    listed = msgspec.json.encode({"fingerprint": "f", "devices": [
        {"name": name, "description": "a GPU", "kind": "gpu", "backend": backend, "free_bytes": 1, "total_bytes": 1}
        for name, backend in (("Vulkan0", "Vulkan"), ("RPC0", "RPC"))
    ]}).decode()  # fmt: skip
    monkeypatch.setattr(
        device_trials, "_command", lambda: [sys.executable, "-c", ANSWER.format(answer=listed, then="pass")]
    )
    choice = CpuChoice(None, True)
    found = [device_trials.examine_runtime(choice, tmp_path, fresh=fresh) for fresh in (False, False, True)]
    assert [[each.name for each in devices] for devices in found] == [["Vulkan0"]] * 3
    assert [devices[0].is_automatic for devices in found] == [True, True, False]
