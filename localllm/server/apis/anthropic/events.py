"""The events of a stream of `POST /v1/messages`, as Anthropic writes them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from localllm.server.answers.remarks import Remarks, TimingsObject
from localllm.server.apis.anthropic.replies import AnswerBlock, ErrorReply, MessageObject, MessageUsage, StopReason
from localllm.server.edge import sse


class MessageStart(msgspec.Struct, frozen=True, tag="message_start"):
    message: MessageObject


class BlockStart(msgspec.Struct, frozen=True, tag="content_block_start"):
    index: int
    content_block: AnswerBlock


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta"):
    thinking: str


class SignatureDelta(msgspec.Struct, frozen=True, tag="signature_delta"):
    signature: str


class InputDelta(msgspec.Struct, frozen=True, tag="input_json_delta"):
    partial_json: str


class BlockDelta(msgspec.Struct, frozen=True, tag="content_block_delta"):
    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class BlockStop(msgspec.Struct, frozen=True, tag="content_block_stop"):
    index: int


class Ending(msgspec.Struct, frozen=True):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, tag="message_delta"):
    """Sent at the end, with the usage of the whole message."""

    delta: Ending
    usage: MessageUsage
    timings: TimingsObject | UnsetType = UNSET
    localllm: Remarks | UnsetType = UNSET


class MessageStop(msgspec.Struct, frozen=True, tag="message_stop"):
    pass


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    pass


Event = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping | ErrorReply


encode = sse.typed
PING = encode(Ping())
