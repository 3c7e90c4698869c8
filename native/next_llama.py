"""`python native/next_llama.py`: looks for llama.cpp wheels that are newer than those localllm knows, and tries them.

For each package of `localllm/types/libraries/wheels.py` whose newest version on the index is none of its versions: the
wheel becomes a runtime of a temporary data directory (`--unverified`), its headers are compared with the newest known
ones if both have a source distribution, and representative files of tests/llama run on it. Prints which tests fail, and
which rows of `localllm/llama/facts.py` they stand for. Exits with 0, whatever it finds. `--known PACKAGE==VERSION`
takes that version for the newest known one, to try this script.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from localllm.llama.facts import FACTS
from localllm.types.libraries.wheels import WHEELS, Wheel

ROOT = Path(__file__).parents[1]
HEADERS = ROOT / "native" / "llama_headers.py"
FILES = (
    "test_library.py", "test_upstream.py", "test_selftest.py", "test_backend.py", "test_kv_planning.py",
    "test_copies.py", "test_rows.py", "test_interrupts.py", "test_embedding.py", "test_tokenizing.py",
)  # fmt: skip
"""Of tests/llama: each kind of fact has a test in one of them."""
PYTHON = "3.12"
"""Any Python's wheel will do: only its libraries are used."""
PIP_S, INSTALL_S, TESTS_S = 120, 90, 400
_FAILED = re.compile(r"(?:FAILED|ERROR) tests/llama/(\w+\.py)::(\w+)(\S*)")


def newest(package: str) -> str:
    """Its newest version for Linux; empty: the index does not answer."""
    options = [f"--python-version={PYTHON}", "--only-binary=:all:", "--disable-pip-version-check"]
    done = _run(sys.executable, "-m", "pip", "index", "versions", package, *options, limit_s=PIP_S)
    found = re.search(rf"^{re.escape(package)} \((\S+)\)", done, re.MULTILINE)
    return found[1] if found else ""


def examine(wheel: Wheel, version: str, workshop: Path) -> None:
    """Prints all that is found out about a newer version. Raises `subprocess.SubprocessError`."""
    wanted = f"{wheel.package}=={version}"
    _say(f"\n# {wanted} is newer than {wheel.version}")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run(*pip, "--only-binary=:all:", f"--python-version={PYTHON}", "--dest", workshop, wanted, limit_s=PIP_S)
    file = next(iter(workshop.glob("*.whl")), None)
    if file is None:
        _say("it has no wheel for this system")
        return
    _compare(wheel, version, workshop)
    home = workshop / "home"
    command = [sys.executable, "-P", "-m", "localllm", "runtime", "install", file, "--name=next", "--unverified"]
    _say(_run(*command, limit_s=INSTALL_S, LOCALLLM_HOME=str(home)))
    runtime = home / "runtimes" / "next"
    if not runtime.is_dir():
        _say("no test can run on it")
        return
    tests = [f"tests/llama/{name}" for name in FILES]
    options = ["-q", "--tb=line", "-p", "no:cacheprovider"]
    said = _run(sys.executable, "-m", "pytest", *options, *tests, limit_s=TESTS_S, LOCALLLM_TEST_RUNTIME=str(runtime))
    sys.stdout.writelines(f"{line}\n" for line in rows(said))


def rows(said: str) -> list[str]:
    """What pytest's output means: its last line, each failing test, and the facts that it stands for."""
    lines = [line for line in said.splitlines() if line.strip()]
    found = [f"tests/llama on it: {lines[-1].strip('= ')}" if lines else "tests/llama gave no output"]
    for file, function, parameters in _FAILED.findall(said):
        found.append(f"- {file}::{function}{parameters}")
        found += [
            f"    {fact.what} ({fact.source}): then {fact.then}"
            for fact in FACTS
            if f"{file}::{function}" in fact.tests
        ]
    return found


def _compare(wheel: Wheel, version: str, workshop: Path) -> None:
    """The tables of native/llama_headers.py, where both versions have a source distribution."""
    old, new = (_source(wheel.package, each, workshop / each) for each in (wheel.version, version))
    if old is None or new is None:
        _say("there is no source distribution whose headers could be compared")
        return
    kept = ROOT / "localllm" / "data" / "builds" / "next.json"
    try:
        _say(_run(sys.executable, HEADERS, new, "next", "--like", wheel.build, "--old", old, limit_s=PIP_S))
    finally:
        kept.unlink(missing_ok=True)


def _source(package: str, version: str, folder: Path) -> Path | None:
    folder.mkdir()
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run(*pip, f"--no-binary={package}", "--dest", folder, f"{package}=={version}", limit_s=PIP_S)
    for path in folder.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    return next((path.parents[1] for path in folder.glob("*/*/llama.cpp/include/llama.h")), None)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(*command: object, limit_s: float, **environment: str) -> str:
    """What it says. A command that fails or takes too long says so; nothing here ends a build."""
    argv = [str(each) for each in command]
    try:
        done = subprocess.run(
            argv, cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        return f"{said.decode(errors='replace') if isinstance(said, bytes) else said}\n(ended after {limit_s:.0f} s)"
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", action="append", default=[], help="PACKAGE==VERSION")
    pretended = dict(each.split("==") for each in parser.parse_args().known)
    for package in dict.fromkeys(wheel.package for wheel in WHEELS if "linux-x86_64" in wheel.files):
        known = [wheel for wheel in WHEELS if wheel.package == package]
        if package in pretended:
            known = [wheel for wheel in known if wheel.version == pretended[package]]
        version = newest(package)
        if not known:
            parser.error(f"{pretended[package]} is no known version of {package}")
        if not version or version in {wheel.version for wheel in known}:
            _say(f"{package}: {f'{version} is known' if version else 'the index does not answer'}")
            continue
        with tempfile.TemporaryDirectory() as workshop:
            examine(known[-1], version, Path(workshop))
    return 0


if __name__ == "__main__":
    sys.exit(main())
