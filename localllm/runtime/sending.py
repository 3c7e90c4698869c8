"""Requests of one call on their way to a worker: all or none are sent, and all are awaited until it has accepted them.

Knows neither which model that is nor how it was loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from localllm.runtime.answer_reader import Answer, reading_for
from localllm.supervisor.pending import Pending
from localllm.supervisor.session import Session
from localllm.types import GenerationRequest

SENT_AT_ONCE = 4
"""Requests of one call that are sent without yielding to the event loop."""


async def send(requests: Sequence[GenerationRequest], session: Session) -> list[Pending]:
    """Raises `QueueFull`, and then nothing was sent, and as `Session.submit`."""
    # All or none: send nothing that would be cancelled immediately.
    session.check_room(len(requests), is_batch=all(request.batch for request in requests))
    sent: list[Pending] = []
    try:
        for number, request in enumerate(requests, 1):
            sent.append(session.submit(request))
            if number % SENT_AT_ONCE == 0:  # each may have megabytes, and is encoded here
                await asyncio.sleep(0)
    except BaseException:
        _cancel(sent)
        raise
    return sent


async def accepted(sent: Sequence[Pending], session: Session) -> list[Answer]:
    """Their answers, once the worker has prepared all of them. Raises what it refuses them for."""
    try:
        num_prompt_tokens = await asyncio.gather(*(pending.mailbox.accepted for pending in sent))
    except BaseException:  # rejected, or the caller was cancelled while its prompts were prepared
        _cancel(sent)
        raise
    format = session.ready.result().format
    return [
        Answer(pending, count, reading_for(pending.request, format, pending.mailbox.beginning), pending.request.notes)
        for pending, count in zip(sent, num_prompt_tokens, strict=True)
    ]


def _cancel(sent: Sequence[Pending]) -> None:
    for pending in sent:
        pending.cancel()
