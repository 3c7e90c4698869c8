"""The parts of a message as clients write them: texts, thoughts, pictures, videos, sounds, documents, and what tools
returned.

Raises `RequestError`s that name the field at fault as a JSON path. Knows nothing of messages or chat templates.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.chat.mcp_parts import mcp_part
from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import stand_in
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.requests.field_rules import Fates, RefusedField
from localllm.server.requests.values import needed
from localllm.types import Media
from localllm.types.documents import DocumentOptions, PageImages

ELSEWHERE = "; a note stands for those in tools' results and earlier turns"
IMAGES = ("image_url", "input_image", "image", "output_image")
VIDEOS = ("input_video", "video_url", "video")
SOUNDS = ("input_audio", "audio_url", "audio")
FILES = ("file", "input_file")
"""Types of parts that may be read."""
NO_IDS = "requests name no files by id; send the file itself as {}, or the url that /localllm/blobs gives for it"
"""Ids would promise that a file stays; a reference to an uploaded one says its content, so it may be sent again."""
NO_FILE_IDS = NO_IDS.format("file_data")
_FILE_ID = {"file_id": RefusedField(f"{NO_FILE_IDS}{ELSEWHERE}")}
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
            raise UnsupportedParameter(f"{path}{fields}.file_id is not supported: {NO_FILE_IDS}", param=path)
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
    data: Raw | UnsetType = UNSET
    """This and what follows: of MCP and libraries, see `mcp_parts`."""
    image: Raw | UnsetType = UNSET
    audio: Raw | UnsetType = UNSET
    video: Raw | UnsetType = UNSET
    source: Raw | UnsetType = UNSET
    url: Raw | UnsetType = UNSET
    mimeType: Raw | UnsetType = UNSET
    mediaType: Raw | UnsetType = UNSET
    resource: Raw | UnsetType = UNSET
    uri: Raw | UnsetType = UNSET
    name: Raw | UnsetType = UNSET

    @property
    def is_media(self) -> bool:
        """Whether it is a picture, video, sound or document that may be read."""
        if self.type in FILES or (self.type in IMAGES and (self.image_url is not None or self.file_id is not None)):
            return True
        if (self._sound if self.type in SOUNDS else self._video if self.type in VIDEOS else None) is not None:
            return True
        other = mcp_part(self)
        return other is not None and other.is_media

    @property
    def resource_text(self) -> str | None:
        """The text or name of an MCP server's resource; None: it is none, or its bytes."""
        other = mcp_part(self)
        return None if other is None else other.text

    def media(self, path: str, reading: MediaReading) -> Media:
        """The picture, video, sound or document. Raises `InvalidParameter`, `UnsupportedParameter`."""
        if not self._has_own and (other := mcp_part(self)) is not None:
            return other.media(path, reading)
        if self.type in FILES:
            if self.file is not None:
                return self.file.media(path, reading, ".file")
            given = (self.file_data, self.filename, self.file_id, self.file_url, self.pages, self.page_images)
            return GivenFile(*given).media(path, reading)
        if self.type in IMAGES:
            image = self.image_url
            if image is None:
                where, why = f"{path}.file_id", NO_IDS.format("image_url")
                raise UnsupportedParameter(f"{where} is not supported: {why}", param=where)
            url, detail = (image.url, image.detail) if isinstance(image, ImageUrl) else (image, self.detail)
            return reading.image(url, path, detail)
        if self.type in VIDEOS:
            return reading.video(self._video or "", path)
        return reading.audio(self._sound or "", path)

    @property
    def _has_own(self) -> bool:
        """Whether it has a field of OpenAI's, llama-server's or vLLM's parts."""
        files = (self.file, self.file_data, self.file_id, self.file_url)
        return any(each is not None for each in (*files, self.image_url, self._sound, self._video))

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


def media_or_note(part: ChatPart, path: str, notes: list[str], reading: MediaReading, *, refuses: bool) -> Media | str:
    """The picture, sound or document; one that is none is an error in the turn to answer, else a note."""
    try:
        return part.media(path, reading)
    except (InvalidParameter, UnsupportedParameter) as error:
        if refuses:
            raise
        return stand_in(part.type, path, notes, error)
