"""The process that parses strangers' documents: a file in, its text out, within limits of the system.

A file that crashes, hangs or fills its reader costs the request that sent it. Opens no file and no connection.

    python -P -m localllm.documents.reading_child CPU_SECONDS        frames on stdin and stdout
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec

from localllm.documents.contents import Contents, Unreadable
from localllm.documents.kinds import DocumentKind
from localllm.worker.framing import NotEncodable, encode
from localllm.worker.limited_child import LimitedChild, OverLimit, serve

MAX_MEMORY_BYTES = 1024 * 10**6
"""A spreadsheet of 20 MB takes a third, and what Python and its libraries map another."""
WALL_FACTOR = 3
"""Wall-clock limit for a CPU limit: other processes keep the cores busy, too."""
NEEDS = 'is read if its readers are installed: pip install "localllm[documents]"'


class ReadRequest(msgspec.Struct, frozen=True, array_like=True):
    """One document."""

    kind: DocumentKind
    data: bytes
    pages: str
    """As in `pages.chosen`."""
    max_pages: int
    max_characters: int


class ReadingChild:
    """The parent's side: starts the child. Used by one thread at a time."""

    def __init__(self, max_cpu_s: float) -> None:
        self._max_cpu_s = max_cpu_s
        self._child = LimitedChild(["localllm.documents.reading_child", f"{max_cpu_s:g}"], Contents)

    def read(self, request: ReadRequest) -> Contents:
        """Raises `InternalError`."""
        try:
            return self._child.ask(encode(request), WALL_FACTOR * self._max_cpu_s + 1)
        except OverLimit as reason:
            return Contents(
                problem=f"needed more than {self._max_cpu_s:g} s (setting max_document_s) or "
                f"{MAX_MEMORY_BYTES // 10**6} MB to be read, or is broken ({reason}); send a part of it"
            )
        except NotEncodable as error:
            return Contents(problem=f"is too large: {error.reason}")

    def close(self) -> None:
        self._child.close()


def contents_of(request: ReadRequest) -> Contents:
    """What the document's reader finds in it, or why it cannot be read."""
    try:
        return _read(request)
    except Unreadable as error:
        return Contents(problem=str(error))
    except ImportError:
        return Contents(problem=NEEDS)
    except MemoryError:
        return Contents(problem="needs too much memory to be read; send a part of it")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  a reader may raise anything on a broken file, Rust's ones panic
        return Contents(problem=f"is broken: {type(error).__name__}: {str(error)[:200]}")


def _read(request: ReadRequest) -> Contents:
    data, pages, most = request.data, request.pages, request.max_characters
    if request.kind == "html":
        from localllm.documents.readers import html

        return html.read(data, max_characters=most)
    if request.kind == "rtf":
        from localllm.documents.readers import rtf

        return rtf.read(data, max_characters=most)
    if request.kind == "pdf":
        from localllm.documents.readers import pdf

        return pdf.read(data, pages=pages, max_pages=request.max_pages, max_characters=most)
    if request.kind == "ole":
        from localllm.documents.readers import ole

        return ole.read(data, pages=pages, max_pages=request.max_pages, max_characters=most)
    from localllm.documents.readers import archive

    return archive.contents(data, pages=pages, max_pages=request.max_pages, max_characters=most)


def _prepare() -> Callable[[ReadRequest], bytearray]:

    def answer_to(request: ReadRequest) -> bytearray:
        return encode(contents_of(request))

    return answer_to


if __name__ == "__main__":
    questions: msgspec.msgpack.Decoder[ReadRequest] = msgspec.msgpack.Decoder(ReadRequest)
    serve(questions, Contents(), _prepare, cpu_s=float(sys.argv[1]), memory_bytes=MAX_MEMORY_BYTES)
