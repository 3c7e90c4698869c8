"""Builds the programs and models to compare with, from the llama.cpp source in llama-cpp-python's source package.

    python -m benchmarks.peers FOLDER

FOLDER, which must be outside the repository, gets bin/llama-bench, llama-batched-bench, llama-server and
llama-quantize, built with the README's flags so that both sides run the same arithmetic; and two models of random
weights: models/r135m-Q8_0.gguf, 193 M parameters with a vocabulary of 152 k, and models/bert110m-Q8_0.gguf, an encoder
of BERT-base's shape. Takes about 10 minutes on 2 cores; a second run has nothing to do.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from benchmarks.random_bert import ENCODER, write_random_bert
from benchmarks.random_model import write_random_model

TOOLS = ("llama-bench", "llama-batched-bench", "llama-server", "llama-quantize")
REPOSITORY = Path(__file__).parents[1]
MODEL = "models/r135m-Q8_0.gguf"
UNGUESSED = "--speculation=off"
"""For comparing steps: random weights fall into loops, which guesses find, but which real texts do not have."""


def readme_flags() -> list[str]:
    """The CMAKE_ARGS of the README's install command."""
    match = re.search(r'CMAKE_ARGS="([^"]+)"', (REPOSITORY / "README.md").read_text("utf-8"))
    assert match, "README.md has no CMAKE_ARGS"
    return [part.replace("'", "") for part in re.findall(r"(?:[^\s']|'[^']*')+", match[1])]


def pinned_version() -> str:
    match = re.search(r'"llama-cpp-python==([^"]+)"', (REPOSITORY / "pyproject.toml").read_text("utf-8"))
    assert match
    return match[1]


def run(*command: object) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


def unpack_source(folder: Path) -> Path:
    version = pinned_version()
    source = folder / f"llama_cpp_python-{version}"
    if not source.is_dir():
        run(
            sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", folder,
            f"llama-cpp-python=={version}",
        )  # fmt: skip
        with tarfile.open(folder / f"llama_cpp_python-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return source / "vendor" / "llama.cpp"


def build(folder: Path) -> Path:
    """Build the tools; returns the llama.cpp source folder."""
    source = unpack_source(folder)
    if not all((folder / "build" / "bin" / tool).exists() for tool in TOOLS):
        run(
            "cmake", "-S", source, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_BUILD_TESTS=OFF",
            "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_CURL=OFF", *readme_flags(),
        )  # fmt: skip
        run("cmake", "--build", folder / "build", "-j", "2", "--target", *TOOLS)
    if not (folder / "bin").exists():
        (folder / "bin").symlink_to(folder / "build" / "bin", target_is_directory=True)
    return source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.resolve()
    if folder.is_relative_to(REPOSITORY):
        parser.error("the folder must lie outside the repository")
    folder.mkdir(parents=True, exist_ok=True)
    source = build(folder)
    vocabularies = source / "models"
    for name, write, vocabulary in (
        (MODEL, write_random_model, vocabularies / "ggml-vocab-qwen2.gguf"),
        (ENCODER, write_random_bert, vocabularies / "ggml-vocab-bert-bge.gguf"),
    ):
        model = folder / name
        if not model.exists():
            model.parent.mkdir(exist_ok=True)
            full = model.with_name(model.name.replace("Q8_0", "f16"))
            write(full, vocabulary)
            run(folder / "bin" / "llama-quantize", full, model, "Q8_0")
            full.unlink()


if __name__ == "__main__":
    main()
