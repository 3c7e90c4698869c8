"""Running servers: tests that want equal ones share one, with empty slots each time. Knows nothing of pytest."""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

from tests.llama_server.models import PROJECTOR, model_file
from tests.llama_server.options import Wanted

MAX_IDLE = 3
START_TIMEOUT_S = 120
ROUTED = ("tinygemma3", "stories260k", "stories260k-infill")
"""What a server without a model of its own can load."""
_URL = re.compile(r"at http://127\.0\.0\.1:([0-9]+)/v1 \(")


class Running:
    """One `localllm serve`."""

    def __init__(self, wanted: Wanted, home: Path, models: Path) -> None:
        self.wanted = wanted
        environment = os.environ | {"LOCALLLM_HOME": str(home)} | dict(wanted.environment)
        for alias in ROUTED if wanted.model is None else ():
            _make(alias, wanted, home, models, environment)
        served = []
        if wanted.model is not None:
            alias = wanted.model.split(",")[0]
            _make(alias, wanted, home, models, environment)
            served = [alias] if wanted.at_once else []
        options = [*wanted.options]
        if wanted.mcp_servers is not None:
            servers = home / "mcp.json"
            servers.write_text(wanted.mcp_servers, "utf-8")
            options += ["--mcp-servers", str(servers)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "localllm", "serve", *served, "--port", "0", *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.log: collections.deque[str] = collections.deque(maxlen=200)
        self.port = 0
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self._reader.start()
        if not ready.wait(START_TIMEOUT_S) or not self.port:
            self.end()
            raise RuntimeError(f"the server did not start: {''.join(self.log)[-2000:]}")
        if not wanted.at_once:
            self._ask("POST", "/localllm/load", {"model": wanted.model, "stream": False})

    def _read(self, ready: threading.Event) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line)
            found = _URL.search(line)
            if found:
                self.port = int(found[1])
                ready.set()
        ready.set()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def clear(self) -> None:
        """Empty every slot."""
        for slot in json.loads(self._ask("GET", "/slots")):
            self._ask("POST", f"/slots/{slot['id']}?action=erase&model={slot['model']}")

    def _ask(self, method: str, path: str, body: object = None) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", content, method=method)
        request.add_header("Content-Type", "application/json")
        if self.wanted.api_key:
            request.add_header("Authorization", f"Bearer {self.wanted.api_key}")
        with urllib.request.urlopen(request, timeout=30) as response:
            return bytes(response.read())

    def end(self) -> None:
        """Its requests are cut off."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


class Pool:
    """Of idle servers, the most recently used last."""

    def __init__(self, home: Path, models: Path) -> None:
        self._home = home
        self._models = models
        self._idle: dict[Wanted, Running] = {}

    def take(self, wanted: Wanted) -> Running:
        """A server as wanted, which nobody else has."""
        running = self._idle.pop(wanted, None)
        if running is not None:
            try:
                running.clear()
            except OSError:
                running.end()
            else:
                return running
        return Running(wanted, self._home, self._models)

    def give(self, running: Running) -> None:
        """A test is done with it."""
        if not running.wanted.is_shared or running.wanted in self._idle or not running.is_alive:
            running.end()
            return
        self._idle[running.wanted] = running
        while len(self._idle) > MAX_IDLE:
            self._idle.pop(next(iter(self._idle))).end()

    def end(self) -> None:
        """All of them."""
        while self._idle:
            self._idle.popitem()[1].end()


def _make(alias: str, wanted: Wanted, home: Path, models: Path, environment: dict[str, str]) -> None:
    """The model of that name with its parameters in the home, made where it is not there as it should be."""
    parameters = "".join(f"PARAMETER {name} {value}\n" for name, value in wanted.parameters)
    model = model_file(alias, models)
    files = [model, *filter(Path.exists, [model.with_suffix(PROJECTOR)])]
    recipe = "".join(f"FROM {file}\n" for file in files) + parameters
    made = home / f"{alias}.modelfile"
    if made.exists() and made.read_text("utf-8") == recipe:
        return
    made.write_text(recipe, "utf-8")
    subprocess.run(
        [sys.executable, "-P", "-m", "localllm", "create", alias, "-f", str(made)],
        check=True,
        capture_output=True,
        env=environment,
    )
