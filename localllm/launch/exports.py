"""Writes an agent's configuration as shell commands, for POSIX shells or PowerShell. Knows no agent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from localllm.launch.setup import Setup


def uses_powershell(environ: Mapping[str, str]) -> bool:
    """Whether the user's shell is PowerShell, judging by the environment."""
    return "PSModulePath" in environ and "SHELL" not in environ


def lines(setup: Setup, folder: Path, command: Sequence[str], *, powershell: bool) -> Iterator[str]:
    """Shell commands that set the variables, write the temporary files into `folder`, and run the command."""
    write = _PowerShell if powershell else _Posix
    for name in setup.unset:
        yield write.unset(name)
    for name, value in setup.environment.items():
        yield write.export(name, value)
    if setup.files:
        yield write.make_folder(folder)
    for name, text in setup.files.items():
        yield write.file(folder / name, text)
    if command:
        yield write.command(command)


class _Posix:
    @staticmethod
    def unset(name: str) -> str:
        return f"unset {name}"

    @staticmethod
    def export(name: str, value: str) -> str:
        return f"export {name}={shlex.quote(value)}"

    @staticmethod
    def make_folder(folder: Path) -> str:
        return f"mkdir -p -m 700 {shlex.quote(str(folder))}"

    @staticmethod
    def file(path: Path, text: str) -> str:
        return f"cat > {shlex.quote(str(path))} <<'EOF'\n{text}EOF"

    @staticmethod
    def command(words: Sequence[str]) -> str:
        return shlex.join(words)


class _PowerShell:
    @staticmethod
    def unset(name: str) -> str:
        return f"Remove-Item Env:{name} -ErrorAction SilentlyContinue"

    @staticmethod
    def export(name: str, value: str) -> str:
        return f"$env:{name} = {_quoted(value)}"

    @staticmethod
    def make_folder(folder: Path) -> str:
        return f"New-Item -ItemType Directory -Force {_quoted(str(folder))} | Out-Null"

    @staticmethod
    def file(path: Path, text: str) -> str:
        return f"@'\n{text}'@ | Set-Content {_quoted(str(path))}"

    @staticmethod
    def command(words: Sequence[str]) -> str:
        return "& " + " ".join(_quoted(word) for word in words)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
