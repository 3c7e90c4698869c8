"""Runs all sections on the first GPU, each in a process of its own with a limit; writes tables and JSON as they come.

    python -m benchmarks.card.check OUT [--runtime FILE ...] [--small] [--deadline-s 480] [--only text,plan]

OUT gets results.jsonl (a row a line, flushed), card.md (tables) and log.txt (the end of each section's output). A
section that dies, hangs or finds no time is a row that says so; the next one runs. Knows nothing of what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.card.sections import SECTIONS, Job, Row

SLOWER = 12
"""A rehearsal on a software device may take this many times a section's limit."""
LEAST_S = 15.0
"""A section is not begun with less."""
MAX_LOG_BYTES = 40_000
"""Of each section."""
EXIT_S = 10.0


class Book:
    """The files of results."""

    def __init__(self, out: Path, heading: str) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._out, self._heading = out, heading
        self._tables: dict[str, list[Row]] = {}
        self._lines = out / "results.jsonl"
        self._lines.write_text("")

    def add(self, section: str, row: Row) -> None:
        self._tables.setdefault(section, []).append(row)
        with open(self._lines, "a", encoding="utf-8") as file:
            file.write(json.dumps({"section": section, **msgspec.to_builtins(row)}) + "\n")
        (self._out / "card.md").write_text(self.page(), "utf-8")
        mark = {None: "  ", True: "ok", False: "NO"}[row.is_reached]
        print(f"{mark} {section}: {row.what}: {row.measured} {row.reach and f'[{row.reach}]'}", flush=True)

    def log(self, section: str, output: Path, seconds: float) -> None:
        data = output.read_bytes()[-MAX_LOG_BYTES:]
        with open(self._out / "log.txt", "ab") as file:
            file.write(f"\n===== {section}, {seconds:.1f} s\n".encode() + data)

    def page(self) -> str:
        parts = [self._heading]
        for section, rows in self._tables.items():
            parts.append(
                f"\n## {section}: {SECTIONS[section].about}\n\n| what | measured | to reach | |\n|---|---|---|---|"
            )
            for row in rows:
                mark = {None: "", True: "yes", False: "**no**"}[row.is_reached]
                parts.append(f"| {row.what} | {row.measured} | {row.reach} | {mark} |")
        return "\n".join(parts) + "\n"


def run_section(name: str, job: Job, limit_s: float, book: Book) -> None:
    """In a process group of its own, which is killed when the limit has passed."""
    command = [sys.executable, "-P", "-m", "benchmarks.card.check", "--section", name, str(job.folder)]
    began = time.monotonic()
    with tempfile.NamedTemporaryFile() as rows, tempfile.NamedTemporaryFile() as words:
        child = subprocess.Popen(
            [*command, *(["--small"] if job.small else [])],
            stdin=subprocess.DEVNULL, stdout=rows, stderr=words, start_new_session=True,
        )  # fmt: skip
        seen, code = 0, None
        while code is None and time.monotonic() - began < limit_s:
            try:
                code = child.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
            seen = _take(name, Path(rows.name), seen, book)
        _kill_group(child.pid)
        child.wait(EXIT_S)
        seconds = time.monotonic() - began
        book.log(name, Path(words.name), seconds)
        if code is None:
            book.add(name, Row(what="the section", measured=f"was ended after {seconds:.0f} s", is_reached=False))
        elif code:
            last = Path(words.name).read_text("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
            why = f"signal {-code}" if code < 0 else last[0][:300].replace("|", "/")
            book.add(name, Row(what="the section", measured=f"failed: {why}", is_reached=False))
        book.add(name, Row(what="time", measured=f"{seconds:.0f} s"))


def _take(section: str, path: Path, seen: int, book: Book) -> int:
    """Adds the whole lines behind byte `seen`; returns where they end."""
    data = path.read_bytes()[seen:]
    whole = data[: data.rfind(b"\n") + 1]
    for line in whole.splitlines():
        book.add(section, msgspec.json.decode(line, type=Row))
    return seen + len(whole)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def install(runtimes: list[Path]) -> None:
    """Into the data directory of the environment; the first one is what `auto` means."""
    for number, path in enumerate(runtimes):
        name = re.split(r"[-.]", re.sub(r"^\d+-", "", path.name))[0].removeprefix("cyllama_").lower()
        base = [sys.executable, "-P", "-m", "localllm", "runtime"]
        subprocess.run([*base, "install", str(path), "--name", name], check=True)
        if not number:
            subprocess.run([*base, "use", name], check=True)


def heading(job: Job) -> str:
    """Card, driver and machine."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        card = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        card = "no NVIDIA card" + (" (a rehearsal with small models)" if job.small else "")
    return f"# {card}\n\n{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def check(asked: Any) -> int:
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="card-"))
    data_dir = folder / "home"
    os.environ["LOCALLLM_HOME"] = str(data_dir)
    job = Job(folder, data_dir, asked.small)
    began = time.monotonic()
    book = Book(Path(asked.out), heading(job))
    if not (data_dir / "runtimes" / "chosen").exists():
        install([Path(each) for each in asked.runtime])
    for name, section in SECTIONS.items():
        if asked.only and name not in asked.only.split(","):
            continue
        left = asked.deadline_s - (time.monotonic() - began)
        if left < LEAST_S:
            book.add(name, Row(what="the section", measured="no time was left for it", is_reached=False))
            continue
        run_section(name, job, min(left, section.limit_s * (SLOWER if job.small else 1)), book)
    print(f"{time.monotonic() - began:.0f} s; tables: {Path(asked.out) / 'card.md'}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", help="folder for results")
    parser.add_argument(
        "--runtime", action="append", default=[], help="wheel or archive with libraries; the first is used"
    )
    parser.add_argument("--folder", help="for models and libraries, some 20 GB; default: a temporary one")
    parser.add_argument("--small", action="store_true", help="tiny models and more time, for a rehearsal without a GPU")
    parser.add_argument("--deadline-s", type=float, default=480)
    parser.add_argument("--only", default="", help="sections, separated by commas")
    parser.add_argument("--section", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.section is None:
        return check(asked)
    folder = Path(asked.out)
    for row in SECTIONS[asked.section].run(Job(folder, folder / "home", asked.small)):
        os.write(1, msgspec.json.encode(row) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
