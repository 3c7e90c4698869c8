"""The server for `run`: one that is already running, or our own for as long as it is needed. Knows no HTTP."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from localllm.cli.options.settings import as_arguments
from localllm.cli.render.progress import LoadProgress
from localllm.cli.shared import report
from localllm.cli.shared.model_names import is_name, section_name
from localllm.client.discovery import find_server, is_anybody_there
from localllm.client.sidecar import Sidecar
from localllm.errors import sentence_of
from localllm.settings.config import Settings

if TYPE_CHECKING:
    from localllm.client.api import Client


class Serving:
    """A server for a model; `client` waits until the model is loaded, showing the progress."""

    def __init__(self, model: str, sidecar: Sidecar | None, running: Client | None) -> None:
        self.model_id = model
        self._sidecar = sidecar
        self._running = running

    @property
    def is_sidecar(self) -> bool:
        """Whether it is our own server."""
        return self._sidecar is not None

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Raises what loading the model raises."""
        progress = LoadProgress()
        try:
            client = self._ready(progress)
        finally:
            progress.clear()
        with client:
            yield client

    def _ready(self, progress: LoadProgress) -> Client:
        from localllm.client.api import Client

        if self._running is not None:
            self.model_id = self._running.load(self.model_id, progress)
            return self._running
        assert self._sidecar is not None
        ready = self._sidecar.wait_ready(progress)
        self.model_id = ready.model or self.model_id
        return Client(ready.url, ready.token)


@contextlib.contextmanager
def begin(
    model: str,
    load: Mapping[str, Any],
    settings: Settings,
    *,
    logs_to_file: bool,
    slots: int | None = 1,
    own: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Serving]:
    """Find or start a server for `model`, without waiting. A path, or an option for loading, needs our own server.

    `logs_to_file`: our own server logs to `logs/run.log`, not into the chat. `slots`: of our own server, unless they
    are set; None: its default. `own`: more settings of our own server, for which none is started.
    """
    load = _for_loading(load)
    running = running_server(model, load, settings)
    if running is not None:
        with running:
            yield Serving(model, None, running)
            return
    # A single chat needs one slot; a second one would only cost memory.
    default = {} if slots is None or is_set("slots", model, settings) else {"slots": slots}
    arguments = [model, *as_arguments({**default, **own}), *as_arguments(load)]
    arguments += [] if settings.verbose else ["--log-level=warning"]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(_log_file(settings)) if logs_to_file else sys.stderr
        sidecar = stack.enter_context(Sidecar.spawn(arguments, stderr=log))
        yield Serving(model, sidecar, None)


def running_server(model: str, load: Mapping[str, Any], settings: Settings) -> Client | None:
    """A server that runs on this machine and will do for the model, to be closed."""
    if not is_name(model) or not may_be_running(load) or not is_anybody_there(settings):
        return None
    return find_server(settings, lambda why: report.say(f"localllm: {why}; starting another one"))


def may_be_running(load: Mapping[str, Any]) -> bool:
    """Whether a running server will do: no option for loading is given."""
    return not as_arguments(_for_loading(load))


def _for_loading(load: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in load.items() if name != "api_key"}  # that is for a server that runs


def is_set(name: str, model: str, settings: Settings) -> bool:
    """Whether `config.toml` has this setting for this model."""
    own = settings.sections()
    return bool(own) and name in own.of(section_name(settings, model))


def load_now(client: Client, model: str) -> str:
    """Load it on a running server, showing the progress; returns its id there. Raises what loading raises."""
    progress = LoadProgress()
    try:
        return client.load(model, progress)
    finally:
        progress.clear()


def _log_file(settings: Settings) -> BinaryIO:
    folder = settings.data_dir / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / "run.log").open("wb")
    except OSError as error:  # a chat needs no log
        report.say(f"localllm: the server's log is not kept: {sentence_of(error)}")
        return open(os.devnull, "wb")


def fetch(model: str, settings: Settings) -> bool:
    """Download it, with a description; False if Ctrl-C stopped it. Raises `ModelNotFound`, `PullFailed`s."""
    from localllm.cli.commands.store.pull import download

    return download(settings, model) is not None
