"""How many texts to embed or rank a model accepts at a time, and the errors for the rest. Pure."""

from __future__ import annotations

from localllm.errors import InvalidParameter, QueueFull, RequestTimeout
from localllm.types.embeddings import EmbeddingRequest, RerankRequest

MAX_WAITING_TEXTS = 20_000
"""The most texts one model may have at a time, over all its requests."""


def count(request: EmbeddingRequest | RerankRequest) -> int:
    """Number of its texts. Raises `InvalidParameter` for a request without any."""
    if isinstance(request, RerankRequest):
        if not request.documents:
            raise InvalidParameter("give at least one document", param="documents")
        return len(request.documents)
    given = [items for items in (request.texts, request.tokens, request.parts) if items is not None]
    if len(given) != 1:
        raise InvalidParameter("give texts or token arrays, one of them", param="input")
    (items,) = given
    if not items:
        raise InvalidParameter("give at least one text", param="input")
    return len(items)


def check_room(num_texts: int, waiting_texts: int, waiting_requests: int, max_waiting: int) -> None:
    """Raises `QueueFull`, or `InvalidParameter` if there will never be room."""
    if waiting_requests >= max_waiting:
        raise QueueFull(
            f"{waiting_requests} requests with texts are waiting already, of {max_waiting} that may (max_waiting); "
            "try again later",
            waiting=waiting_requests,
            limit=max_waiting,
        )
    if num_texts > MAX_WAITING_TEXTS:
        raise InvalidParameter(
            f"{num_texts} texts are too many for one request; send at most {MAX_WAITING_TEXTS}", param="input"
        )
    if waiting_texts + num_texts > MAX_WAITING_TEXTS:
        raise QueueFull(
            f"{waiting_texts} texts are waiting already, of {MAX_WAITING_TEXTS} that may; try again later",
            waiting=waiting_texts,
            limit=MAX_WAITING_TEXTS,
        )


def late(request: EmbeddingRequest | RerankRequest) -> RequestTimeout:
    """The error for a request that the worker should have ended."""
    return RequestTimeout(
        f"its texts were not computed within the {request.timeout_s:.3g} s that the request allows (timeout); "
        "the model's process does not answer"
    )


def late_in_queue(request: EmbeddingRequest | RerankRequest) -> RequestTimeout:
    """The error for a request of which no text began in time."""
    return RequestTimeout(
        f"none of its texts began within the {request.queue_timeout_s:.3g} s that a request may wait "
        "(queue_timeout_s); the model's process does not answer"
    )
