"""Nothing that others wrote gives the terminal an order, whichever command prints it: files, registries, servers."""

from __future__ import annotations

import ast
import json
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from localllm.cli.app import run_app
from localllm.errors import InvalidModelFile
from localllm.registry.listing import store_of
from localllm.registry.manifest import Manifest
from localllm.system.printable import one_line, printable, printable_json
from tests.each import each
from tests.models.maker import write_llama
from tests.registry.hub_server import HubServer, Repo
from tests.registry.loopback import Answer, LoopbackServer
from tests.stores import CREATED_AT, fetch

CLI = Path(__file__).parents[3] / "localllm" / "cli"
HOSTILE = "a\x1b]0;owned\x07b\x9b31mc\x7fd\u202egpj.exe\u2066e\u2028f\rg\U000e0041h"
ORDERS = set(HOSTILE) - set("abcdefgh0;ownd]31m.xjp")
Run = Callable[..., tuple[int, str, str]]


def obeyed(text: str) -> set[str]:
    """Characters of it that a terminal would act upon or that reorder what is read."""
    kinds = {"Cc", "Zl", "Zp"}
    return {
        char
        for char in text
        if char not in "\t\n"
        and (unicodedata.category(char) in kinds or unicodedata.bidirectional(char) in BIDI or char in ORDERS)
    }


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`localllm` in this process: its exit code, stdout and stderr."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path / "home"))

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["localllm", *map(str, arguments)])
        code = run_app()
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A model whose file says what it should not, in every field that is shown."""
    extra = {"general.license": HOSTILE, "general.source.url": HOSTILE, "tokenizer.chat_template.odd\x1b[2J": "{{1}}"}
    return write_llama(tmp_path / "odd.gguf", name=HOSTILE, chat_template=HOSTILE, extra=extra)


@pytest.fixture
def stored(tmp_path: Path, file: Path) -> str:
    """The same in the store, with a manifest as a registry may write it."""
    store = store_of(tmp_path / "home")
    with store.hold("pull of odd:1b") as hold:
        model = fetch(store, file.read_bytes(), hold=hold)
        store.put(
            Manifest(
                name="odd:1b",
                created_at=CREATED_AT,
                files=(model,),
                source=HOSTILE,
                quant=HOSTILE,
                license=HOSTILE,
                license_text=(HOSTILE,),
                system=f"Be kind.\nlicence  mit\n{HOSTILE}",
                stop=(HOSTILE,),
            )
        )
    return "odd:1b"


@given(st.text())
def test_printable_text_has_no_order_and_is_otherwise_the_text(text: str) -> None:
    shown = printable(text)
    assert not obeyed(shown)
    assert len(shown) == len(text)
    assert all(now in (was, "\N{REPLACEMENT CHARACTER}") for was, now in zip(text, shown, strict=True))
    assert printable(shown) == shown


@given(st.text())
def test_a_cell_is_one_line(text: str) -> None:
    assert not obeyed(one_line(text))
    assert len(one_line(text).splitlines()) <= 1


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_printable_json_is_the_same_document(value: Any) -> None:
    document = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(document) == value
    assert not obeyed(document)


def test_a_name_has_nothing_that_cannot_be_seen_and_running_text_keeps_it() -> None:
    assert one_line("qwen\u200b3\u2060:\ufeff1b") == "qwen\ufffd3\ufffd:\ufffd1b"
    assert one_line("👩\u200d👧 می\u200cروم") == "👩\u200d👧 می\u200cروم"
    assert printable("a\u200bb") == "a\u200bb"


def test_text_of_every_script_and_emoji_stays_as_it_is() -> None:
    text = "Grüße, 你好, שלום, مرحبا\u200f, नमस्ते, e\u0301, 👩\u200d👩\u200d👧, ❤\ufe0f\tx\n"
    assert printable(text) == text


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_show_prints_no_order_of_a_file_or_a_manifest(
    run: Run, file: Path, stored: str, arguments: tuple[str, ...]
) -> None:
    for model in (file, stored):
        code, out, err = run("show", model, *arguments)
        assert code == 0, err
        assert "gpj.exe" in out
        assert not obeyed(out + err)


def test_a_value_of_several_lines_cannot_pretend_to_be_a_row(run: Run, stored: str) -> None:
    _, out, _ = run("show", stored)
    assert [line for line in out.splitlines() if line.startswith("licence  ")] != []
    assert "licence  mit" not in [line.rstrip() for line in out.splitlines()]


def test_a_modelfile_is_raw_in_a_pipe_and_printable_on_a_terminal(
    run: Run, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = run("show", stored, "--modelfile")
    assert "\x1b]0;owned\x07" in out
    monkeypatch.setattr("localllm.cli.shared.report.is_terminal", lambda _: True)
    _, out, _ = run("show", stored, "--modelfile")
    assert "owned" in out
    assert not obeyed(out)


@pytest.mark.parametrize(
    "command", [("list",), ("list", "--json"), ("gc",), ("rm", "odd:1b"), ("cp", "odd:1b", "b:1b")]
)
def test_the_store_is_listed_without_orders(run: Run, stored: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "home" / "models" / "manifests" / "bad\x1b[2J.json").write_bytes(b"{}")
    code, out, err = run(*command)
    assert code in (0, 1)
    assert not obeyed(out + err)


def test_what_is_imported_is_listed_without_orders(run: Run, file: Path, tmp_path: Path) -> None:
    odd = file.rename(tmp_path / "a\x1b[2J\u202eb.gguf")
    for arguments in ((), ("--json",), ("--how", "copy", "--json")):
        code, out, err = run("import", odd, *arguments)
        assert code in (0, 1), err
        assert not obeyed(out + err)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    repo = Repo({"tiny\u202e-Q4_0.gguf": b"GGUF", "README.md": b"x"}, card={"license": HOSTILE})
    with HubServer({"ann/odd\u202e-GGUF": repo, "ann/odd-GGUF": repo}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.mark.parametrize(
    "command", [("search", "odd"), ("search", "odd", "--json"), ("pull", "hf.co/ann/odd-GGUF"), ("pull", "hf.co/x/y")]
)
def test_what_a_hub_says_is_printed_without_orders(run: Run, hub: HubServer, command: tuple[str, ...]) -> None:
    _, out, err = run(*command)
    assert not obeyed(out + err)
    hub.scripted["/api/models"] = Answer(500, json.dumps({"error": HOSTILE}).encode())
    for path in ("/api/models/ann/odd-GGUF/revision/main", "/api/models/x/y/revision/main"):
        hub.scripted[path] = Answer(403, json.dumps({"error": HOSTILE}).encode(), (("X-Error-Code", "GatedRepo"),))
    code, out, err = run(*command)
    assert code
    assert not obeyed(out + err)


class Impostor(LoopbackServer):
    """Says what it should not wherever a server of ours says something."""

    def answer(self, asked: Any) -> Answer:
        process = {"model": HOSTILE, "status": HOSTILE, "memory_bytes": 1, "slots": 1, "ctx": 1, "requests": 1}
        document = {"models": [process], "error": {"message": HOSTILE, "code": "model_not_found"}}
        status = 200 if asked.path.endswith("/ps") else 404
        return Answer(status, json.dumps(document).encode(), (("Content-Type", "application/json"),))


@pytest.mark.parametrize("command", [("ps",), ("ps", "--json"), ("stop", "x"), ("stop", "--all")])
def test_what_a_server_says_is_printed_without_orders(run: Run, command: tuple[str, ...]) -> None:
    with Impostor() as server:
        _, out, err = run(*command, "--port", server.host.rpartition(":")[2])
    assert not obeyed(out + err)


def test_no_error_of_the_tree_gives_orders(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise InvalidModelFile(f"{HOSTILE} is no model")

    monkeypatch.setattr("localllm.cli.commands.store.models.list_models", fail)
    code, _, err = run("list")
    assert code != 0
    assert "is no model" in err
    assert not obeyed(err)


SEAMS = {
    "report.py": "the seam",
    "answer_views.py": "answers: cleaned on a terminal, a model's own bytes in a pipe",
    "help.py": "pages of the documentation, drawn",
    "progress.py": "words of ours around numbers",
    "conversation.py": "a line end",
    "serve.py": "the JSON line of a sidecar, for a program",
    "app.py": "help and version",
}


@each("module", sorted(CLI.rglob("*.py")), ids=lambda path: str(path.relative_to(CLI)))
def test_no_command_writes_to_the_terminal_past_the_seam(module: Path) -> None:
    if module.name in SEAMS:
        return
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert not called.startswith(("sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer")), (
                f"{module.name}:{node.lineno} writes past cli/shared/report.py"
            )
            assert called != "print", f"{module.name}:{node.lineno} prints past cli/shared/report.py"
