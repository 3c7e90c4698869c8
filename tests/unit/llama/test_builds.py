"""Builds in the background: real processes, which do what a compiler does, or worse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localllm.cli.commands import runtimes as command
from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama.runtimes import builds
from localllm.settings.config import Settings

CHILD = """
import signal, subprocess, sys
from pathlib import Path
from localllm.errors import LoadFailed
from localllm.llama.runtimes import builds
signal.signal(signal.SIGTERM, signal.{at_sigterm})
data_dir, name, kind, log = sys.argv[1:5]
fifo = Path(data_dir) / "said"
try:
    with builds.recorded(Path(data_dir), name, kind, log=log) as progress:
        progress(3, 3)
        {body}
except KeyboardInterrupt:
    print("cleaned up")
    sys.exit(1)
"""
WAIT = "open(fifo, 'w').write('built'); signal.pause()"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "said")
    return tmp_path


def _start(data: Path, body: str, at_sigterm: str = "default_int_handler") -> builds.Build:
    script = data / "child.py"
    script.write_text(CHILD.format(body=body, at_sigterm=at_sigterm))
    return builds.start(data, "mine", "rpc", [sys.executable, str(script)])


def _said(data: Path) -> str:
    return (data / "said").read_text()


def _only(data: Path) -> builds.BuildStatus:
    (seen,) = builds.seen(data)
    return seen


def _ended(data: Path, child: builds.Build) -> None:
    """Waits for a lock that its process lets go."""
    assert builds._is_free(builds._lock_of(data, child.name), 20)


def test_a_build_is_seen_while_it_runs_and_with_how_far_it_is(data: Path) -> None:
    started = _start(data, WAIT)
    assert _said(data) == "built"
    seen = _only(data)
    assert seen.is_running
    assert (seen.build.pid, seen.build.done, seen.build.total) == (started.pid, 3, 3)
    with pytest.raises(InvalidParameter, match="is being built already"):
        _start(data, "pass")
    with pytest.raises(InvalidParameter, match="runtime stop mine"):
        builds.forget_failed("mine", data)
    builds.stop(data, "mine")
    assert builds.seen(data) == []


def test_a_build_outlives_the_process_that_started_it(data: Path) -> None:
    code = f"from pathlib import Path; import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
    code += "from tests.unit.llama.test_builds import *; from tests.unit.llama.test_builds import _start\n"
    code += f"_start(Path({str(data)!r}), WAIT)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert _said(data) == "built"
    assert _only(data).is_running
    builds.stop(data, "mine")


NINJA = """
import signal, subprocess, sys
compiler = subprocess.Popen(["sleep", "1000"], process_group=0)
def end(*_):
    compiler.kill()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], "w").write(str(compiler.pid))
signal.pause()
"""
"""Which has its compilers in groups of their own, and ends them when it is told to."""


@pytest.mark.parametrize("with_ninja", [True, False])
def test_what_is_stopped_cleans_up_and_its_compilers_end_too(data: Path, with_ninja: bool) -> None:
    (data / "ninja.py").write_text(NINJA)
    ninja = f"subprocess.Popen([sys.executable, {str(data / 'ninja.py')!r}, str(fifo)]); signal.pause()"
    compiler = "open(fifo, 'w').write(str(subprocess.Popen(['sleep', '1000']).pid)); signal.pause()"
    (data / "runtimes" / ".building-mine~left").mkdir(parents=True)
    _start(data, ninja if with_ninja else compiler)
    pid = int(_said(data))
    builds.stop(data, "mine")
    with pytest.raises(InvalidParameter, match="no build of 'mine' is running"):
        builds.stop(data, "mine")
    status = Path(f"/proc/{pid}/stat")
    assert not list((data / "runtimes").glob(".building-*"))
    assert not status.exists() or status.read_text().split()[2] == "Z"


def test_one_that_ignores_the_wish_is_killed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "END_S", 0.2)
    _start(data, WAIT, at_sigterm="SIG_IGN")
    _said(data)
    builds.stop(data, "mine")
    assert builds.seen(data) == []


def test_why_there_is_no_runtime_is_kept_until_the_next_build(data: Path) -> None:
    started = _start(data, "open(fifo, 'w').write('built'); raise LoadFailed('glslc not found')")
    _said(data)
    _ended(data, started)
    seen = _only(data)
    assert not seen.is_running
    assert seen.build.problem == "glslc not found"
    assert "glslc not found" in command._progress(seen)
    assert builds.forget_failed("mine", data)
    assert builds.seen(data) == []


def test_one_that_was_killed_is_known_to_be_dead_whoever_has_its_process_id_now(data: Path) -> None:
    started = _start(data, WAIT)
    _said(data)
    os.kill(started.pid, signal.SIGKILL)
    _ended(data, started)
    assert "ended early" in command._progress(_only(data))
    assert str(started.log) in command._progress(_only(data))
    (data / "runtimes" / "mine").mkdir()
    with pytest.raises(InvalidParameter, match="already"):
        _start(data, "pass")


def test_a_build_on_a_terminal_is_seen_and_leaves_nothing(data: Path) -> None:
    with builds.recorded(data, "mine", "cpu") as progress:
        progress(1, 10)
        assert _only(data).is_running
        assert "about" in command._progress(_only(data))
        with pytest.raises(InvalidParameter, match="press Ctrl-C there"):
            builds.stop(data, "mine")
    assert builds.seen(data) == []
    with pytest.raises(LoadFailed), builds.recorded(data, "mine", "cpu"):
        raise LoadFailed("no compiler")
    assert builds.seen(data) == []


def test_the_list_shows_builds_beside_runtimes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with builds.recorded(data, "mine", "vulkan"):
        command.manage_runtimes(Settings(home=data), "list", None, name=None, as_json=False)
    assert "building: downloading the source" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["list", "test", "use", "install", "remove", "stop"])
def test_only_a_build_goes_to_the_background(data: Path, action: str) -> None:
    with pytest.raises(InvalidParameter, match="--background is for build"):
        command.manage_runtimes(Settings(home=data), action, "x", name=None, as_json=False, background=True)
