"""The worker's template process: reads render requests, writes text, and is killed when a template runs wild.

A thread cannot be stopped and jinja2's sandbox bounds neither time nor memory, hence a process: 1 s of CPU and 256 MB
for each rendering, held by the operating system where it can, by the parent's deadline everywhere. No llama_cpp in it.

    python -P -m localllm.worker.template_child        frames on stdin and stdout
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import BinaryIO, cast

import msgspec

from localllm import osdep
from localllm.chat.request import RenderRequest
from localllm.errors import ErrorInfo, InternalError, TemplateError, from_info
from localllm.worker.framing import FrameReader, FrameWriter, FramingError, NotEncodable, encode

MAX_CPU_S = 1.0
MAX_MEMORY_BYTES = 256 * 1024 * 1024
DEADLINE_S = 5.0
"""Wall-clock bound: five times the CPU bound, because decoding keeps every core busy."""


class Rendered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the child answers."""

    text: str = ""
    error: ErrorInfo | None = None


_RENDERED = msgspec.msgpack.Decoder(Rendered)


class TemplateChild:
    """The parent's side: starts the child, restarts it after a kill. Used by one thread."""

    def __init__(self, command: list[str] | None = None) -> None:
        self._command = command or [sys.executable, "-P", "-m", "localllm.worker.template_child"]
        self._process = self._start()

    def render(self, request: RenderRequest) -> str:
        """The prompt text. Raises `TemplateError`, also when the child had to be killed."""
        if self._process.poll() is not None:
            self._restart()
        process = self._process
        frame = _encoded(request)
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(DEADLINE_S, process.kill)
        watchdog.start()
        try:
            FrameWriter(cast(BinaryIO, process.stdin)).write_frame(frame)
            answer = FrameReader(cast(BinaryIO, process.stdout), _RENDERED).read()
        except (OSError, FramingError):
            answer = None
            process.kill()  # it may live on, after something that was no answer
        finally:
            overran = watchdog.finished.is_set()
            watchdog.cancel()
        if answer is None:
            reason = osdep.exit_reason(process.wait())
            self._restart()
            if not reason.crashed and not overran:  # it left by itself: our defect, not the template's
                raise InternalError(f"the chat template's process ended with {reason}")
            raise TemplateError(
                f"the chat template needed more than {MAX_CPU_S:g} s or {MAX_MEMORY_BYTES >> 20} MB on these messages "
                f"({reason})",
                param="messages",
            )
        if answer.error is not None:
            raise from_info(answer.error)
        return answer.text

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _restart(self) -> None:
        self.close()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **osdep.own_process_group()
        )


def _encoded(message: RenderRequest | Rendered) -> bytearray:
    """Raises `TemplateError` for what fits into no frame: too long, or half a surrogate pair of the template's own."""
    try:
        return encode(message)
    except NotEncodable as error:
        raise TemplateError(f"the messages cannot be rendered: {error.reason}", param="messages") from error


def main() -> None:
    """Serve until end-of-file."""
    source, sink = osdep.claim_standard_streams()
    reader, writer = FrameReader(source, msgspec.msgpack.Decoder(RenderRequest)), FrameWriter(sink)
    from localllm.chat.template import render

    osdep.limit_memory(MAX_MEMORY_BYTES)
    while (request := reader.read()) is not None:
        osdep.limit_further_cpu(MAX_CPU_S)
        try:
            answer = Rendered(text=render(request))
            frame = _encoded(answer)
        except TemplateError as error:
            frame = encode(Rendered(error=error.info()))
        writer.write_frame(frame)


if __name__ == "__main__":
    main()
