"""`localllm batch`: every line answered once, whatever happens to the process."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli
from tests.waiting import until

NUM_LINES = 60


def request(number: int) -> dict[str, Any]:
    url = ("/v1/chat/completions", "/v1/completions", "/v1/responses")[number % 3]
    text = f"Word {number}"
    asked = ({"messages": [{"role": "user", "content": text}]}, {"prompt": text}, {"input": text})[number % 3]
    tokens = "max_output_tokens" if number % 3 == 2 else "max_tokens"
    body = {"model": "gpt-4o-mini", **asked, tokens: 24, "temperature": 0}
    return {"custom_id": f"id-{number}", "method": "POST", "url": url, "body": body}


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(request(number)) + "\n" for number in range(NUM_LINES)))
    return path


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_killed_batch_is_gone_on_with(cli: Cli, lines: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    command = ["batch", str(lines), "-o", str(out), "-m", "demo"]
    with subprocess.Popen([*COMMAND, *command], stderr=subprocess.DEVNULL) as process:
        until(lambda: out.exists() and out.read_bytes().count(b"\n") >= 5)
        process.kill()
    with out.open("ab") as file:
        file.write(b'{"id": "batch_req_1", "custom')  # as a power cut leaves it
    num_kept = len(out.read_bytes().splitlines()) - 1
    done = cli(*command, "--json")
    assert done.returncode == 0
    assert f"{num_kept:,} of 60 are answered already; its last line was not whole" in done.stderr
    assert json.loads(done.stdout)["answered"] == NUM_LINES - num_kept
    assert sorted(each["custom_id"] for each in results(out)) == sorted(f"id-{number}" for number in range(NUM_LINES))
    assert {each["response"]["status_code"] for each in results(out)} == {200}
    assert {each["response"]["body"]["model"] for each in results(out)} == {"demo"}

    assert cli(*command).stderr == "localllm: 60 of 60 are answered already\n"
    lines.write_text(lines.read_text().replace("Word 7", "Words 7"))
    changed = cli(*command)
    assert changed.returncode == 2
    assert "has results that were answered for other requests: 1, the first is 'id-7'; --overwrite begins anew" in (
        changed.stderr
    )


def test_ctrl_c_says_how_to_go_on(lines: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    command = [*COMMAND, "batch", str(lines), "-o", str(out), "-m", "demo"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: out.exists() and out.read_bytes().count(b"\n") >= 5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert "of 60 lines; the same command goes on" in said
    assert "Traceback" not in said


def test_a_table_is_asked_row_by_row_and_a_wrong_line_is_a_result(cli: Cli, tmp_path: Path) -> None:
    table, out = tmp_path / "people.csv", tmp_path / "out.jsonl"
    table.write_text("name,age\nMira,34\nTom,5,more\n")
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}))
    asked = ["--prompt", "{name} is {age} years old. Give me JSON.", "--schema", str(schema), "-m", "demo"]
    done = cli("batch", table, "-o", out, *asked)
    assert done.returncode == 1
    assert "line 2: row 2 has more values than there are columns" in done.stderr
    right, wrong = sorted(results(out), key=lambda each: str(each["custom_id"]))
    assert set(json.loads(right["response"]["body"]["choices"][0]["message"]["content"])) == {"age"}
    assert wrong["error"]["code"] == "invalid_line"


def test_all_lines_are_checked_before_a_model_is_loaded(cli: Cli, lines: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    nobody = cli("batch", lines, "-o", out)
    assert nobody.returncode == 3
    assert "the lines name 'gpt-4o-mini', which is not on this machine; -m MODEL answers them all" in nobody.stderr
    with lines.open("a") as file:
        file.write(json.dumps(request(7)) + "\n")
    twice = cli("batch", lines, "-o", out)
    assert (twice.returncode, out.exists()) == (2, False)
    assert "lines 8 and 61 have the same custom_id 'id-7'" in twice.stderr
    lines.write_text(json.dumps(request(1)) + "\nnonsense\n")
    checked = cli("batch", lines, "-o", out, "--check")
    assert (checked.returncode, out.exists()) == (1, False)
    assert "1 of 2 lines can be sent" in checked.stderr
