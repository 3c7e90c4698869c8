"""`localllm serve`: tells the human, or the parent process, what the server reports. Knows no HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

from localllm import __version__
from localllm.cli import report
from localllm.client.ready import Failure, Line, Progress, Ready, encode
from localllm.errors import LocalLLMError
from localllm.settings.config import Settings

ReadyLines = Literal["json", "json-progress"]


def serve_model(settings: Settings, models: Sequence[str], *, ready: ReadyLines | None) -> int:
    """Serve until told to stop; returns the exit code. Raises `LocalLLMError` unless a parent reads our JSON."""
    from localllm.server import log
    from localllm.server.main import serve

    models = [settings.sections().model_named(model) for model in models]
    log.configure(settings.log_level, settings.log_format)
    if ready is None:
        return asyncio.run(serve(settings, models, HumanAnnouncer()))
    if settings.tls_cert_file is not None:
        # Its parent could not know the certificate, and nothing leaves this machine.
        log.event(logging.WARNING, "a_sidecar_answers_over_http", ignored="tls_cert_file")
        settings = msgspec.structs.replace(settings, tls_cert_file=None, tls_key_file=None)
    announcer = ParentAnnouncer(secrets.token_urlsafe(24), tells_progress=ready == "json-progress")
    try:
        return asyncio.run(serve(settings, models, announcer, token=announcer.token, ends_with_stdin=True))
    except LocalLLMError as error:
        announcer.write(Failure(error.info()))
        return report.exit_code(error)


class HumanAnnouncer:
    """One line on stderr when it can answer."""

    def loading(self, fraction: float) -> None:
        """Nothing: the ready line says it all."""

    def ready(self, url: str, model_id: str | None) -> None:
        what = f"{model_id} answers" if model_id else "models are loaded when they are asked for"
        report.say(f"localllm: {what} at {url}/v1 (Ctrl-C ends)")


class ParentAnnouncer:
    """The protocol of `client.ready` on stdout."""

    def __init__(self, token: str, *, tells_progress: bool) -> None:
        self.token = token
        self._tells_progress = tells_progress
        self._percent = -1

    def loading(self, fraction: float) -> None:
        # llama.cpp reports every tensor; a parent wants to draw a bar.
        percent = int(fraction * 100)
        if self._tells_progress and percent != self._percent:
            self._percent = percent
            self.write(Progress(round(fraction, 3)))

    def ready(self, url: str, model_id: str | None) -> None:
        self.write(Ready(url, self.token, model_id, os.getpid(), __version__))

    def write(self, line: Line) -> None:
        try:
            sys.stdout.buffer.write(encode(line))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            pass  # the parent is gone, and the end of our stdin ends us
