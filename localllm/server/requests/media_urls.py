"""Completes requests with pictures, sounds and documents: finds those that a client uploaded, checks their sizes,
fetches those that it names by address, and has documents read.

`off` fetches nothing. `public` connects only to public addresses, checked at each connection and redirect, and never
through a proxy, which could reach what this guard refuses. No credential is sent. Knows no API's fields.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from localllm.chat.media_files import (
    MediaLimits,
    blob_digest,
    check_count,
    check_sizes,
    file_of,
    kind_as,
    too_large,
)
from localllm.chat.unreadable import first_refused, with_parts
from localllm.documents.completing import with_texts
from localllm.documents.reading import DocumentLimits, DocumentReader
from localllm.errors import (
    ForbiddenAddress,
    InvalidParameter,
    LocalLLMError,
    RequestError,
    UnsupportedParameter,
    clipped,
)
from localllm.server.requests.media_blobs import BlobStore
from localllm.settings.config import Settings
from localllm.system.worker_threads import Threads
from localllm.types import DocumentTaken, GenerationRequest, Media, MediaFile, Message
from localllm.types.documents import DocumentOptions

if TYPE_CHECKING:
    from localllm.registry.fetch.net import Net

MAX_REDIRECTS = 3
OK = 200


class CompletedMessages(NamedTuple):
    """Messages whose media are all pictures, videos and sounds, and files."""

    messages: tuple[Message, ...]
    files: tuple[MediaFile, ...]
    notes: tuple[str, ...] = ()
    """What stands in place of addresses and documents: `PATH: what`."""
    documents: tuple[DocumentTaken, ...] = ()
    """What was taken of documents."""


class MediaAccess:
    """That of one server."""

    def __init__(self, settings: Settings) -> None:
        self.blobs = BlobStore(settings.max_blobs, settings.blob_ram_mb * 10**6)
        """Files that clients uploaded."""
        self._urls = settings.media_urls
        self._ca_file, self._timeout_s = settings.ca_file, settings.media_url_timeout_s
        self._limits = MediaLimits(settings.max_media_bytes, settings.max_request_media_bytes, settings.max_media)
        full = ": too many requests fetch pictures; try again later"
        self._threads = Threads("media", 8, max_waiting=settings.max_waiting, full=full)
        self._max_document_bytes = settings.max_document_bytes
        self._documents = DocumentReader(DocumentLimits.of(settings))
        self._lock = threading.Lock()
        self._net: Net | None = None

    def close(self) -> None:
        """Ends the processes that read documents."""
        self._documents.close()

    async def completed(self, requests: Sequence[GenerationRequest], owner: str) -> Sequence[GenerationRequest]:
        """The requests with all their files; `owner`: of the uploaded ones that they may refer to. Requests with the
        same messages, or the same prompt, share them.

        Raises `InvalidParameter`, `UnsupportedParameter`, `BlobNotFound`, `QueueFull`.
        """
        done: dict[int, CompletedMessages] = {}
        made = []
        for request in requests:
            asked = request.prompt_parts or request.messages or ()
            messages = request.messages or (Message("user", "", parts=request.prompt_parts or ()),)
            if not any(message.media for message in messages):
                made.append(request)
                continue
            if id(asked) not in done:
                done[id(asked)] = await self.complete(messages, request.media, owner)
            whole, files, notes, taken = done[id(asked)]
            shown = {"messages": whole} if request.prompt_parts is None else {"prompt_parts": whole[0].parts}
            made.append(replace(request, **shown, media=files, notes=request.notes + notes, documents=taken))
        return made

    async def complete(
        self, messages: tuple[Message, ...], files: tuple[MediaFile, ...], owner: str
    ) -> CompletedMessages:
        """Messages and files, with those that were addresses, and with the texts of documents. Raises as `completed`.

        Of earlier turns an address that is not fetched is a note: a client that sends it at every turn goes on.
        """
        messages, files = self._with_blobs(messages, files, owner)
        messages, notes = _without(messages, lambda medium: too_large(medium, self._limits), "it is too large")
        messages, more = _without_oldest(messages, self._limits.max_count)
        notes += more
        media = [medium for message in messages for medium in message.media]
        if notes:
            digests = {medium.digest for medium in media}
            files = tuple(file for file in files if file.digest in digests)
        check_sizes(files, media, self._limits)
        named = {medium.url: medium for medium in media if medium.url}
        if named:
            messages, files, unfetched = await self._with_fetched(messages, files, named)
            notes += unfetched
        if not any(medium.kind == "document" for message in messages for medium in message.media):
            return CompletedMessages(messages, files, notes)
        read = await with_texts(self._documents, messages, files)
        check_count([medium for message in read.messages for medium in message.media], self._limits)
        return CompletedMessages(read.messages, read.files, notes + read.notes, read.taken)

    def _with_blobs(
        self, messages: tuple[Message, ...], files: tuple[MediaFile, ...], owner: str
    ) -> tuple[tuple[Message, ...], tuple[MediaFile, ...]]:
        named = {each.url: each for message in messages for each in message.media if blob_digest(each.url)}
        if not named:
            return messages, files
        found = self.blobs.found([*named.values()], owner)
        whole = {file.digest: file for file in (*files, *found.values())}
        return tuple(_with_files(message, found) for message in messages), tuple(whole.values())

    async def _with_fetched(
        self, messages: tuple[Message, ...], files: tuple[MediaFile, ...], named: Mapping[str, Media]
    ) -> tuple[tuple[Message, ...], tuple[MediaFile, ...], tuple[str, ...]]:
        fetched: dict[str, MediaFile] = {}
        failed: dict[str, LocalLLMError] = {}
        for url, medium in named.items():
            try:
                fetched[url] = await self._threads.run(self._fetch, medium)
            except RequestError as error:
                failed[url] = error
        messages, notes = _without(messages, lambda medium: failed.get(medium.url), "its address was not fetched")
        whole = tuple({file.digest: file for file in (*files, *fetched.values())}.values())
        messages = tuple(_with_files(message, fetched) for message in messages)
        check_sizes(whole, [medium for message in messages for medium in message.media], self._limits)
        return messages, whole, notes

    def _fetch(self, medium: Media) -> MediaFile:
        url, param = medium.url, medium.param
        most = self._max_document_bytes if medium.kind == "document" else self._limits.max_bytes
        if self._urls == "off":
            raise UnsupportedParameter(
                f"{param}: this server fetches nothing from the web; send the bytes as a data URL, or start it "
                "with --media-urls public",
                param=param,
            )
        try:
            answer = self._client().get_small(
                url, named_by_user=self._urls == "any", max_bytes=most, headers={"accept": "*/*"}
            )
        except ForbiddenAddress as error:
            host = clipped(str(error.details.get("host", "")))
            raise InvalidParameter(
                f"{param}: {host} is not a public address; --media-urls any allows private ones", param=param
            ) from error
        except LocalLLMError as error:
            raise InvalidParameter(f"{param} could not be fetched: {error.message}", param=param) from error
        if answer.status != OK or not answer.body:
            raise InvalidParameter(f"{param} could not be fetched: status {answer.status}", param=param)
        return file_of(answer.body)

    def _client(self) -> Net:
        from localllm.registry.fetch.net import Net, NetOptions

        with self._lock:
            if self._net is None:
                options = NetOptions(
                    ca_file=self._ca_file,
                    connect_timeout_s=self._timeout_s,
                    read_timeout_s=self._timeout_s,
                    small_timeout_s=self._timeout_s,
                    max_redirects=MAX_REDIRECTS,
                    is_direct=self._urls == "public",
                )
                self._net = Net(options)
            return self._net


def _without(
    messages: tuple[Message, ...], error_of: Callable[[Media], LocalLLMError | None], why: str
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """The messages with texts in place of the media with an error, and notes. Raises it in the turn to answer."""
    first = first_refused([message.role for message in messages])
    made, notes = [], list[str]()
    for index, message in enumerate(messages):
        parts = list[str | Media]()
        for part in message.parts:
            error = None if isinstance(part, str) else error_of(part)
            if isinstance(part, str) or error is None:
                parts.append(part)
            elif index >= first and message.role != "tool":
                raise error
            else:
                omission = f"{part.kind} omitted: {why}"
                notes.append(f"{part.param}: {omission}")
                parts.append(f"[{omission}]")
        made.append(message if parts == list(message.parts) else with_parts(message, parts))
    return tuple(made), tuple(notes)


def _without_oldest(messages: tuple[Message, ...], max_count: int) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """The messages with texts in place of the oldest media of the past, if there are more than a request may have.

    Some more are left out, so that the next turns leave the beginning of the prompt, and so its cache, as it is.
    """
    shown = [[each for each in message.media if each.kind != "document"] for message in messages]
    excess = sum(map(len, shown)) - max_count
    if excess <= 0:
        return messages, ()
    step = max(1, max_count // 4)
    first = first_refused([message.role for message in messages])
    num_left_out = min(-(-excess // step) * step, sum(map(len, shown[:first])))
    counted = itertools.count()

    def error_of(medium: Media) -> LocalLLMError | None:
        if medium.kind == "document" or next(counted) >= num_left_out:
            return None
        return InvalidParameter(f"{medium.param} is beyond max_media", param=medium.param)

    return _without(messages, error_of, f"at most {max_count} are read")


def _with_files(message: Message, fetched: Mapping[str, MediaFile]) -> Message:
    if not any(medium.url for medium in message.media):
        return message
    return with_parts(message, [part if isinstance(part, str) else _found(part, fetched) for part in message.parts])


def _found(medium: Media, fetched: Mapping[str, MediaFile]) -> Media:
    file = fetched.get(medium.url)
    if file is None:
        return medium
    kind = kind_as(file.head, medium.kind)
    options = (medium.document or DocumentOptions()) if kind == "document" else None
    return replace(medium, kind=kind, digest=file.digest, num_bytes=file.num_bytes, url="", document=options)
