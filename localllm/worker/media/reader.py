"""The door for prompts: pictures and sounds become pieces of a prompt. Implements `prompt_parts.MediaReader`.

A medium that was read before needs neither its file nor a process: its layout and rows are kept by content. A new one
is decoded on one of a few threads, each with a child process of its own, and described by the encoder process.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from localllm.errors import InternalError, InvalidParameter, LocalLLMError
from localllm.kvdisk.media_files import MediaFiles
from localllm.system.threads import start_thread
from localllm.types import Media, MediaKind
from localllm.worker.media.decoding_child import Decoded, DecodeRequest, DecodingChild
from localllm.worker.media.encoder_messages import Source
from localllm.worker.media.encoding import Encoding, MediaCounters
from localllm.worker.media.kept_rows import Kept
from localllm.worker.media.layout import Layout, MediaKey, pieces
from localllm.worker.media.row_source import Medium
from localllm.worker.prompts.prompt_parts import MediaPieces, MissingFiles

NUM_DECODERS = 2
"""A large or hostile file delays no small one for longer than its own decoding."""
BYTES_PER_S = 5 * 10**6
"""A request whose files are larger by this much yields to one that arrives up to a second later."""
FILES_BYTES, SOURCES_BYTES = 128 * 10**6, 128 * 10**6
"""Files, and decoded media that wait for their encoding, in memory."""
LAYOUTS_BYTES = 16 * 10**6
MAX_SPAN_BYTES = 200 * 10**6
"""Rows of one chunk, which travel in one frame."""
NAMES: dict[MediaKind, str] = {"image": "picture", "audio": "sound"}

Done = Callable[[Sequence[MediaPieces] | MissingFiles | LocalLLMError], None]


class MediaLimits(NamedTuple):
    """Of one medium."""

    max_pixels: int
    max_s: float
    """Of a sound."""
    ubatch_rows: int
    """Rows that the text model can compute in one ubatch."""
    width: int
    """Numbers in a row."""
    idle_s: float
    """A decoding process without work ends after so long."""


class _Request(NamedTuple):
    order: float
    number: int
    media: tuple[Media, ...]
    files: Mapping[str, bytes]
    done: Done
    is_wanted: Callable[[], bool]


class Reader:
    """Any thread."""

    def __init__(
        self,
        kinds: frozenset[MediaKind],
        limits: MediaLimits,
        context: str,
        layouts: MediaFiles,
        counters: MediaCounters,
        make_encoding: Callable[[Callable[[Medium], Source]], Encoding],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`context`: hash of everything else that layouts and rows depend on. `make_encoding` gets what decodes."""
        self.kinds = kinds
        self.counters = counters
        self._limits = limits
        self._context = context
        self._layout_files = layouts
        self._clock = clock
        self._numbers = itertools.count()
        self._layouts: Kept[MediaKey, Layout] = Kept(LAYOUTS_BYTES, _size_of_layout)
        self._files: Kept[str, bytes] = Kept(FILES_BYTES, len)
        self._sources: Kept[MediaKey, Source] = Kept(SOURCES_BYTES, lambda source: len(source.data))
        self._queue: queue.PriorityQueue[_Request] = queue.PriorityQueue()
        self._encoding = make_encoding(self._source_again)
        for number in range(NUM_DECODERS):
            start_thread(self._read_all, f"media-reader-{number}")

    @property
    def encoder_pid(self) -> int | None:
        """Of the running encoder process."""
        return self._encoding.pid

    def add(
        self, media: Sequence[Media], files: Mapping[str, bytes], done: Done, is_wanted: Callable[[], bool]
    ) -> None:
        """As the protocol says. `is_wanted` is asked until the request ends, so that nothing is encoded in vain."""
        order = self._clock() + sum(each.num_bytes for each in media) / BYTES_PER_S
        self._queue.put(_Request(order, next(self._numbers), tuple(media), files, done, is_wanted))

    def _read_all(self) -> None:
        child: DecodingChild | None = None
        while True:
            try:
                request = self._queue.get(timeout=None if child is None else self._limits.idle_s)
            except queue.Empty:
                if child is not None:
                    child.close()
                child = None
                continue
            if not request.is_wanted():
                continue
            try:
                if missing := self._missing(request):
                    request.done(MissingFiles(missing))
                    continue
                made = []
                for media in request.media:
                    if not request.is_wanted():
                        break
                    if self._layout(MediaKey.of(media)) is None:
                        child = child or DecodingChild()
                        self._read(media, self._bytes_of(media, request.files), child)
                    made.append(self._pieces(media, request))
            except LocalLLMError as error:
                request.done(error)
            else:
                if len(made) == len(request.media):
                    request.done(made)

    def _missing(self, request: _Request) -> tuple[str, ...]:
        for digest, data in request.files.items():
            self._files.put(digest, data)
        return tuple(
            dict.fromkeys(
                media.digest
                for media in request.media
                if self._bytes_of(media, request.files) is None and not self._is_kept(MediaKey.of(media))
            )
        )

    def _bytes_of(self, media: Media, files: Mapping[str, bytes]) -> bytes | None:
        return files.get(media.digest) or self._files.get(media.digest)

    def _is_kept(self, key: MediaKey) -> bool:
        layout = self._layout(key)
        return layout is not None and all(self._encoding.is_kept((key, index)) for index in range(len(layout.spans)))

    def _layout(self, key: MediaKey) -> Layout | None:
        layout = self._layouts.get(key)
        if layout is None and (data := self._layout_files.read(self._name(key))) is not None:
            layout = msgspec.msgpack.decode(data, type=Layout)
            self._layouts.put(key, layout)
        return layout

    def _read(self, media: Media, data: bytes | None, child: DecodingChild) -> None:
        """Decode and describe it; the layout is kept. Raises `LocalLLMError`."""
        key = MediaKey.of(media)
        self._encoding.check(key, media.param)
        if media.kind not in self.kinds:
            raise InvalidParameter(f"this model does not read {NAMES[media.kind]}s", param=media.param)
        source = self._decoded(media, data, child)
        try:
            layout = Layout(self._encoding.describe(source, key))
        except InvalidParameter as error:
            raise InvalidParameter(
                f"the {NAMES[media.kind]} cannot be used: {error.message}", param=media.param
            ) from None
        self._check(layout, media)
        self._sources.put(key, source)
        self._layouts.put(key, layout)
        self._layout_files.write(self._name(key), msgspec.msgpack.encode(layout))

    def _decoded(self, media: Media, data: bytes | None, child: DecodingChild) -> Source:
        if data is None:
            raise InternalError("what was kept of a picture or sound is gone; send the request again")
        limits = self._limits
        rate_hz = self._encoding.sample_rate_hz() if media.kind == "audio" else 0
        request = DecodeRequest(media.kind, data, media.detail, limits.max_pixels, limits.max_s, rate_hz)
        decoded: Decoded = child.decode(request)
        self.counters.decodes += 1
        if decoded.problem:
            raise InvalidParameter(f"the {NAMES[media.kind]} {decoded.problem}", param=media.param)
        return Source(decoded.width, decoded.height, decoded.data)

    def _check(self, layout: Layout, media: Media) -> None:
        name = NAMES[media.kind]
        for span in layout.spans:
            if not span.is_causal and span.num_rows > self._limits.ubatch_rows:
                raise InvalidParameter(
                    f"the {name} takes {span.num_rows} rows that must be computed together, and the model computes "
                    f"{self._limits.ubatch_rows}; make it smaller, or load the model with a larger ubatch or a smaller "
                    "image_max_tokens",
                    param=media.param,
                )
            if span.num_rows * self._limits.width * 4 > MAX_SPAN_BYTES:
                raise InvalidParameter(
                    f"the {name} takes {span.num_rows} rows; make it smaller, or set image_max_tokens",
                    param=media.param,
                )

    def _pieces(self, media: Media, request: _Request) -> MediaPieces:
        key = MediaKey.of(media)
        layout = self._layout(key)
        if layout is None:
            raise InternalError("the layout of a picture is gone; send the request again")
        medium = Medium(media, self._bytes_of(media, request.files), layout, request.is_wanted, self._encoding)
        return pieces(layout, self._context, key, list(medium.sources))

    def _source_again(self, medium: Medium) -> Source:
        """For the encoding thread: what was just decoded, or the file decoded again."""
        source = self._sources.pop(medium.key)
        if source is None:
            with contextlib.closing(DecodingChild()) as child:
                source = self._decoded(medium.media, medium.data or self._files.get(medium.key.digest), child)
        return source

    def _name(self, key: MediaKey) -> str:
        return f"{self._context} {key}"


def _size_of_layout(layout: Layout) -> int:
    return sum(200 + len(chunk.planes) + 8 * len(chunk.tokens) for chunk in layout.chunks)
