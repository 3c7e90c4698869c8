"""The files, filled in. Knows the places in the templates of `localllm/data/deploy`, and how each format quotes."""

from __future__ import annotations

import importlib.resources
import json
import plistlib
import re
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localllm.errors import InvalidParameter, clipped
from localllm.types.ranges import check_range

DRAIN_DELAY_S = 10
"""Longer than the probes' interval, so that nobody sends requests any more when connections are refused."""
_BACKEND = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", re.ASCII)
_HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Wanted:
    """What is filled in."""

    models: Sequence[str]
    port: int
    """Of the server."""
    listen: int
    """Port of a gateway."""
    backends: Sequence[str]
    """Addresses of the servers behind it, HOST:PORT."""

    def check(self) -> None:
        """Raises `InvalidParameter`."""
        check_range("--port", self.port, 1, _HIGHEST_PORT)
        check_range("--listen", self.listen, 1, _HIGHEST_PORT)
        for each in self.backends:
            if _BACKEND.fullmatch(each) is None:
                raise InvalidParameter(f"--backend takes HOST:PORT, not {clipped(each)!r}", param="backend")
        if bad := next((each for each in self.models if not each.isprintable()), None):
            raise InvalidParameter(f"{bad!r} is no model's name", param="models")

    @property
    def servers(self) -> Sequence[str]:
        return self.backends or [f"127.0.0.1:{self.port}"]

    @property
    def command(self) -> list[str]:
        return [program(), "serve", *self.models, "--port", str(self.port)]


def template(name: str) -> str:
    """A file of `data/deploy`, with places like @PORT@."""
    return importlib.resources.files("localllm.data").joinpath("deploy", name).read_text("utf-8")


def program() -> str:
    """The path of the `localllm` that runs."""
    script = Path(sysconfig.get_path("scripts")) / "localllm"
    return str(script if script.exists() else Path(sys.argv[0]).absolute())


def filled(text: str, **places: object) -> str:
    """The text with its places filled in."""
    for name, value in places.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _nginx(text: str, wanted: Wanted) -> str:
    lines = [f"    server {each} max_fails=1 fail_timeout=5s;" for each in wanted.servers]
    return filled(text, LISTEN=wanted.listen, SERVERS="\n".join(lines))


def _haproxy(text: str, wanted: Wanted) -> str:
    lines = [f"    server localllm-{number} {each}" for number, each in enumerate(wanted.servers, 1)]
    return filled(text, LISTEN=wanted.listen, SERVERS="\n".join(lines))


def _container(text: str, wanted: Wanted) -> str:
    arguments = [*wanted.models, "--drain-delay-s", str(DRAIN_DELAY_S)]
    return filled(text, PORT=wanted.port, MODELS=_json(wanted.models), ARGUMENTS=_json(arguments))


def _compose(text: str, wanted: Wanted) -> str:
    models = [each.replace("$", "$$") for each in wanted.models]  # Compose fills in variables everywhere
    return filled(text, PORT=wanted.port, MODELS=_json(models))


def _systemd(text: str, wanted: Wanted) -> str:
    return filled(text, PORT=wanted.port, COMMAND=" ".join(map(_systemd_word, wanted.command)))


def _launchd(text: str, wanted: Wanted) -> str:
    service = plistlib.loads(text.encode())
    service["ProgramArguments"] = wanted.command
    service["StandardErrorPath"] = str(Path.home() / "Library" / "Logs" / "localllm.log")
    return plistlib.dumps(service, sort_keys=False).decode()


def _systemd_word(word: str) -> str:
    """An argument as `ExecStart` reads it, where % and $ have meanings."""
    word = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w./:%$@+,=-]+", word, re.ASCII):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(words: Sequence[str]) -> str:
    """As Dockerfiles and YAML read it, too."""
    return json.dumps([*words])


Make = Callable[[str, Wanted], str]
FILES: dict[str, dict[str, tuple[str, Make]]] = {
    "nginx": {"localllm.conf": ("nginx.conf", _nginx)},
    "haproxy": {"haproxy.cfg": ("haproxy.cfg", _haproxy)},
    "docker": {"Dockerfile": ("Dockerfile", _container)},
    "compose": {"compose.yaml": ("compose.yaml", _compose)},
    "k8s": {"localllm.yaml": ("kubernetes.yaml", _container)},
    "systemd": {
        "localllm.service": ("localllm.service", _systemd),
        "localllm.socket": ("localllm.socket", _systemd),
    },
    "launchd": {"localllm.plist": ("launchd.plist", _launchd)},
}
"""Kind -> name of the file -> its template and what fills it in."""


def files_of(kind: str, wanted: Wanted) -> dict[str, str]:
    """Name -> text. Raises `InvalidParameter`."""
    wanted.check()
    return {name: make(template(source), wanted) for name, (source, make) in FILES[kind].items()}
