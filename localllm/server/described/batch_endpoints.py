"""The operations of files and batches, a part of `endpoints`."""

from __future__ import annotations

from typing import Any

from localllm.server.apis.anthropic import replies as message_replies
from localllm.server.apis.batches import replies as batch_replies
from localllm.server.apis.batches.files import FileRequest
from localllm.server.apis.batches.handlers import BatchRequest
from localllm.server.apis.batches.message_batches import MessageBatchRequest
from localllm.server.described.operation import PAGE_QUERY, Operation, Query

_BATCH_QUERY = tuple(Query(name, {"type": "string"}) for name in ("limit", "after"))
_FILE_QUERY = (
    *_BATCH_QUERY,
    Query("purpose", {"type": "string"}),
    Query("order", {"type": "string", "enum": ["asc", "desc"]}),
)


def _message_batches(method: str, path: str, summary: str, *types: Any, **more: Any) -> Operation:
    """An operation of Anthropic's message batches. `types`: request, response."""
    return Operation(
        method, f"/v1/messages/batches{path}", summary, *types, **{"error": message_replies.ErrorReply, **more}
    )


BATCH_OPERATIONS = (
    Operation("post", "/v1/files", "Store a file for a batch", FileRequest, batch_replies.FileObject, is_form=True),
    Operation("get", "/v1/files", "Stored files", response=batch_replies.FileList, query=_FILE_QUERY),
    Operation("get", "/v1/files/{file_id}", "A stored file", response=batch_replies.FileObject),
    Operation("delete", "/v1/files/{file_id}", "Delete a stored file", response=batch_replies.FileDeleted),
    Operation(
        "get", "/v1/files/{file_id}/content", "The content of a stored file", text_type="application/octet-stream"
    ),
    Operation("post", "/v1/batches", "Answer a file of requests", BatchRequest, batch_replies.BatchObject),
    Operation("get", "/v1/batches", "Batches", response=batch_replies.BatchList, query=_BATCH_QUERY),
    Operation("get", "/v1/batches/{batch_id}", "How a batch stands", response=batch_replies.BatchObject),
    Operation("post", "/v1/batches/{batch_id}/cancel", "End a batch", response=batch_replies.BatchObject),
    _message_batches("post", "", "Answer many conversations", MessageBatchRequest, batch_replies.MessageBatch),
    _message_batches("get", "", "Message batches", None, batch_replies.MessageBatchList, query=PAGE_QUERY),
    _message_batches("get", "/{batch_id}", "How a batch stands", None, batch_replies.MessageBatch),
    _message_batches("delete", "/{batch_id}", "Delete a batch", None, batch_replies.MessageBatchDeleted),
    _message_batches("get", "/{batch_id}/results", "The results of a batch", text_type="application/x-jsonl"),
    _message_batches("post", "/{batch_id}/cancel", "End a batch", None, batch_replies.MessageBatch),
)
