"""`localllm bench` against scripted servers: what it prints where, what it refuses, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from localllm.bench.levels import Plan
from localllm.cli.commands.bench import BenchOptions, bench_model, context_for
from localllm.errors import InvalidParameter
from tests.scripted_llm import PATIENCE_S, Call, ScriptedLLM
from tests.waiting import line_with


def options(server: ScriptedLLM, **given: Any) -> BenchOptions:
    return BenchOptions(server.url, **{"concurrency": "1,2", "requests": 4, "max_tokens": 9, **given})


def test_a_table_goes_to_stdout_and_remarks_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedLLM() as server:
        assert bench_model(options(server)) == 0
    printed = capsys.readouterr()
    rows = {line.rpartition("  ")[0].strip(): line for line in printed.out.splitlines()}
    assert f"scripted at {server.url}/v1 (chat)" in printed.out
    assert any(line.split()[0] == "concurrency" and line.split()[-2:] == ["1", "2"] for line in rows.values() if line)
    for label in ("output tokens/s", "TTFT ms p50", "TPOT ms p90", "latency s p99", "requests/s"):
        assert label in printed.out
    assert "\x1b" not in printed.out
    assert "note: p99 of 4 requests" in printed.err


def test_json_is_all_of_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedLLM() as server:
        assert bench_model(options(server, as_json=True, seed=7)) == 0
    found = json.loads(capsys.readouterr().out)
    assert [level["concurrency"] for level in found["levels"]] == [1, 2]
    assert [level["output_tokens"] for level in found["levels"]] == [36, 36]
    assert (found["plan"]["seed"], found["target"]["model"], found["interrupted"]) == (7, "scripted", False)
    assert found["target"]["server"].startswith("BaseHTTP")
    assert "\n" not in found["environment"]["cpu"]


def test_a_plot_is_written_with_a_point_for_each_level(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    with ScriptedLLM() as server:
        assert bench_model(options(server, svg=path)) == 0
    text = path.read_text("utf-8")
    titles = [element.text or "" for element in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}title")]
    assert sum(title.startswith("all requests together, ") for title in titles) == 2
    assert sum(title.startswith("TTFT p90, ") for title in titles) == 2


def test_where_nothing_is_answered_the_reason_is_shown_and_the_exit_code_is_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def script(call: Call) -> None:
        call.fail(503, {"error": {"message": "still loading"}})

    with ScriptedLLM(script) as server:
        assert bench_model(options(server, svg=tmp_path / "plot.svg")) == 1
    printed = capsys.readouterr()
    assert "concurrency 1: 4 failed with http_503: still loading" in printed.err
    assert "requests failed" in printed.out
    assert not list(tmp_path.iterdir())


def test_failures_beside_answers_are_counted_and_are_no_failure_of_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def script(call: Call) -> None:
        if call.number == 4:
            call.fail(500, {"error": {"message": "oops"}})
        else:
            call.answer()

    with ScriptedLLM(script) as server:
        assert bench_model(options(server, svg=tmp_path / "plot.svg")) == 0
    assert "1 failed with http_500: oops" in capsys.readouterr().err
    assert "1 failed" in (tmp_path / "plot.svg").read_text("utf-8")


def test_a_key_comes_from_the_environment_and_is_never_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "open-sesame")
    with ScriptedLLM() as server:
        assert bench_model(options(server, api_key_env="SOME_KEY", as_json=True)) == 0
        with pytest.raises(InvalidParameter, match="NO_SUCH_KEY is not set"):
            bench_model(options(server, api_key_env="NO_SUCH_KEY"))
    assert {call.headers["authorization"] for call in server.calls} == {"Bearer open-sesame"}
    printed = capsys.readouterr()
    assert "open-sesame" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("target", "given", "reason"),
    [
        ("http://127.0.0.1:9", {"load": {"slots": 4}}, "--slots"),
        ("http://127.0.0.1:9", {"svg": Path("no/such/folder/x.svg")}, "--svg"),
        ("http://127.0.0.1:9", {"concurrency": "many"}, "--concurrency"),
        ("http://127.0.0.1:9", {"requests": 1}, "--requests"),
        ("127.0.0.1:9", {}, "http://127.0.0.1:9"),
        ("demo", {"model": "other"}, "--model"),
        ("demo", {"api_key_env": "HOME"}, "--api-key-env"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    target: str, given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        bench_model(BenchOptions(target, **given))
    assert reason in str(caught.value)


def test_a_server_of_its_own_gets_the_context_that_prompt_and_answer_need() -> None:
    assert context_for(Plan()) == 512
    assert context_for(Plan(prompt_tokens=1000, shared_prefix_tokens=1000, max_tokens=500)) == 3328


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_prints_what_was_measured_so_far_and_ends_with_130() -> None:
    def script(call: Call) -> None:
        if call.number < 5:
            call.answer()
        else:
            call.stay_silent()

    code = (
        "import sys; from localllm.cli.commands.bench import BenchOptions, bench_model;"
        "sys.exit(bench_model(BenchOptions(sys.argv[1], concurrency='1', requests=9)))"
    )
    with (
        ScriptedLLM(script) as server,
        subprocess.Popen(
            [sys.executable, "-P", "-c", code, server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        ) as process,
    ):
        line_with(process, "2 of 9 answered")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "concurrency 1 was interrupted" in err
    assert next(line for line in out.splitlines() if line.startswith("concurrency")).split()[1] == "1*"
    assert next(line for line in out.splitlines() if line.startswith("requests answered")).split()[2] == "2"
