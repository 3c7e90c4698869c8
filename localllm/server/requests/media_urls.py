"""Completes requests with pictures and sounds: checks their sizes, and fetches those that a client names by address.

`off` fetches nothing. `public` connects only to public addresses, checked at each connection and redirect, and never
through a proxy, which could reach what this guard refuses. No credential is sent. Knows no API's fields.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from localllm.chat.media_files import MediaLimits, check_sizes, file_of, kind_as
from localllm.chat.unreadable import with_parts
from localllm.errors import ForbiddenAddress, InvalidParameter, LocalLLMError, UnsupportedParameter, clipped
from localllm.settings.config import Settings
from localllm.system.worker_threads import Threads
from localllm.types import GenerationRequest, Media, MediaFile, Message

if TYPE_CHECKING:
    from localllm.registry.fetch.net import Net

TIMEOUT_S = 10.0
MAX_REDIRECTS = 3
OK = 200


class MediaAccess:
    """That of one server."""

    def __init__(self, settings: Settings) -> None:
        self._urls = settings.media_urls
        self._ca_file = settings.ca_file
        self._limits = MediaLimits(settings.max_media_bytes, settings.max_request_media_bytes, settings.max_media)
        full = ": too many requests fetch pictures; try again later"
        self._threads = Threads("media", 8, max_waiting=settings.max_waiting, full=full)
        self._lock = threading.Lock()
        self._net: Net | None = None

    async def completed(self, requests: Sequence[GenerationRequest]) -> Sequence[GenerationRequest]:
        """The requests with all their files. Requests with the same messages share them.

        Raises `InvalidParameter`, `UnsupportedParameter`, `QueueFull`.
        """
        done: dict[int, tuple[tuple[Message, ...], tuple[MediaFile, ...]]] = {}
        made = []
        for request in requests:
            messages = request.messages
            if messages is None or not any(message.media for message in messages):
                made.append(request)
                continue
            if id(messages) not in done:
                done[id(messages)] = await self.complete(messages, request.media)
            whole, files = done[id(messages)]
            made.append(replace(request, messages=whole, media=files))
        return made

    async def complete(
        self, messages: tuple[Message, ...], files: tuple[MediaFile, ...]
    ) -> tuple[tuple[Message, ...], tuple[MediaFile, ...]]:
        """Messages and files, with those that were addresses. Raises as `completed`."""
        media = [medium for message in messages for medium in message.media]
        check_sizes(files, media, self._limits)
        named = {medium.url: medium for medium in media if medium.url}
        if not named:
            return messages, files
        if self._urls == "off":
            first = next(iter(named.values()))
            raise UnsupportedParameter(
                f"{first.param}: this server fetches nothing from the web; send the bytes as a data URL, or start it "
                "with --media-urls public",
                param=first.param,
            )
        fetched: dict[str, MediaFile] = {}
        for url, medium in named.items():
            fetched[url] = await self._threads.run(self._fetch, url, medium.param)
        whole = tuple({file.digest: file for file in (*files, *fetched.values())}.values())
        messages = tuple(_with_files(message, fetched) for message in messages)
        check_sizes(whole, [medium for message in messages for medium in message.media], self._limits)
        return messages, whole

    def _fetch(self, url: str, param: str) -> MediaFile:
        try:
            answer = self._client().get_small(
                url, named_by_user=self._urls == "any", max_bytes=self._limits.max_bytes, headers={"accept": "*/*"}
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
                    connect_timeout_s=TIMEOUT_S,
                    read_timeout_s=TIMEOUT_S,
                    small_timeout_s=TIMEOUT_S,
                    max_redirects=MAX_REDIRECTS,
                    is_direct=self._urls == "public",
                )
                self._net = Net(options)
            return self._net


def _with_files(message: Message, fetched: Mapping[str, MediaFile]) -> Message:
    if not any(medium.url for medium in message.media):
        return message
    return with_parts(message, [part if isinstance(part, str) else _found(part, fetched) for part in message.parts])


def _found(medium: Media, fetched: Mapping[str, MediaFile]) -> Media:
    if not medium.url:
        return medium
    file = fetched[medium.url]
    kind = kind_as(file.data, medium.kind)
    return replace(medium, kind=kind, digest=file.digest, num_bytes=len(file.data), url="")
