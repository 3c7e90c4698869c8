"""The results of a batch: one JSON line each, appended and flushed as they come, and read again to go on after a kill.

    {"id": "batch_req_7", "custom_id": "a", "response": {"status_code": 200, "request_id": "...", "body": {...}},
     "error": null, "input": "5f0c..."}                                                    OpenAI's form
    {"custom_id": "a", "result": {"type": "succeeded", "message": {...}}, "input": "5f0c..."}          Anthropic's

`input` is the digest of the line that was answered; `retry` stands where the next run tries again. Knows nothing of how
answers are made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

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

    def add(self, line: BatchLine, reply: Reply | None) -> None:
        """Append the result, whole or not at all as far as a killed process can tell. `reply`: None for a wrong line.
        Raises `OSError`."""
        self._file.write(result_of(line, reply) + b"\n")
        self._file.flush()


def result_of(line: BatchLine, reply: Reply | None) -> bytes:
    """The line of the file, without its end."""
    made: dict[str, Any] = {"id": f"batch_req_{line.number}", "custom_id": line.id}
    if reply is None:
        made |= {"response": None, "error": {"code": "invalid_line", "message": f"line {line.number}: {line.problem}"}}
    elif line.is_anthropic:
        del made["id"]
        is_answer = reply.status < 400
        content = (
            {"type": "succeeded", "message": _json(reply)} if is_answer else {"type": "errored", "error": _json(reply)}
        )
        made["result"] = content
    else:
        made["response"] = {"status_code": reply.status, "request_id": reply.request_id, "body": _json(reply)}
        made["error"] = None
    made["input"] = line.digest
    if reply is None or not reply.is_answer:
        made["retry"] = True  # the line may be put right before the next run
    return msgspec.json.encode(made)


def _json(reply: Reply) -> msgspec.Raw:
    """The body on one line."""
    return msgspec.Raw(reply.body if b"\n" not in reply.body else msgspec.json.format(reply.body, indent=-1))
