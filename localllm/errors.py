"""Every error that localllm raises on purpose, in one tree. Knows nothing of HTTP statuses or exit codes.

    LocalLLMError
    ├── RequestError               the caller can fix it by asking differently
    │   ├── InvalidParameter           invalid_parameter
    │   ├── UnknownParameter           unknown_parameter
    │   ├── UnsupportedParameter       unsupported_parameter
    │   ├── ContextLengthExceeded      context_length_exceeded
    │   ├── TemplateError              template_error
    │   ├── NoChatTemplate             no_chat_template
    │   ├── IncompleteDocument         incomplete_document: a truncated answer has no value
    │   ├── NotLoaded                  an `LLM` is used after `close`, or an `AsyncLLM` before `load`
    │   └── WrongOwner                 an object is used on another event loop or in a forked process
    ├── ModelNotFound              model_not_found
    ├── SlotNotFound               slot_not_found: no slot of that number, or none saved under that name
    ├── SlotBusy                   slot_busy: a request is using it
    ├── LoadFailed                 load_failed: the model or the backend cannot be used
    │   ├── InvalidModelFile           the GGUF file is malformed: says at which byte and why
    │   ├── LoadConflict           load_conflict: a loaded model is in the way
    │   └── DeviceUnavailable          a requested device or number of layers is not available
    ├── PullFailed                 pull_failed: the source is unreachable, or sends something wrong
    │   ├── Cancelled                  it was stopped
    │   ├── AccessDenied               access_denied: needs a token, an accepted licence, or another account
    │   └── ForbiddenAddress           forbidden_address: an address that a manifest or redirect may not lead to
    ├── DiskFull                   disk_full
    ├── QueueFull                  queue_full
    ├── Unavailable                try again later
    │   ├── WorkerCrashed              worker_crashed
    │   └── Loading, Draining          loading, draining
    ├── RequestTimeout             timeout
    └── InternalError              internal

`code` is the stable name; `param` the field at fault; `details` are plain numbers and strings; `public` names no file.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

Detail = str | int | float | bool | None

MAX_ECHO_CHARS = 200
"""Limit for repeating a client's text in a sentence or a log line: enough to recognize it."""


def clipped(text: str, most: int = MAX_ECHO_CHARS) -> str:
    """The text; if it is longer than `most` characters, its beginning and `...`."""
    return text if len(text) <= most else f"{text[:most]}..."


_HOME = "--home or LOCALLLM_HOME chooses another folder for what localllm keeps"
_REMEDIES = {
    errno.ENOSPC: "make room (localllm gc deletes what no model needs)",
    errno.EDQUOT: "make room (localllm gc deletes what no model needs)",
    errno.ENOENT: "check the path",
    errno.EACCES: "allow it for this user",
    errno.EPERM: "allow it for this user",
    errno.EROFS: "write elsewhere",
    errno.ENOTDIR: "a file is where a folder is needed: move it away",
    errno.EEXIST: "something else is there already: move it away",
    errno.EISDIR: "a folder is where a file is needed: move it away",
    errno.EMFILE: "allow more open files (ulimit -n), and start it again",
    errno.ENFILE: "the whole system has too many files open: close other programs",
    errno.EIO: "the disk may be failing: look at the system's log, and save what matters",
    errno.ENAMETOOLONG: "use a shorter path",
}
_NOT_OF_HOME = (errno.EISDIR, errno.EMFILE, errno.ENFILE, errno.EIO)
"""Errors that another home would not change."""


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to `OSError`s without one, such as those of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def sentence_of(error: OSError, *, is_in_home: bool = True) -> str:
    """The file, the system's error message, and the remedy if one is known. `is_in_home`: the file may be one that
    localllm keeps, rather than one whose place the user chose."""
    what = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        name = error.filename
        what = f"{os.fsdecode(name) if isinstance(name, str | bytes) else name}: {what}"
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return what
    return f"{what}; {remedy}; {_HOME}" if is_in_home and error.errno not in _NOT_OF_HOME else f"{what}; {remedy}"


def has_remedy(error: OSError) -> bool:
    """Whether `sentence_of` ends with a remedy."""
    return error.errno in _REMEDIES


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it is sent between processes."""

    code: str
    message: str
    param: str | None = None
    details: dict[str, Detail] = {}
    public: str | None = None


class LocalLLMError(Exception):
    """Base of the tree. `str()` is a sentence with the remedy."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, param: str | None = None, public: str | None = None, **details: Detail) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.public = message if public is None else public
        self.details: dict[str, Detail] = details

    def info(self) -> ErrorInfo:
        """The wire form; `from_info` is its inverse."""
        public = None if self.public == self.message else self.public
        return ErrorInfo(code=self.code, message=self.message, param=self.param, details=self.details, public=public)

    def renamed(self, message: str, param: str) -> LocalLLMError:
        """The same error with another message and another name for the field."""
        return from_info(msgspec.structs.replace(self.info(), message=message, param=param, public=None))

    def __reduce__(self) -> tuple[Any, ...]:
        return (from_info, (self.info(),))


class RequestError(LocalLLMError):
    """The request is at fault."""

    code = "invalid_parameter"


class InvalidParameter(RequestError):
    """A field's value is out of range or of the wrong type."""


class UnknownParameter(RequestError):
    """An unknown field, under `--strict`."""

    code = "unknown_parameter"


class UnsupportedParameter(RequestError):
    """A documented field that would change the answer and is not supported."""

    code = "unsupported_parameter"


class ContextLengthExceeded(RequestError):
    """The prompt does not fit; details: `prompt_tokens`, `context_length`."""

    code = "context_length_exceeded"


class TemplateError(RequestError):
    """The model's chat template failed on these messages."""

    code = "template_error"


class NoChatTemplate(RequestError):
    """The model has no chat template."""

    code = "no_chat_template"


class IncompleteDocument(RequestError):
    """A document with a schema was truncated; details: `reason`, the finish reason."""

    code = "incomplete_document"


class NotLoaded(RequestError):
    """An `LLM` is used after `close`, or an `AsyncLLM` before `load`."""


class WrongOwner(RequestError):
    """An object is used on an event loop, on a thread or in a process that it does not belong to."""


class ModelNotFound(LocalLLMError):
    """No model of that name, or no such file."""

    code = "model_not_found"


class SlotNotFound(LocalLLMError):
    """The model has no slot of that number, or nothing was saved under that name."""

    code = "slot_not_found"


class SlotBusy(LocalLLMError):
    """A request is using the slot, or the memory that it needs."""

    code = "slot_busy"


class LoadFailed(LocalLLMError):
    """The model cannot be loaded on this machine."""

    code = "load_failed"


class InvalidModelFile(LoadFailed):
    """Not a GGUF file that can be trusted; details: `path`, `offset` (bytes, or None), `reason`."""


class LoadConflict(LoadFailed):
    """Another model, or the same one with other options, is in the way; unloading it helps."""

    code = "load_conflict"


class DeviceUnavailable(LoadFailed):
    """A requested device or number of layers is not available."""


class PullFailed(LocalLLMError):
    """A model could not be downloaded. The part that has arrived is kept, and the next pull resumes."""

    code = "pull_failed"


class Cancelled(PullFailed):
    """A long operation was cancelled. Nothing is left half done, and downloaded parts are kept."""


class AccessDenied(PullFailed):
    """The source knows the model but denies access; the message says what to do."""

    code = "access_denied"


class ForbiddenAddress(PullFailed):
    """External input named an address in a private range."""

    code = "forbidden_address"


class DiskFull(LocalLLMError):
    """Not enough disk space; details: `needed_bytes`, `free_bytes`."""

    code = "disk_full"


class QueueFull(LocalLLMError):
    """The waiting queue is at its limit."""

    code = "queue_full"


class Unavailable(LocalLLMError):
    """Cannot answer now; the same request may succeed later."""

    code = "loading"


class WorkerCrashed(Unavailable):
    """The model's process died; details: `exit_code`, `signal`, `stderr`."""

    code = "worker_crashed"


class Loading(Unavailable):
    """The model is still loading."""


class Draining(Unavailable):
    """The server is shutting down."""

    code = "draining"


class RequestTimeout(LocalLLMError):
    """The request ran past its time limit."""

    code = "timeout"


class InternalError(LocalLLMError):
    """A defect in localllm."""


_BY_CODE: dict[str, type[LocalLLMError]] = {
    cls.code: cls
    for cls in (
        InvalidParameter, UnknownParameter, UnsupportedParameter, ContextLengthExceeded, TemplateError, NoChatTemplate,
        IncompleteDocument, ModelNotFound, SlotNotFound, SlotBusy, LoadFailed, LoadConflict, PullFailed, AccessDenied,
        ForbiddenAddress, DiskFull, QueueFull, WorkerCrashed, Loading, Draining, RequestTimeout, InternalError,
    )
}  # fmt: skip


def from_info(info: ErrorInfo) -> LocalLLMError:
    """The exception for a wire error; an unknown code becomes `InternalError`."""
    return _BY_CODE.get(info.code, InternalError)(info.message, param=info.param, public=info.public, **info.details)
