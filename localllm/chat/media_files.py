"""Pictures, videos, sounds and documents as clients send them: base64, data URLs, addresses.

Each content is one `MediaFile` while in use.

What a file is, its content decides, not the type that a client claims. Knows no API's fields and fetches nothing.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
import re
import secrets
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from localllm.errors import InvalidParameter, clipped
from localllm.types import ImageDetail, Media, MediaFile, MediaKind
from localllm.types.conversation import HEAD_BYTES
from localllm.types.documents import DocumentOptions

REFERENCE = f"qz{secrets.token_hex(16)}."
"""Before the digest of a file that was taken out of a body, in place of its base64. Random: no client can refer to
another's files."""
BLOB = "localllm-blob:"
"""Scheme of references to files that a client uploaded before."""
_BLOB = re.compile(BLOB + "sha256:([0-9a-f]{64})")
DETAILS: dict[str | None, ImageDetail] = {
    None: "auto",
    "auto": "auto",
    "low": "low",
    "high": "high",
    "original": "high",
}
MAX_URL = 4096
_STANDARD = bytes.maketrans(b"-_", b"+/")

MAX_KNOWN = 2000
"""Base64 texts whose files are known by the text's hash; up to 5 kB each."""

_files: weakref.WeakValueDictionary[str, MediaFile] = weakref.WeakValueDictionary()
"""By digest: the files of all requests that are being answered."""


class KnownText(NamedTuple):
    """What a base64 text contains."""

    digest: str
    num_bytes: int
    head: bytes


_known: OrderedDict[bytes, KnownText] = OrderedDict()
"""By SHA-256 of the text, the least recently used first."""
_known_lock = threading.Lock()


def file_of(data: bytes) -> MediaFile:
    """The file with these bytes, which it holds: the same object as long as one is in use."""
    digest = hashlib.sha256(data).hexdigest()
    file = _files.get(digest)
    if file is None or not file.is_loaded:  # it would keep the body alive in which it came
        file = _files[digest] = MediaFile(digest, data)
    return file


def file_in(text: memoryview) -> MediaFile | None:
    """The file that a JSON string contains as base64; None: it contains none.

    A text that came before is only hashed, without holding the interpreter's lock; it is decoded when somebody wants
    the bytes. So a client may send its pictures at every turn (benchmarks/log/media.md).
    """
    key = hashlib.sha256(text).digest()
    with _known_lock:
        known = _known.get(key)
        if known is not None:
            _known.move_to_end(key)
    if known is not None:
        file = _files.get(known.digest)
        if file is None:
            file = _files[known.digest] = MediaFile.unloaded(*known, load=functools.partial(_loaded, text))
        return file
    data = decoded(bytes(text))
    if not data:
        return None
    file = file_of(data)
    with _known_lock:
        _known[key] = KnownText(file.digest, file.num_bytes, file.head)
        if len(_known) > MAX_KNOWN:
            _known.popitem(last=False)
    return file


def _loaded(text: memoryview) -> bytes:
    data = decoded(bytes(text))
    assert data is not None  # it was decoded before
    return data


def blob_url(digest: str) -> str:
    """How requests refer to an uploaded file."""
    return f"{BLOB}sha256:{digest}"


def blob_digest(url: str) -> str:
    """The digest in such a reference; empty: it is none."""
    found = _BLOB.fullmatch(url)
    return "" if found is None else found[1]


def decoded(given: bytes) -> bytes | None:
    """The bytes that a JSON string contains as base64, also URL-safe or without padding; None if it is none."""
    if b"\\" in given:  # escaped slashes and signs
        try:
            given = json.loads(b'"%b"' % given).encode()
        except (ValueError, UnicodeEncodeError):
            return None
    bare = b"".join(given.split()).rstrip(b"=")
    if b"-" in bare or b"_" in bare:
        bare = bare.translate(_STANDARD)
    try:
        return base64.b64decode(bare + b"=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_TAKEN = re.compile(re.escape(REFERENCE) + "([0-9a-f]{64})")


def put_back(text: str) -> str:
    """A text with the base64 of files in place of references to them."""
    if REFERENCE not in text:
        return text
    return _TAKEN.sub(_base64_of, text)


def _base64_of(taken: re.Match[str]) -> str:
    file = _files.get(taken[1])
    return "" if file is None else base64.b64encode(file.data).decode()


_MAGIC: tuple[tuple[bytes, MediaKind], ...] = (
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"BM", "image"),
    (b"II*\0", "image"),
    (b"MM\0*", "image"),
    (b"ID3", "audio"),
    (b"fLaC", "audio"),
    (b"OggS", "audio"),
    (b".snd", "audio"),
    (b"\xff\xfb", "audio"),
    (b"\xff\xf3", "audio"),
    (b"\xff\xf2", "audio"),
    (b"\x1a\x45\xdf\xa3", "video"),  # WebM and Matroska
    (b"%PDF-", "document"),
    (b"PK\x03\x04", "document"),  # what Office writes
    (b"\xd0\xcf\x11\xe0", "document"),  # and what it wrote before 2007
    (b"{\\rtf", "document"),
)
_BRANDS: dict[bytes, MediaKind] = {
    **dict.fromkeys((b"avif", b"avis", b"heic", b"mif1"), "image"),
    **dict.fromkeys((b"M4A ", b"M4B "), "audio"),
}
"""What a file of the MP4 family is by its brand, if not a video."""


def kind_of(data: bytes) -> MediaKind | None:
    """What a file is by its first bytes; None: unknown."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "image", b"WAVE": "audio"}.get(data[8:12])  # type: ignore[return-value]
    if data[:4] == b"FORM":
        return "audio" if data[8:12] in (b"AIFF", b"AIFC") else None
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video")
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def is_text(head: bytes) -> bool:
    """Whether a file that begins so is UTF-8 text."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"  # the head ends within a character
    return True


def kind_as(head: bytes, claimed: MediaKind) -> MediaKind:
    """What a file that begins so is, if it was sent as this; a recording in a video's format is heard where a sound is
    meant, and a text that begins like a picture is a document where one is meant."""
    if claimed == "document" and is_text(head[:HEAD_BYTES]):
        return claimed
    found = kind_of(head)
    return claimed if found is None or (found == "video" and claimed == "audio") else found


class MediaReading:
    """The pictures and sounds of one conversation."""

    def __init__(self) -> None:
        self._files: dict[str, MediaFile] = {}

    @property
    def files(self) -> tuple[MediaFile, ...]:
        """All files, each once."""
        return tuple(self._files.values())

    def add(self, file: MediaFile) -> None:
        """A file that was read elsewhere."""
        self._files[file.digest] = file

    def image(self, given: str, path: str, detail: str | None = None) -> Media:
        """A picture from a data URL, base64 or an http address. Raises `InvalidParameter`."""
        if detail not in DETAILS:
            raise InvalidParameter(
                f"{path}: detail must be auto, low or high, got {clipped(str(detail))!r}", param=path
            )
        return self._media(given, "image", path, DETAILS[detail])

    def audio(self, given: str, path: str) -> Media:
        """The same for a sound."""
        return self._media(given, "audio", path, "auto")

    def video(self, given: str, path: str) -> Media:
        """The same for a video."""
        return self._media(given, "video", path, "auto")

    def document(self, given: str, path: str, options: DocumentOptions) -> Media:
        """The same for a document; a file that is a picture, video or sound is one."""
        return self._media(given, "document", path, "auto", options)

    def text(self, text: str, path: str, options: DocumentOptions) -> Media:
        """A document that is this text."""
        file = file_of(put_back(text).encode("utf-8", "replace"))
        self._files[file.digest] = file
        options = replace(options, is_text=True)
        return Media(kind="document", digest=file.digest, num_bytes=file.num_bytes, param=path, document=options)

    def of(
        self,
        data: bytes,
        path: str,
        kind: MediaKind = "image",
        detail: ImageDetail = "auto",
        options: DocumentOptions | None = None,
    ) -> Media:
        """What these bytes are; `kind` if they do not say it. Raises `InvalidParameter`."""
        if not data:
            raise InvalidParameter(f"{path} is empty", param=path)
        return self._of(file_of(data), path, kind, detail, options)

    def _of(
        self, file: MediaFile, path: str, kind: MediaKind, detail: ImageDetail, options: DocumentOptions | None
    ) -> Media:
        self._files[file.digest] = file
        kind = kind_as(file.head, kind)
        return Media(
            kind=kind,
            digest=file.digest,
            num_bytes=file.num_bytes,
            detail=detail,
            param=path,
            document=(options or DocumentOptions()) if kind == "document" else None,
        )

    def _media(
        self, given: str, kind: MediaKind, path: str, detail: ImageDetail, options: DocumentOptions | None = None
    ) -> Media:
        given = given.strip()
        scheme = given.partition(":")[0].lower() if ":" in given[:20] else ""
        if scheme in ("http", "https", BLOB[:-1]):
            if scheme == BLOB[:-1] and not blob_digest(given):
                raise InvalidParameter(
                    f"{path}: {clipped(given)!r} must be {BLOB}sha256: and 64 lowercase hexadecimal digits", param=path
                )
            if len(given) > MAX_URL:
                raise InvalidParameter(f"{path} has more than {MAX_URL} characters", param=path)
            return Media(kind=kind, digest="", num_bytes=0, detail=detail, param=path, url=given, document=options)
        if scheme not in ("", "data"):
            raise InvalidParameter(
                f"{path}: addresses that begin with {clipped(scheme)}: are never read; send the bytes as a data URL",
                param=path,
            )
        head, comma, encoded = given.partition(",") if scheme else ("", "", given)
        if scheme and (not comma or not head.lower().endswith(";base64")):
            raise InvalidParameter(f"{path}: a data URL must contain ;base64, and then base64", param=path)
        file = _files.get(encoded.removeprefix(REFERENCE)) if encoded.startswith(REFERENCE) else None
        if file is not None:
            return self._of(file, path, kind, detail, options)
        data = decoded(encoded.encode("ascii", "replace"))
        if not data:
            raise InvalidParameter(
                f"{path} must be a data URL, base64, or an http(s) address; it is not valid base64, or empty",
                param=path,
            )
        return self.of(data, path, kind, detail, options)


class MediaLimits(NamedTuple):
    """How much of media a request may have."""

    max_bytes: int
    """Bytes of one that is no document."""
    max_request_bytes: int
    """Bytes of all, each content once."""
    max_count: int


def check_sizes(files: Iterable[MediaFile], media: Iterable[Media], limits: MediaLimits) -> None:
    """Raises `InvalidParameter` for more than a request may have."""
    sizes = [file.num_bytes for file in files]
    places = [*media]
    for medium in places:
        if (error := too_large(medium, limits)) is not None:
            raise error
    check_count(places, limits)
    if sum(sizes) > limits.max_request_bytes:
        raise InvalidParameter(
            f"the request's pictures, sounds and documents have {sum(sizes)} bytes; at most "
            f"{limits.max_request_bytes} are read (max_request_media_bytes)",
            param=places[-1].param if places else None,
        )


def too_large(medium: Media, limits: MediaLimits) -> InvalidParameter | None:
    """Why it is not read, if its file has more bytes than one may have."""
    if medium.num_bytes <= limits.max_bytes or medium.kind == "document":
        return None
    return InvalidParameter(
        f"{medium.param} has {medium.num_bytes} bytes; at most {limits.max_bytes} are read (max_media_bytes); make it "
        "smaller",
        param=medium.param,
    )


def check_count(media: Sequence[Media], limits: MediaLimits) -> None:
    """Raises `InvalidParameter` for more pictures, sounds and pages shown as pictures than a request may have."""
    shown = [medium for medium in media if medium.kind != "document"]
    if len(shown) > limits.max_count:
        raise InvalidParameter(
            f"the request has {len(shown)} pictures, sounds and pages that are shown as pictures; at most "
            f"{limits.max_count} are read (max_media)",
            param=shown[limits.max_count].param,
        )
