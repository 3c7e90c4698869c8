"""`localllm bench` with models: a server of its own, measured over HTTP, and gone afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from localllm.cli.commands.bench import BenchOptions, bench_model


def test_the_demo_model_is_measured_without_any_preparation(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = BenchOptions("demo", concurrency="1,2", requests=2, max_tokens=8, as_json=True, load={"threads": 1})
    assert bench_model(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["started_here"], found["target"]["model"], found["target"]["api"]) == (True, "demo", "chat")
    assert (found["target"]["entry"]["slots"], found["target"]["entry"]["ctx"]) == (2, 512)
    for level in found["levels"]:
        assert (level["num_answers"], level["failures"]) == (2, [])
        assert level["output_tokens"] == 16  # ignore_eos: each as long as asked
        assert level["output_tokens_counted"]
        assert 50 < level["prompt_tokens_per_answer"] < 110  # 64 and what the template adds
        assert 0 < level["ttft_s"]["p50"] < level["latency_s"]["p50"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(found["target"]["base_url"] + "/models", trust_env=False)


def test_a_model_without_template_and_with_a_small_context_is_measured_too(
    tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = BenchOptions(str(tiny_model), concurrency="1", requests=1, prompt_tokens=200, max_tokens=4)
    assert bench_model(asked._replace(load={"threads": 1})) == 0
    printed = capsys.readouterr()
    assert "(completions)" in printed.out
    assert "no chat template" in printed.err
