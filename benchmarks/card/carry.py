"""Packs what a machine without a network needs to run `check`, and runs it there. Needs nothing but Python and pip.

    python -m benchmarks.card.carry pack FOLDER [--runtime FILE|vulkan ...] [--python 3.12] [--limit-mib 64]
    python3 -m benchmarks.card.carry run FOLDER OUT [options of benchmarks.card.check]

pack: wheels of localllm and of what it needs for the other machine's Python (Linux, x86-64), Vulkan's loader, and the
libraries of llama.cpp: an archive of a runtime built here (`localllm runtime build cuda`, then `tar -cJf`), or the name
of a pinned wheel. Everything that travels with it, the tracked files of this repository, counts towards the limit.
run: installs the wheels into a folder of its own, so that the packages of that machine stay as they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(5, 36)), "manylinux2014_x86_64", "manylinux1_x86_64")
"""For pip, which takes none but those that are named: up to the glibc of Ubuntu 22.04."""
LEFT_OUT = ("numpy-",)
"""Large, and there with PyTorch."""
TESTING = ("pytest>=8.3", "pytest-timeout>=2.4", "hypothesis>=6.120")
LOADER = "libvulkan.so.1"
DRIVERS = Path("/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json")
"""Where some machines keep the description of their driver, which no loader finds by itself."""


def pack(folder: Path, runtimes: list[str], python: str, limit_mib: int) -> int:
    """Returns 1 if it is more than the limit."""
    wheels, libraries = folder / "wheels", folder / "libraries"
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty")
    for each in (wheels, libraries):
        each.mkdir(parents=True)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    bindings = next(each for each in project["dependencies"] if each.startswith("llama-cpp-python"))
    rest = [each for each in project["dependencies"] if each != bindings]
    environment = os.environ | {"CMAKE_ARGS": "-DLLAMA_BUILD=OFF"}
    for source in (str(REPOSITORY), bindings):
        _pip("wheel", "--no-deps", "--no-cache-dir", "--wheel-dir", wheels, source, environment=environment)
    where = [f"--platform={each}" for each in PLATFORMS]
    _pip(
        "download", "--only-binary=:all:", f"--python-version={python}", *where, "--dest", wheels, *rest, *TESTING
    )  # fmt: skip
    for path in wheels.iterdir():
        if path.name.startswith(LEFT_OUT):
            path.unlink()
    for number, name in enumerate(runtimes):
        if Path(name).is_file():
            shutil.copyfile(name, libraries / f"{number}-{Path(name).name}")
        else:
            _pinned(name, libraries, number)
    _loader(folder)
    return _sizes(folder, limit_mib)


def _pinned(name: str, libraries: Path, number: int) -> None:
    from localllm.llama.runtimes import archives, wheel_files

    wheel = wheel_files.named(name)
    if wheel is None:
        raise SystemExit(f"there is neither a file nor a pinned wheel {name}")
    with tempfile.TemporaryDirectory() as workshop:
        path = wheel_files.download(wheel, Path(workshop))
        unpacked = Path(workshop) / "unpacked"
        unpacked.mkdir()
        archives.unpack(path, unpacked, wheel_files.is_wanted)
        with tarfile.open(libraries / f"{number}-{wheel.name}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(unpacked, arcname=".")  # half of what the wheel takes


def _loader(folder: Path) -> None:
    found = next((path for path in Path("/usr/lib").glob(f"*/{LOADER}")), None)
    if found is None:
        print(f"no {LOADER} here: a machine without one will have no Vulkan (Debian's package libvulkan1)")
        return
    (folder / "loader").mkdir(exist_ok=True)
    shutil.copyfile(found.resolve(), folder / "loader" / LOADER)


def _sizes(folder: Path, limit_mib: int) -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    tracked = sum((REPOSITORY / each.decode()).stat().st_size for each in listed.split(b"\0") if each)
    carried = 0
    for part in sorted(folder.iterdir()):
        size = sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
        carried += size
        print(f"{part.name:10} {size / 2**20:6.1f} MiB")
    whole = (tracked + carried) / 2**20
    print(f"{'repository':10} {tracked / 2**20:6.1f} MiB\ntogether   {whole:6.1f} MiB of {limit_mib}")
    print(f"carry {folder}; there: python3 -m benchmarks.card.carry run {folder} OUT")
    return int(whole > limit_mib)


def _pip(*arguments: object, environment: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check", *arguments[1:]]
    subprocess.run([str(each) for each in command], check=True, env=environment)


def run(folder: Path, out: str, options: list[str]) -> int:
    """Replaces nothing on this machine. Returns the exit code of `check`."""
    site = Path(tempfile.mkdtemp(prefix="card-site-"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    wheels = sorted((folder / "wheels").glob("*.whl"))
    subprocess.run([*command, "--target", str(site), *map(str, wheels)], check=True)
    environment = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{REPOSITORY}"}
    if not _has_loader():
        paths = [str((folder / "loader").resolve()), os.environ.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    if DRIVERS.exists():
        environment.setdefault("VK_DRIVER_FILES", str(DRIVERS))
    libraries = [f"--runtime={path}" for path in sorted((folder / "libraries").iterdir())]
    check = [sys.executable, "-P", "-m", "benchmarks.card.check", out, *libraries, *options]
    return subprocess.run(check, env=environment, check=False).returncode


def _has_loader() -> bool:
    try:
        return LOADER in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    actions = parser.add_subparsers(dest="action", required=True)
    packing = actions.add_parser("pack")
    packing.add_argument("folder", type=Path)
    packing.add_argument("--runtime", action="append", help="file, or a pinned wheel's name; the first is measured")
    packing.add_argument("--python", default="3.12")
    packing.add_argument("--limit-mib", type=int, default=64)
    running = actions.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("out")
    asked, options = parser.parse_known_args()
    if asked.action == "run":
        return run(asked.folder, asked.out, options)
    if options:
        parser.error(f"unknown: {' '.join(options)}")
    return pack(asked.folder, asked.runtime or ["vulkan"], asked.python, asked.limit_mib)


if __name__ == "__main__":
    sys.exit(main())
