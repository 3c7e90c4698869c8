"""Response bodies: files and batches, in OpenAI's and in Anthropic's format."""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

from localllm.batches.jobs import Job, JobFolder
from localllm.batches.stored import Purpose, StoredFile


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"


class FileList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


class BatchError(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a batch as a whole."""

    code: str
    message: str
    line: int | None
    param: str | None


class BatchErrors(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[BatchError]


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    completed: int
    failed: int


class BatchObject(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, as OpenAI has it. Times are seconds since 1970."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    errors: BatchErrors | None
    input_file_id: str
    completion_window: str
    status: Literal[
        "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
    ]
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    metadata: dict[str, str] | None


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[BatchObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class MessageCounts(msgspec.Struct, frozen=True, kw_only=True):
    processing: int
    succeeded: int
    errored: int
    canceled: int
    expired: int


class MessageBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, as Anthropic has it. Times are in RFC 3339."""

    id: str
    type: Literal["message_batch"] = "message_batch"
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageCounts
    ended_at: str | None
    created_at: str
    expires_at: str
    archived_at: None = None
    cancel_initiated_at: str | None
    results_url: str | None
    """A path on this server, which has other addresses behind a gateway."""


class MessageBatchList(msgspec.Struct, frozen=True, kw_only=True):
    data: list[MessageBatch]
    has_more: bool
    first_id: str | None
    last_id: str | None


class MessageBatchDeleted(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: Literal["message_batch_deleted"] = "message_batch_deleted"


def file_object(kept: StoredFile) -> FileObject:
    """As the API has it."""
    return FileObject(
        id=kept.id,
        bytes=kept.size_bytes,
        created_at=kept.created_s,
        expires_at=kept.expires_s,
        filename=kept.name,
        purpose=kept.purpose,
    )


def batch_object(job: Job, folder: JobFolder) -> BatchObject:
    """As OpenAI's API has it."""
    cancelling_s = folder.cancelled_s
    is_cancelling = cancelling_s is not None and not job.has_ended
    problems = [
        BatchError(code=each.code, message=each.message, line=each.line, param=each.param) for each in job.problems
    ]
    return BatchObject(
        id=job.id,
        endpoint=job.endpoint,
        errors=BatchErrors(data=problems) if problems else None,
        input_file_id=job.input_file or "",
        completion_window=job.window,
        status="cancelling" if is_cancelling else job.status,
        output_file_id=job.output_file if job.has_ended else None,
        error_file_id=job.error_file if job.has_ended else None,
        created_at=job.created_s,
        in_progress_at=job.began_s,
        expires_at=job.expires_s,
        finalizing_at=job.finalizing_s,
        completed_at=_ended_s(job, "completed"),
        failed_at=_ended_s(job, "failed"),
        expired_at=_ended_s(job, "expired"),
        cancelling_at=cancelling_s,
        cancelled_at=_ended_s(job, "cancelled"),
        request_counts=RequestCounts(total=job.total, completed=job.answered, failed=job.failed + job.unsent),
        metadata=job.metadata,
    )


def message_batch(job: Job, folder: JobFolder) -> MessageBatch:
    """As Anthropic's API has it."""
    cancelled_s = folder.cancelled_s
    has_results = job.has_ended and folder.answered.exists()
    status: Literal["in_progress", "canceling", "ended"] = "in_progress" if cancelled_s is None else "canceling"
    unsent = job.unsent if job.has_ended else 0
    return MessageBatch(
        id=job.id,
        processing_status="ended" if job.has_ended else status,
        request_counts=MessageCounts(
            processing=0 if job.has_ended else job.total - job.answered - job.failed,
            succeeded=job.answered,
            errored=job.failed,
            canceled=unsent if job.status == "cancelled" else 0,
            expired=unsent if job.status == "expired" else 0,
        ),
        ended_at=None if job.ended_s is None else _rfc3339(job.ended_s),
        created_at=_rfc3339(job.created_s),
        expires_at=_rfc3339(job.expires_s),
        cancel_initiated_at=None if cancelled_s is None else _rfc3339(cancelled_s),
        results_url=f"/v1/messages/batches/{job.id}/results" if has_results else None,
    )


def _ended_s(job: Job, status: str) -> int | None:
    return job.ended_s if job.status == status else None


def _rfc3339(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat().replace("+00:00", "Z")
