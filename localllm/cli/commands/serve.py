"""`localllm serve`: announces the server to the user, or to the parent process of a sidecar. Knows no HTTP."""

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
from localllm.cli.shared import report
from localllm.client.ready import Failure, Line, Progress, Ready, encode
from localllm.errors import LocalLLMError, sentence_of
from localllm.settings.config import Settings

ReadyLines = Literal["json", "json-progress"]


def serve_model(settings: Settings, models: Sequence[str], *, ready: ReadyLines | None) -> int:
    """Serve until stopped; returns the exit code. Raises `LocalLLMError` unless a parent process reads our JSON."""
    from localllm.server.edge import log
    from localllm.server.main import serve

    models = [settings.sections().model_named(model) for model in models]
    log.configure(settings.log_level, settings.log_format)
    if ready is None:
        return asyncio.run(serve(settings, models, HumanAnnouncer(has_page=settings.ui)))
    if settings.tls_cert_file is not None:
        # The parent would not know the certificate, and the traffic stays on this machine.
        log.event(logging.WARNING, "a_sidecar_answers_over_http", ignored="tls_cert_file")
        settings = msgspec.structs.replace(settings, tls_cert_file=None, tls_key_file=None)
    announcer = ParentAnnouncer(secrets.token_urlsafe(24), tells_progress=ready == "json-progress")
    try:
        return asyncio.run(serve(settings, models, announcer, token=announcer.token, ends_with_stdin=True))
    except LocalLLMError as error:
        announcer.write(Failure(error.info()))
        return report.exit_code(error)
    except OSError as error:
        announcer.write(Failure(LocalLLMError(sentence_of(error)).info()))
        return report.FAILURE


class HumanAnnouncer:
    """One line on stderr once the server is ready."""

    def __init__(self, *, has_page: bool) -> None:
        self._has_page = has_page

    def loading(self, fraction: float) -> None:
        """Nothing: the ready line is enough."""

    def ready(self, url: str, model_id: str | None) -> None:
        what = f"serving {model_id}" if model_id else "serving models on demand"
        page = f"its page: {url}/; " if self._has_page else ""
        report.say(f"localllm: {what} at {url}/v1 ({page}Ctrl-C to stop)")


class ParentAnnouncer:
    """The protocol of `client.ready` on stdout."""

    def __init__(self, token: str, *, tells_progress: bool) -> None:
        self.token = token
        self._tells_progress = tells_progress
        self._percent = -1

    def loading(self, fraction: float) -> None:
        # llama.cpp reports every tensor; whole percents are enough for a progress bar.
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
            pass  # the parent is gone; the end of stdin stops the server
