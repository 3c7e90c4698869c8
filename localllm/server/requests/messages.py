"""The messages of a chat request, as clients write them, converted to a `Conversation`.

Accepts what agents send back: results of unknown calls, arguments that are not JSON, null contents, rewritten ids,
and contents that no model reads, except in the turn to answer. Whether a model reads pictures is decided where it runs.
Raises `RequestError`s that name the field at fault as a JSON path. Knows nothing of chat templates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import drop, first_refused, stand_in
from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.requests.call_ids import with_ids
from localllm.server.requests.field_rules import Fates, RefusedField
from localllm.server.requests.values import json_or_text, message_of, missing, needed, wrong_content
from localllm.types import Media, Message, ToolCall
from localllm.types.conversation import Conversation
from localllm.types.documents import DocumentOptions, PageImages

ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Role in a request -> role in a `Message`."""

Arguments = Annotated[Raw, Meta(extra_json_schema={"type": ["string", "object", "null"]})]

_ENCRYPTED = ("redacted_thinking", "reasoning.encrypted")
"""Types of thoughts that only another vendor can read."""
ELSEWHERE = "; a note stands for those in tools' results and earlier turns"
IMAGES = ("image_url", "input_image", "image")
VIDEOS = ("input_video", "video_url", "video")
SOUNDS = ("input_audio", "audio_url", "audio")
FILES = ("file", "input_file")
"""Types of parts that may be read."""
NO_STORE = "no files are stored here; send the file itself as file_data"
_FILE_ID = {"file_id": RefusedField(f"{NO_STORE}{ELSEWHERE}")}
_FILES = dict.fromkeys(
    ("file", "file_data", "file_id", "file_url", "filename", "pages", "page_images"),
    RefusedField(f"files are not supported here; send their text{ELSEWHERE}"),
)
_FILE_IGNORED = {
    "detail": "pages are shown as large as the model reads them",
    "format": "the content says what it is",
    "mime_type": "the content says what it is",
}
_UNUSED = {
    "annotations": "only the text of earlier answers is used",
    "cache_control": "common prefixes are always cached",
    "logprobs": "only the text of earlier answers is used",
    "prompt_cache_breakpoint": "common prefixes are always cached",
}


class ThoughtText(msgspec.Struct, frozen=True):
    """A part of a thought, as Mistral sends them."""

    text: str = ""


class EarlierAudio(msgspec.Struct, frozen=True):
    """A spoken answer of another model."""

    fates: ClassVar[Fates] = Fates(
        ignored=dict.fromkeys(("id", "data", "expires_at"), "the transcript is shown to the model")
    )

    transcript: str | None = None


class ImageUrl(msgspec.Struct, frozen=True):
    """A picture."""

    url: str = ""
    """A data URL, base64, or an address if the server's `media_urls` allows it."""
    detail: str | None = None


class InputAudio(msgspec.Struct, frozen=True):
    """A sound."""

    fates: ClassVar[Fates] = Fates(ignored={"format": "the content says what it is"})

    data: str = ""
    format: str | None = None


class InputVideo(msgspec.Struct, frozen=True):
    """A video, as llama-server's clients send it."""

    fates: ClassVar[Fates] = Fates(ignored={"format": "the content says what it is"})

    data: str = ""
    format: str | None = None


class MediaUrl(msgspec.Struct, frozen=True):
    """A sound or video, as vLLM's clients send it."""

    url: str = ""


class GivenFile(msgspec.Struct, frozen=True):
    """A document."""

    fates: ClassVar[Fates] = Fates(_FILE_ID, _FILE_IGNORED)

    file_data: str | None = None
    """A data URL or base64."""
    filename: str | None = None
    """Shown to the model. Its end tells kinds of text apart; what else the file is, its content says."""
    file_id: str | None = None
    file_url: str | None = None
    """An address, if the server's `media_urls` allows it."""
    pages: str | None = None
    """Pages, slides or sheets to take, as `1-3,7`; all by default."""
    page_images: PageImages | None = None
    """Which pages of a PDF are shown as pictures: those without text (`auto`), `always` or `never`."""

    def media(self, path: str, reading: MediaReading, fields: str = "") -> Media:
        """`fields`: where in the part at `path` the file's are.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        given = self.file_data or self.file_url
        if not given and self.file_id:
            raise UnsupportedParameter(f"{path}{fields}.file_id is not supported: {NO_STORE}", param=path)
        options = DocumentOptions(
            name=self.filename or "", pages=self.pages or "", page_images=self.page_images or "auto"
        )
        return reading.document(needed(given or None, f"{path}{fields}.file_data"), path, options)


class ContentPart(msgspec.Struct, frozen=True):
    """A part of a message: text, refusal or thought (`thinking`). In the turn to answer, other types are refused."""

    fates: ClassVar[Fates] = Fates(
        dict.fromkeys(("image_url", "detail"), RefusedField(f"images are not supported yet{ELSEWHERE}"))
        | _FILES
        | {"input_audio": RefusedField(f"audio is not supported{ELSEWHERE}")},
        _UNUSED,
    )

    type: str
    text: str | None = None
    refusal: str | None = None
    thinking: str | list[ThoughtText] | None = None

    @property
    def thought(self) -> str | None:
        """The text of `thinking`."""
        return "".join(part.text for part in self.thinking) if isinstance(self.thinking, list) else self.thinking


class ChatPart(ContentPart, frozen=True):
    """Such a part, or a picture, video, sound or document."""

    fates: ClassVar[Fates] = Fates(_FILE_ID, _UNUSED)

    image_url: str | ImageUrl | None = None
    detail: str | None = None
    """For an `image_url` that is a string."""
    input_audio: InputAudio | None = None
    audio_url: str | MediaUrl | None = None
    input_video: InputVideo | None = None
    video_url: str | MediaUrl | None = None
    file: GivenFile | None = None
    """A document, as in OpenAI's chat API; its Responses API has its fields in the part."""
    file_data: str | None = None
    filename: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    pages: str | None = None
    page_images: PageImages | None = None

    @property
    def is_media(self) -> bool:
        """Whether it is a picture, video, sound or document that may be read."""
        if self.type in FILES:
            return True
        if self.type in IMAGES:
            return self.image_url is not None
        return (self._sound if self.type in SOUNDS else self._video if self.type in VIDEOS else None) is not None

    def media(self, path: str, reading: MediaReading) -> Media:
        """The picture, video, sound or document. Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.type in FILES:
            if self.file is not None:
                return self.file.media(path, reading, ".file")
            given = (self.file_data, self.filename, self.file_id, self.file_url, self.pages, self.page_images)
            return GivenFile(*given).media(path, reading)
        if self.type in IMAGES:
            image = self.image_url
            url, detail = (image.url, image.detail) if isinstance(image, ImageUrl) else (image or "", self.detail)
            return reading.image(url, path, detail)
        if self.type in VIDEOS:
            return reading.video(self._video or "", path)
        return reading.audio(self._sound or "", path)

    @property
    def _sound(self) -> str | None:
        return _source_of(self.input_audio, self.audio_url)

    @property
    def _video(self) -> str | None:
        return _source_of(self.input_video, self.video_url)


def _source_of(given: InputAudio | InputVideo | None, url: str | MediaUrl | None) -> str | None:
    if given is not None:
        return given.data
    return url.url if isinstance(url, MediaUrl) else url


class CalledFunction(msgspec.Struct, frozen=True):
    name: str
    arguments: Arguments | UnsetType = UNSET
    """A string with JSON; some clients send the object itself."""

    def to_call(self, path: str, id: str | None = None) -> ToolCall:
        """Arguments as JSON. Raises `InvalidParameter`."""
        text = json_or_text(self.arguments, f"{path}.arguments")
        return ToolCall(self.name, "{}" if text in ("", "null") else text, id or "")


class CalledCustom(msgspec.Struct, frozen=True):
    name: str
    input: str = ""


class MessageCall(msgspec.Struct, frozen=True):
    """A call in an earlier answer."""

    id: str | None = None
    type: str | None = None
    function: CalledFunction | None = None
    custom: CalledCustom | None = None

    def to_call(self, path: str) -> ToolCall:
        """Raises `InvalidParameter`."""
        if self.function is not None:
            return self.function.to_call(f"{path}.function", self.id)
        if self.custom is not None:
            arguments = json.dumps({"input": self.custom.input}, ensure_ascii=False)
            return ToolCall(self.custom.name, arguments, self.id or "")
        raise missing(f"{path}.function")


class ChatMessage(msgspec.Struct, frozen=True):
    """A message as the client sent it."""

    role: str
    content: str | list[ChatPart] | None = None
    name: str | None = None
    tool_calls: list[MessageCall] | None = None
    tool_call_id: str | None = None
    function_call: CalledFunction | None = None
    """The deprecated form of `tool_calls`."""
    reasoning_content: str | None = None
    """The thought of an earlier answer."""
    reasoning: str | None = None
    """The same, as vLLM and OpenRouter call it."""
    refusal: str | None = None
    audio: EarlierAudio | str | None = None
    """An earlier answer that was spoken."""

    def to_message(self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Message:
        """Converts the message at `path`. `refuses`: what no model reads is an error, not a note.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        if self.role not in ROLES:
            known, given = ", ".join(ROLES), clipped(self.role)
            raise InvalidParameter(f"{path}.role must be one of {known}, got {given!r}", param=f"{path}.role")
        role = ROLES[self.role]
        if self.content is None and role not in ("assistant", "tool"):
            raise missing(f"{path}.content")
        parts, thoughts = self._parts(f"{path}.content", notes, reading, refuses=refuses)
        if isinstance(self.audio, EarlierAudio) and not any(parts):
            parts = [self.audio.transcript or stand_in("audio", f"{path}.audio", notes)]
        calls = [call.to_call(f"{path}.tool_calls[{index}]") for index, call in enumerate(self.tool_calls or ())]
        if self.function_call is not None:
            calls.append(self.function_call.to_call(f"{path}.function_call"))
        if calls and role != "assistant":
            where = f"{path}.tool_calls"
            raise InvalidParameter(f"{where}: only assistant messages have calls", param=where)
        thought = self.reasoning_content or self.reasoning or "\n".join(thoughts)
        message = message_of(role, parts)
        return msgspec.structs.replace(
            message,
            content=message.content or (self.refusal or "" if role == "assistant" else ""),
            thought=thought if role == "assistant" else "",
            tool_calls=tuple(calls),
            tool_call_id=self.tool_call_id or "",
            name=self.name or "",
        )

    def _parts(
        self, path: str, notes: list[str], reading: MediaReading, *, refuses: bool
    ) -> tuple[list[str | Media], list[str]]:
        """The texts, pictures, videos and sounds of the content, and its thoughts."""
        if not isinstance(self.content, list):
            return [self.content or ""], []
        texts: list[str | Media] = []
        thoughts: list[str] = []
        for index, part in enumerate(self.content):
            where = f"{path}[{index}]"
            if part.type == "thinking":
                thoughts.append(needed(part.thought, f"{where}.thinking"))
            elif part.type in ("text", "refusal"):
                texts.append(needed(part.text if part.type == "text" else part.refusal, f"{where}.{part.type}"))
            elif part.is_media and self.role != "assistant":
                texts.append(media_or_note(part, where, notes, reading, refuses=refuses))
            elif refuses:
                raise wrong_content(part.type, where)
            elif part.type in _ENCRYPTED:
                drop(part.type, where, notes)
            else:
                texts.append(stand_in(part.type, where, notes) if part.text is None else part.text)
        return texts, thoughts


def media_or_note(part: ChatPart, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Media | str:
    """The picture, sound or document; one that is none is an error in the turn to answer, else a note."""
    try:
        return part.media(path, reading)
    except (InvalidParameter, UnsupportedParameter) as error:
        if refuses:
            raise
        return stand_in(part.type, path, notes, error)


def to_conversation(messages: Sequence[ChatMessage]) -> Conversation:
    """A whole conversation, in the field `messages`. Raises `InvalidParameter`, `UnsupportedParameter`."""
    if not messages:
        raise InvalidParameter("messages must not be empty", param="messages")
    notes: list[str] = []
    first = first_refused([ROLES.get(message.role, "") for message in messages])
    reading = MediaReading()
    converted = [
        message.to_message(f"messages[{index}]", notes, reading, refuses=index >= first)
        for index, message in enumerate(messages)
    ]
    return Conversation(with_ids(converted), tuple(notes), reading.files)
