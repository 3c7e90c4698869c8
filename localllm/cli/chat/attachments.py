"""Pictures, sounds and documents that the user sends: reads files, fetches typed addresses, keeps the bytes while the
chat lasts.

The server gets bytes and never a path. Knows no commands and no terminal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from localllm.chat.media_files import file_of
from localllm.cli.chat.media_look import READ, Look, look
from localllm.cli.render.units import size
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.settings.config import Settings
from localllm.types import Media, MediaFile, MediaKind, Message
from localllm.types.documents import DocumentOptions

_WHAT = {"image": "picture", "audio": "sound", "document": "document"}
_PAGES = re.compile(r"#pages?=([\d,-]+)\Z")
"""Behind a path: pages of a document, as in an address of a PDF (RFC 8118)."""
OK = 200


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture, sound or document of a message, as a saved chat names it."""

    kind: MediaKind
    path: str
    """Absolute, or the address it was fetched from."""
    digest: str
    """SHA-256 of its bytes."""
    measure: str = ""
    """`1920x1080`, `2.5 s`."""
    pages: str = ""
    """Of a document: those that are wanted, `1-3,7`; empty: all."""

    @property
    def name(self) -> str:
        """Of the file."""
        path = unquote(urlsplit(self.path).path) if is_address(self.path) else self.path
        return PurePath(path).name or self.path

    @property
    def shown(self) -> str:
        """For people: `[a.png, 1920x1080]`."""
        return f"[{', '.join(filter(None, (self.name, self.pages and f'pages {self.pages}', self.measure)))}]"


class Bounds(NamedTuple):
    """How files are read and addresses fetched."""

    max_bytes: int = 20 * 1024 * 1024
    max_document_bytes: int = 32 * 1024 * 1024
    proxy: str | None = None
    ca_file: Path | None = None
    allow_private_hosts: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        return cls(
            settings.max_media_bytes,
            settings.max_document_bytes,
            settings.proxy,
            settings.ca_file,
            settings.allow_private_downloads,
        )

    @property
    def most_bytes(self) -> int:
        """That are read of a file of unknown kind."""
        return max(self.max_bytes, self.max_document_bytes)


class Attachments:
    """The files of one chat, by digest."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:  # noqa: B008  it is frozen
        self._bounds = bounds
        self.files: dict[str, MediaFile] = {}

    def open(self, given: str, kind: MediaKind | None = None) -> Attachment:
        """A file, or what an http(s) address has. `kind`: what it has to be; `document` takes the others, too, and
        pages behind the path, `report.pdf#pages=1-3`. Raises `InvalidParameter`."""
        given, pages = without_pages(given)
        if is_address(given):
            return self.take(self._fetched(given), given, kind, pages)
        path = Path(given).expanduser()
        return self.take(self._read(path), str(path.absolute()), kind, pages)

    def take(self, data: bytes, path: str, kind: MediaKind | None = None, pages: str = "") -> Attachment:
        """These bytes. Raises `InvalidParameter` for what is none of the kinds."""
        found = look(data, kind)
        if found is None or kind not in (None, "document", found.kind):
            raise _wrong_kind(path, kind, found, is_empty=not data)
        is_document = found.kind == "document"
        most = self._bounds.max_document_bytes if is_document else self._bounds.max_bytes
        if len(data) > most:
            raise _too_large(path, size(len(data)), most, "max_document_bytes" if is_document else "max_media_bytes")
        file = file_of(data)
        self.files[file.digest] = file
        return Attachment(found.kind, path, file.digest, found.measure, pages if is_document else "")

    def restore(self, attachment: Attachment) -> str:
        """Read the file of a saved chat; returns why the model will not get it, or an empty text. Fetches nothing."""
        if attachment.digest in self.files:
            return ""
        if is_address(attachment.path):
            return "is an address, which a saved chat does not fetch"
        try:
            data = self._read(Path(attachment.path))
        except InvalidParameter as error:
            return "is gone" if isinstance(error.__cause__, FileNotFoundError) else "cannot be read"
        if hashlib.sha256(data).hexdigest() != attachment.digest:
            return "has changed"
        self.files[attachment.digest] = file_of(data)
        return ""

    def _read(self, path: Path) -> bytes:
        most = self._bounds.most_bytes
        try:
            with open(path, "rb") as file:
                data = file.read(most + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not a path"
            raise InvalidParameter(f"{path} cannot be read: {why or error}", param="media") from error
        if len(data) > most:
            setting = "max_document_bytes" if most == self._bounds.max_document_bytes else "max_media_bytes"
            raise _too_large(str(path), f"more than {size(most)}", most, setting)
        return data

    def _fetched(self, url: str) -> bytes:
        from localllm.registry.fetch.net import Net, NetOptions

        options = NetOptions(
            proxy=self._bounds.proxy,
            ca_file=self._bounds.ca_file,
            allow_private_hosts=self._bounds.allow_private_hosts,
        )
        try:
            with Net(options) as net:
                answer = net.get_small(
                    url, named_by_user=True, max_bytes=self._bounds.most_bytes, headers={"accept": "*/*"}
                )
        except LocalLLMError as error:
            raise InvalidParameter(f"{url} could not be fetched: {error.message}", param="media") from error
        if answer.status != OK:
            raise InvalidParameter(f"{url} could not be fetched: status {answer.status}", param="media")
        return answer.body


def without_pages(given: str) -> tuple[str, str]:
    """A path or address, and the pages named behind it."""
    found = _PAGES.search(given)
    if found is None or Path(given).expanduser().is_file():
        return given, ""
    return given[: found.start()], found[1]


def _too_large(path: str, has: str, most: int, setting: str) -> InvalidParameter:
    return InvalidParameter(
        f"{path} has {has}; at most {most:,} bytes are read (setting {setting}); make it smaller", param="media"
    )


def _wrong_kind(path: str, kind: MediaKind | None, found: Look | None, *, is_empty: bool) -> InvalidParameter:
    what, remedy = _WHAT[kind] if kind else "picture, sound or document", ""
    if found is not None:
        command = "file" if found.kind == "document" else found.kind
        what, remedy = f"{what} but a {_WHAT[found.kind]}", f"; --{command} and /{command} take it"
    elif is_empty:
        what = f"{what}: the file is empty"
    else:
        formats = READ[kind] if kind else f"{READ['image']}; {READ['audio']}; {READ['document']}"
        what = f"{what} that can be read ({formats})"
    return InvalidParameter(f"{path} is no {what}{remedy}", param=kind or "media")


def is_address(given: str) -> bool:
    """Whether it is fetched rather than read."""
    return given.lower().startswith(("http://", "https://"))


def user_message(text: str, attachments: Sequence[Attachment], files: Container[str]) -> Message:
    """The attachments, then the text. `files`: those whose bytes are here; others are named by a note."""
    if not attachments:
        return Message("user", text)
    parts: list[str | Media] = []
    for each in attachments:
        if each.digest in files:
            options = DocumentOptions(name=each.name, pages=each.pages) if each.kind == "document" else None
            parts.append(Media(kind=each.kind, digest=each.digest, num_bytes=0, param=each.name, document=options))
        else:
            parts.append(f"[{each.name} omitted: the file is no longer there]")
    parts += [text] if text else []
    return Message("user", "\n".join(part for part in parts if isinstance(part, str)), parts=tuple(parts))
