"""The results of a batch: one JSON line each, appended and flushed as they come, and read again to go on after a kill.

    {"id": "batch_req_7", "custom_id": "a", "response": {"status_code": 200, "request_id": "...", "body": {...}},
     "error": null, "input": "5f0c..."}                                                    OpenAI's form
    {"custom_id": "a", "result": {"type": "succeeded", "message": {...}}, "input": "5f0c..."}          Anthropic's

`input` is the digest of the line that was answered; `retry` stands where the next run tries again. Knows nothing of how
answers are made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgspec

from localllm.batches.lines import BatchLine


class Reply(NamedTuple):
    """What a request got."""

    status: int
    request_id: str
    body: bytes
    """JSON."""

    @property
    def is_answer(self) -> bool:
        """Whether it is what was asked for, and no error."""
        return self.status < 400

    @property
    def is_final(self) -> bool:
        """Whether another try would get the same: not if the server was full or a worker ended."""
        return self.status < 500 and self.status != 429


class _Kept(msgspec.Struct):
    custom_id: str
    input: str
    retry: bool = False


Outcome = Literal["answered", "failed", "unsent"]
SUCCEEDED, ERRORED = "succeeded", "errored"
"""Anthropic's words."""
_EXPIRED, _CANCELLED = "batch_expired", "batch_cancelled"
"""OpenAI's."""


class _Type(msgspec.Struct):
    type: str


class _Code(msgspec.Struct):
    code: str


class _Response(msgspec.Struct):
    status_code: int


class _Written(msgspec.Struct):
    """A result of a server's batch."""

    custom_id: str
    response: _Response | None = None
    error: _Code | None = None
    result: _Type | None = None

    @property
    def outcome(self) -> Outcome:
        if self.result is not None:
            names: dict[str, Outcome] = {SUCCEEDED: "answered", ERRORED: "failed"}
            return names.get(self.result.type, "unsent")
        if self.response is not None:
            return "answered" if self.response.status_code < 400 else "failed"
        is_unsent = self.error is not None and self.error.code in (_EXPIRED, _CANCELLED)
        return "unsent" if is_unsent else "failed"


class Finished(NamedTuple):
    """What is in a file of results."""

    digests: Mapping[str, str]
    """Id -> digest of the line that was answered."""
    num_again: int
    """Results that were errors; they are gone from the file."""
    is_torn: bool
    """Whether the last line was not whole."""


def read_results(path: Path) -> Finished:
    """Reads a file of results, and takes errors and a torn line out of it. Raises `OSError`, `ValueError` for a file of
    something else."""
    digests: dict[str, str] = {}
    num_again, is_torn, end = 0, False, 0
    rest = path.with_name(f"{path.name}.part")
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                is_torn = True
                break
            end += len(line)
            try:
                kept = msgspec.json.decode(line, type=_Kept)
            except msgspec.DecodeError as error:
                raise ValueError(f"line {number} is no result of a batch ({error})") from error
            if kept.retry:
                num_again += 1
            else:
                digests[kept.custom_id] = kept.input
    if num_again:
        _without_retries(path, rest)
    elif is_torn:
        os.truncate(path, end)
    return Finished(digests, num_again, is_torn)


def _without_retries(path: Path, rest: Path) -> None:
    """A kill leaves the old file or the new one."""
    with path.open("rb") as old, rest.open("wb") as new:
        for line in old:
            if line.endswith(b"\n") and not msgspec.json.decode(line, type=_Kept).retry:
                new.write(line)
        new.flush()
        os.fsync(new.fileno())
    os.replace(rest, path)


class ResultFile:
    """Where results go."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size_bytes = 0
        """Of what was appended."""

    def add(self, line: BatchLine, reply: Reply | None) -> None:
        """Append the result, whole or not at all as far as a killed process can tell. `reply`: None for a wrong line.
        Raises `OSError`."""
        made = result_of(line, reply)
        made["input"] = line.digest
        if reply is None or not reply.is_answer:
            made["retry"] = True  # the line may be put right before the next run
        self.append(made)

    def append(self, made: Mapping[str, Any]) -> None:
        """The same for a whole result. Raises `OSError`."""
        content = msgspec.json.encode(made) + b"\n"
        self._file.write(content)
        self._file.flush()
        self.size_bytes += len(content)


def result_of(line: BatchLine, reply: Reply | None) -> dict[str, Any]:
    """A result, as the API has it."""
    made: dict[str, Any] = {"id": f"batch_req_{line.number}", "custom_id": line.id}
    if reply is None:
        made |= {"response": None, "error": {"code": "invalid_line", "message": f"line {line.number}: {line.problem}"}}
    elif line.is_anthropic:
        del made["id"]
        is_answer = reply.status < 400
        content = (
            {"type": SUCCEEDED, "message": _json(reply)} if is_answer else {"type": ERRORED, "error": _json(reply)}
        )
        made["result"] = content
    else:
        made["response"] = {"status_code": reply.status, "request_id": reply.request_id, "body": _json(reply)}
        made["error"] = None
    return made


def unsent_result(line: BatchLine, *, is_expired: bool) -> dict[str, Any]:
    """What stands for a line that was not sent before the batch ended."""
    if line.is_anthropic:
        return {"custom_id": line.id, "result": {"type": "expired" if is_expired else "canceled"}}
    why = "the batch expired" if is_expired else "the batch was cancelled"
    error = {"code": _EXPIRED if is_expired else _CANCELLED, "message": f"{why} before this request was sent"}
    return {"id": f"batch_req_{line.number}", "custom_id": line.id, "response": None, "error": error}


def written(path: Path, add: Callable[[str, Outcome], None]) -> None:
    """Names each result in a file that a server wrote, and takes a torn line out of it. A file that is missing has
    none. Raises `OSError`."""
    end = 0
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                result = msgspec.json.decode(line, type=_Written)
                add(result.custom_id, result.outcome)
    except FileNotFoundError:
        return
    if end < path.stat().st_size:
        os.truncate(path, end)


def _json(reply: Reply) -> msgspec.Raw:
    """The body on one line."""
    return msgspec.Raw(reply.body if b"\n" not in reply.body else msgspec.json.format(reply.body, indent=-1))
