"""`localllm run`: prompts from everywhere, answers to stdout, everything else to stderr, and nothing left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli

GREEDY = ("--temperature", "0", "--max-tokens", "8", "--threads", "1")
ENDLESS = ("--temperature", "0", "--ctx", "65536", "--threads", "1")

PROMPT = b"\x1b[?2004h"
PROMPT_ENDS = b"\x1b[?2004l"
"""prompt_toolkit switches bracketed paste on once when it asks for a line, the terminal being in raw mode by then, and
off when it has one. The visible `>>>` may be drawn again; and a Ctrl-D typed outside raw mode is lost."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds children in /proc")
needs_pty = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


def test_a_prompt_is_continued_by_a_model_without_template_and_that_is_said(cli: Cli, tiny_model: Path) -> None:
    done = cli("run", tiny_model, "Once", *GREEDY)
    assert done.returncode == 0
    assert len(done.stdout) > 1
    assert done.stdout.endswith("\n")
    assert done.stderr == "localllm: tiny has no chat template, so it continues the prompt\n"
    raw = cli("run", tiny_model, "Once", "--raw", *GREEDY)
    assert (raw.stdout, raw.stderr) == (done.stdout, "")


def test_a_chat_model_answers_through_its_template(cli: Cli, tiny_chat_model: Path) -> None:
    answer = cli("run", tiny_chat_model, "Hi", "--system", "Be brief.", *GREEDY)
    rendered = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert answer.returncode == 0
    assert answer.stdout == cli("run", tiny_chat_model, rendered, "--raw", *GREEDY).stdout
    assert answer.stdout != cli("run", tiny_chat_model, "Hi", *GREEDY).stdout


def test_the_prompt_comes_from_stdin_or_from_both(cli: Cli, tiny_model: Path) -> None:
    asked = cli("run", tiny_model, "Sum up:\n\nOnce ✓", *GREEDY).stdout
    assert cli("run", tiny_model, *GREEDY, stdin="Sum up:\n\nOnce ✓\n").stdout == asked
    assert cli("run", tiny_model, "-", *GREEDY, stdin="Sum up:\n\nOnce ✓\n").stdout == asked
    assert cli("run", tiny_model, "Sum up:", *GREEDY, stdin="Once ✓\n").stdout == asked


def test_verbose_adds_timings_and_the_librarys_log_on_stderr(cli: Cli, tiny_model: Path) -> None:
    done = cli("run", tiny_model, "Once", "--verbose", *GREEDY)
    assert "[length] prompt " in done.stderr
    assert "answer 8 tokens" in done.stderr
    assert "llama" in done.stderr
    assert done.stdout == cli("run", tiny_model, "Once", *GREEDY).stdout


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
        (("{model}", "Hi", "--gpu-layers", "all", "--device", "Vulkan9"), 4, "Vulkan9"),
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
    assert process.stdout is not None
    assert process.stdout.read(1)
    return process


def _descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [deeper for child in children for deeper in _descendants(child)]


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
        family = _descendants(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert len(family) >= 2
    assert not [pid for pid in family if _is_running(pid)]


@needs_proc
def test_a_killed_run_leaves_no_process_behind(endless_model: Path) -> None:
    with _start(endless_model) as process:
        watched = [_pidfd(pid) for pid in _descendants(process.pid)]
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


class Terminal:
    """A `run` on a terminal of its own."""

    def __init__(self, *args: str | Path) -> None:
        self._main, side = os.openpty()  # type: ignore[attr-defined, unused-ignore]
        environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
        command = [*COMMAND, "run", *map(str, args)]
        self.process = subprocess.Popen(
            command, stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True
        )
        os.close(side)
        self.seen = b""

    def until(self, text: bytes) -> bytes:
        """Read until `text` comes; returns what came before it."""
        while text not in self.seen:
            self._read()
        before, _, self.seen = self.seen.partition(text)
        return before

    def until_more(self, num_bytes: int) -> None:
        """Read until so many bytes have come that nobody waited for."""
        while len(self.seen) < num_bytes:
            self._read()

    def _read(self) -> None:
        assert select.select([self._main], [], [], 60)[0], self.seen
        self.seen += os.read(self._main, 4096)

    def type(self, keys: bytes) -> None:
        os.write(self._main, keys)

    def interrupt(self) -> None:
        """What a terminal does at Ctrl-C: the signal goes to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)  # type: ignore[attr-defined, unused-ignore]

    def end(self) -> int:
        """Read to the end; returns the exit code."""
        while True:
            before = len(self.seen)
            try:
                self._read()
            except OSError:  # Linux: the other side is closed
                break
            if len(self.seen) == before:  # macOS: end-of-file
                break
        return self.process.wait(TIMEOUT_S)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # of no effect after `end`
        self.process.wait()
        os.close(self._main)


@needs_pty
def test_without_a_prompt_on_a_terminal_there_is_a_chat_until_ctrl_d(tiny_chat_model: Path) -> None:
    with Terminal(tiny_chat_model, *GREEDY) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"/help\r")
        terminal.until(b"/bye")
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
        terminal.until(PROMPT)
        terminal.type(b"\x04")
        assert terminal.end() == 0


@needs_pty
def test_ctrl_c_in_a_chat_stops_the_answer_and_not_the_chat(endless_model: Path) -> None:
    with Terminal(endless_model, *ENDLESS) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"Hello\r")
        terminal.until(PROMPT_ENDS)
        terminal.until_more(40)
        terminal.interrupt()
        terminal.until(b"[stopped]")
        terminal.until(PROMPT)
        terminal.type(b"/bye\r")
        assert terminal.end() == 0
