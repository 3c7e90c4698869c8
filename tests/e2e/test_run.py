"""`localllm run`: prompts from everywhere, answers to stdout, everything else to stderr, and nothing left behind."""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localllm.client.sidecar import Sidecar
from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli, first_output
from tests.homes import share_findings

SHORT = ("--temperature", "0", "--max-tokens", "8")
GREEDY = (*SHORT, "--threads", "1")
ENDLESS = ("--temperature", "0", "--ctx", "65536", "--threads", "1")

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds children in /proc")


@pytest.fixture(scope="module")
def asked_server(
    home: Path, cli: Cli, tiny_model: Path, tiny_chat_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment of commands that ask a server for `tiny` and `tiny-chat`, where what is tested is not that they
    start one."""
    folder = tmp_path_factory.mktemp("home")
    share_findings(home, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALLLM_HOME", str(folder))
        for path in (tiny_model, tiny_chat_model):
            assert cli("import", path, "--name", path.stem).returncode == 0
        with Sidecar.start(["--threads=1"]) as sidecar:
            yield {
                "LOCALLLM_HOME": str(folder),
                "LOCALLLM_PORT": sidecar.url.rpartition(":")[2],
                "LOCALLLM_API_KEYS": sidecar.token,
            }


@pytest.fixture
def beside_a_server(asked_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in asked_server.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def answer(cli: Cli) -> Callable[..., str]:
    """What `run` prints for these arguments, greedily; asked once, as several tests compare with the same answer."""

    @functools.cache
    def ask(*args: str | Path) -> str:
        return cli("run", *args, *GREEDY).stdout

    return ask


def test_a_prompt_is_continued_by_a_model_without_template_and_that_is_said(cli: Cli, tiny_model: Path) -> None:
    done = cli("run", tiny_model, "Once", *GREEDY)
    assert done.returncode == 0
    assert len(done.stdout) > 1
    assert done.stdout.endswith("\n")
    assert done.stderr.startswith("localllm: tiny: it has no chat template, and its name does not say that it chats")
    assert done.stderr.count("\n") == 1
    raw = cli("run", tiny_model, "Once", "--raw", *GREEDY)
    assert (raw.stdout, raw.stderr) == (done.stdout, "")


@pytest.mark.usefixtures("beside_a_server")
def test_a_chat_model_answers_through_its_template(cli: Cli) -> None:
    templated = cli("run", "tiny-chat", "Hi", "--system", "Be brief.", *SHORT)
    rendered = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert templated.returncode == 0
    assert templated.stdout == cli("run", "tiny-chat", rendered, "--raw", *SHORT).stdout
    assert templated.stdout != cli("run", "tiny-chat", "Hi", *SHORT).stdout


@pytest.mark.usefixtures("beside_a_server")
@pytest.mark.usefixtures("beside_a_server")
def test_words_are_one_prompt_and_the_model_that_was_run_last_needs_no_name(cli: Cli) -> None:
    said = cli("run", "tiny-chat", "Hi", "there", *GREEDY).stdout
    assert said == cli("run", "tiny-chat", "Hi there", *GREEDY).stdout
    again = cli("ask", "Hi there", *GREEDY)
    assert (again.stdout, again.stderr.splitlines()[0]) == (said, "localllm: tiny-chat")
    assert "no prompt" in cli("run", "./no such file.gguf", *GREEDY).stderr, "a path is none"


def test_the_prompt_comes_from_stdin_or_from_both(cli: Cli) -> None:
    asked = cli("run", "tiny", "Sum up:\n\nOnce ✓", *SHORT).stdout
    assert len(asked) > 1
    assert cli("run", "tiny", *SHORT, stdin="Sum up:\n\nOnce ✓\n").stdout == asked
    assert cli("run", "tiny", "-", *SHORT, stdin="Sum up:\n\nOnce ✓\n").stdout == asked
    assert cli("run", "tiny", "Sum up:", *SHORT, stdin="Once ✓\n").stdout == asked


def test_verbose_adds_timings_and_the_librarys_log_on_stderr(
    cli: Cli, tiny_model: Path, answer: Callable[..., str]
) -> None:
    done = cli("run", tiny_model, "Once", "--verbose", *GREEDY)
    assert "[length] prompt " in done.stderr
    assert "answer 8 tokens" in done.stderr
    assert "llama" in done.stderr
    assert done.stdout == answer(tiny_model, "Once")


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (("{home}/nothing.gguf", "Hi"), 3, "nothing.gguf"),
        (("{bad}", "Hi"), 4, "GGUF"),
        (("{model}",), 2, "no prompt"),
        (("{model}", "Hi", "--temperature", "-1"), 2, "temperature"),
        (("{model}", "Hi", "--gpu-layers", "some"), 2, "gpu_layers"),
        (("{model}", "Hi", "--no-such-option"), 2, "--no-such-option"),
        (("{model}", "Hi", "--raw", "--system", "x"), 1, "--system"),
        (("{model}", "word " * 2000, "--ctx", "256"), 1, "256"),
        (("{model}", "Hi", "--gpu-layers", "all", "--device", "Vulkan9"), 4, "no Vulkan backend"),
    ],
)
def test_an_error_is_one_sentence_on_stderr_and_an_exit_code(
    cli: Cli, tiny_model: Path, home: Path, args: tuple[str, ...], code: int, reason: str
) -> None:
    bad = home / "bad.gguf"
    bad.write_bytes(b"not a model at all")
    done = cli("run", *(arg.format(home=home, bad=bad, model=tiny_model) for arg in args))
    assert done.stdout == ""
    assert reason in done.stderr
    assert done.returncode == code
    assert len(done.stderr.strip().splitlines()) <= 4


def _start(endless_model: Path) -> subprocess.Popen[bytes]:
    """A `run` whose first bytes have come."""
    process = subprocess.Popen(
        [*COMMAND, "run", str(endless_model), "Once", "--raw", *ENDLESS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first_output(process, 1)
    return process


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [deeper for child in children for deeper in descendants(child)]


def _pidfd(pid: int) -> int:
    """Readable once that process has ended, whoever its parent is."""
    watch: int = os.pidfd_open(pid)  # type: ignore[attr-defined, unused-ignore]  # Linux has it
    return watch


def _is_running(pid: int) -> bool:
    """False for a zombie too: whoever adopts an orphan may take its time to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@needs_proc
def test_ctrl_c_ends_with_130_and_leaves_no_process_behind(endless_model: Path) -> None:
    with _start(endless_model) as process:
        family = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert len(family) >= 2
    assert not [pid for pid in family if _is_running(pid)]


@needs_proc
def test_a_killed_run_leaves_no_process_behind(endless_model: Path) -> None:
    with _start(endless_model) as process:
        watched = [_pidfd(pid) for pid in descendants(process.pid)]
        process.kill()
        for watch in watched:
            assert select.select([watch], [], [], 10)[0], "a child is still alive"
            os.close(watch)
    assert len(watched) >= 2


def test_a_reader_that_has_had_enough_ends_it_quietly(endless_model: Path) -> None:
    with _start(endless_model) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.wait(TIMEOUT_S)
        assert process.stderr.read() == b""


def test_stats_are_one_line_on_stderr(cli: Cli, tiny_model: Path, answer: Callable[..., str]) -> None:
    done = cli("run", tiny_model, "Once", "--raw", "--stats", *GREEDY)
    assert done.stderr.startswith("[length] 8 tokens, ")
    assert " tokens/s; first after " in done.stderr
    assert done.stderr.endswith(" of 512\n")
    assert done.stderr.count("\n") == 1
    assert done.stdout == answer(tiny_model, "Once")  # the same, raw or not: see above


@pytest.mark.usefixtures("beside_a_server")
def test_a_pipe_gets_what_was_generated_whatever_the_look(cli: Cli) -> None:
    plain, *others = (cli("run", "tiny-chat", "Hi", *look, *SHORT) for look in ((), ("--plain",), ("--think", "hide")))
    assert len(plain.stdout) > 1
    assert [other.stdout for other in others] == [plain.stdout] * 2


def test_an_answer_may_be_as_long_as_the_context_but_not_shorter_than_nothing(cli: Cli, tiny_model: Path) -> None:
    endless = cli("run", tiny_model, "Once", "--ctx", "64", "--max-tokens", "-1", "--seed", "-1")
    assert (endless.returncode, endless.stdout.strip() != "") == (0, True)
    refused = cli("run", tiny_model, "Once", "--max-tokens", "-2")
    assert refused.returncode == 2
    assert "max_tokens must be from -1" in refused.stderr


@pytest.mark.usefixtures("beside_a_server")
def test_limits_and_seeds_as_llama_cpp_has_them(cli: Cli) -> None:
    nothing = cli("run", "tiny", "Once", "--max-tokens", "0")
    assert (nothing.returncode, nothing.stdout.strip()) == (0, "")
    for seed in ("9223372036854775807", "-9223372036854775808"):
        one, other = (cli("run", "tiny", "Once", "--max-tokens", "8", "--seed", seed) for _ in range(2))
        assert one.stdout == other.stdout != ""


def test_a_question_goes_on_with_a_session_which_is_kept_with_its_model(cli: Cli, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Be brief.")
    begun = cli("run", "demo", "My name is Ada.", "--session", "ada", "--system-file", note, "--temperature", "0")
    assert begun.stdout == "Nice to meet you, Ada!\n"
    again = cli("run", "--continue", "What is my name?", "--max-tokens", "20")
    assert again.stdout == "Your name is Ada.\n"
    shown = cli("sessions", "show", "ada").stdout
    assert shown.startswith("# ada\n\ndemo\n\n## System\n\nBe brief.\n\n## You\n\nMy name is Ada.\n")
    assert shown.endswith("## Model\n\nYour name is Ada.\n")
    refused = cli("run", "demo", "Hello", "--private", "--continue")
    assert (refused.returncode, refused.stderr.count("--private keeps nothing")) == (2, 1)
    cli("sessions", "rm", "ada")
