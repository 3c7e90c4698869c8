"""Pictures and sounds that the user sends: reads files, fetches typed addresses, keeps the bytes while the chat lasts.

The server gets bytes and never a path. Knows no commands and no terminal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from localllm.chat.media_files import file_of
from localllm.cli.chat.media_look import READ, look
from localllm.cli.render.units import size
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.settings.config import Settings
from localllm.types import Media, MediaFile, MediaKind, Message

_WHAT = {"image": "picture", "audio": "sound"}
OK = 200


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture or sound of a message, as a saved chat names it."""

    kind: MediaKind
    path: str
    """Absolute, or the address it was fetched from."""
    digest: str
    """SHA-256 of its bytes."""
    measure: str = ""
    """`1920x1080`, `2.5 s`."""

    @property
    def name(self) -> str:
        """Of the file."""
        path = unquote(urlsplit(self.path).path) if is_address(self.path) else self.path
        return PurePath(path).name or self.path

    @property
    def shown(self) -> str:
        """For people: `[a.png, 1920x1080]`."""
        return f"[{', '.join(filter(None, (self.name, self.measure)))}]"


class Bounds(NamedTuple):
    """How files are read and addresses fetched."""

    max_bytes: int = 20 * 1024 * 1024
    proxy: str | None = None
    ca_file: Path | None = None
    allow_private_hosts: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        return cls(settings.max_media_bytes, settings.proxy, settings.ca_file, settings.allow_private_downloads)


class Attachments:
    """The files of one chat, by digest."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:  # noqa: B008  it is frozen
        self._bounds = bounds
        self.files: dict[str, MediaFile] = {}

    def open(self, given: str, kind: MediaKind | None = None) -> Attachment:
        """A file, or what an http(s) address has. `kind`: what it has to be. Raises `InvalidParameter`."""
        if is_address(given):
            return self.take(self._fetched(given), given, kind)
        path = Path(given).expanduser()
        return self.take(self._read(path), str(path.absolute()), kind)

    def take(self, data: bytes, path: str, kind: MediaKind | None = None) -> Attachment:
        """These bytes. Raises `InvalidParameter` for what is no picture or sound."""
        if len(data) > self._bounds.max_bytes:
            raise self._too_large(path, size(len(data)))
        found = look(data, kind)
        if found is None or kind not in (None, found.kind):
            what = _WHAT[kind] if kind else "picture or sound"
            formats = READ[kind] if kind else f"{READ['image']}; {READ['audio']}"
            remedy = ""
            if found is not None:
                what, remedy = f"{what} but a {_WHAT[found.kind]}", f"; --{found.kind} and /{found.kind} take it"
            elif not data:
                what = f"{what}: the file is empty"
            else:
                what = f"{what} that can be read ({formats})"
            raise InvalidParameter(f"{path} is no {what}{remedy}", param=kind or "media")
        file = file_of(data)
        self.files[file.digest] = file
        return Attachment(found.kind, path, file.digest, found.measure)

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
        try:
            with open(path, "rb") as file:
                data = file.read(self._bounds.max_bytes + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not a path"
            raise InvalidParameter(f"{path} cannot be read: {why or error}", param="media") from error
        if len(data) > self._bounds.max_bytes:
            raise self._too_large(str(path), f"more than {size(self._bounds.max_bytes)}")
        return data

    def _too_large(self, path: str, has: str) -> InvalidParameter:
        most = self._bounds.max_bytes
        return InvalidParameter(
            f"{path} has {has}; at most {most:,} bytes are read (setting max_media_bytes); make it smaller",
            param="media",
        )

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
                    url, named_by_user=True, max_bytes=self._bounds.max_bytes, headers={"accept": "*/*"}
                )
        except LocalLLMError as error:
            raise InvalidParameter(f"{url} could not be fetched: {error.message}", param="media") from error
        if answer.status != OK:
            raise InvalidParameter(f"{url} could not be fetched: status {answer.status}", param="media")
        return answer.body


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
            parts.append(Media(kind=each.kind, digest=each.digest, num_bytes=0, param=each.name))
        else:
            parts.append(f"[{each.name} omitted: the file is no longer there]")
    parts += [text] if text else []
    return Message("user", "\n".join(part for part in parts if isinstance(part, str)), parts=tuple(parts))
