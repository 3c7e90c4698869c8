"""`POST /v1/responses/compact`: a conversation becomes its user messages and a summary, which the model writes.

The summary is an item like OpenAI's, whose content only this server reads. Knows nothing of HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from localllm.errors import InternalError
from localllm.server.answers.choices import CompleteAnswer
from localllm.server.answers.remarks import Remarks, finish_reason, remarks
from localllm.server.apis.responses.items import AnyItem, CompactionItem, InputText, MessageItem, new_id, sealed
from localllm.server.apis.responses.media import shown
from localllm.server.apis.responses.replies import ResponseUsage, usage_object
from localllm.server.apis.responses.requests import ResponseRequest
from localllm.server.apis.responses.tools import OfferedTools
from localllm.server.requests import fields
from localllm.server.requests.field_rules import Fates, RefusedField
from localllm.server.requests.values import missing
from localllm.types import GenerationRequest, MediaFile

MAX_SUMMARY_TOKENS = 4096
"""Unless the request has `max_output_tokens`."""
PROMPT = """\
Summarize our conversation so far, for someone who continues it without having read it. Include:
- what the user wants
- what has been done and decided, and why
- facts, names, files, code and results that are still needed
- what remains to be done
Be brief and exact. Write nothing but the summary."""

_WRITTEN = "the answer is a summary in plain text"
_RETURNED = "a compaction is returned to the client and not stored"
_KEPT = ("user", "system", "developer")
"""Roles of messages that stay: OpenAI keeps the user's, and instructions in the input stay valid, too."""


class CompactRequest(ResponseRequest, frozen=True, kw_only=True):
    """`POST /v1/responses/compact`: the fields of a response that concern its prompt and its sampling."""

    fates: ClassVar[Fates] = Fates(
        {**fields.RESPONSES.refused, "stream": RefusedField("a compaction is returned as a whole", (False,))},
        {
            **fields.RESPONSES.ignored,
            **dict.fromkeys(("include", "metadata", "store"), _RETURNED),
            **dict.fromkeys(("parallel_tool_calls", "stream_options", "text", "tool_choice", "top_logprobs"), _WRITTEN),
        },
    )

    def summary(
        self, conversation: Sequence[AnyItem], offered: OfferedTools, files: Sequence[MediaFile]
    ) -> GenerationRequest:
        """The request for the summary; its prompt begins like that of an answer, which may be cached.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        if not conversation:
            raise missing("input")
        limit = MAX_SUMMARY_TOKENS if self.max_output_tokens is None else self.max_output_tokens
        text = None if self.text is None else replace(self.text, format=None)
        asked = MessageItem(id="", role="user", content=[InputText(PROMPT)])
        changed = replace(
            self, max_output_tokens=limit, text=text, tool_choice="none", include=None, top_logprobs=None, stream=None
        )
        return changed.generation([*conversation, asked], offered, files)


class CompactedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation to continue from."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[AnyItem]
    """The messages of the user, then the summary of everything."""
    usage: ResponseUsage
    localllm: Remarks | UnsetType = UNSET


def compacted(
    conversation: Sequence[AnyItem], files: Sequence[MediaFile], answer: CompleteAnswer, notes: Sequence[str]
) -> CompactedResponse:
    """The reply; the user's messages have their pictures, since the client keeps it.

    Raises `Draining` if the server cut the summary short, `InternalError` if the model wrote none."""
    is_cut = finish_reason(answer.finish) == "length"
    text = answer.text.strip()
    if not text:
        why = "its thought reached the token limit" if is_cut else "it ended its answer at once"
        raise InternalError(f"the model wrote no summary: {why}; try again, with a larger max_output_tokens")
    notes = [*notes, *answer.notes, *(["the summary was cut at the token limit"] if is_cut else [])]
    said = (item for item in conversation if isinstance(item, MessageItem) and item.role in _KEPT)
    by_digest = {file.digest: file for file in files}
    kept = [shown(item, by_digest) for item in said]
    return CompactedResponse(
        id=new_id("resp"),
        created_at=int(time.time()),
        output=[*kept, CompactionItem(id=new_id("cmp"), encrypted_content=sealed(text))],
        usage=usage_object(answer.finish.usage),
        localllm=remarks(notes, finish=answer.finish),
    )
