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
from msgspec.structs import replace

from localllm.chat.unreadable import stand_in
from localllm.engine.media import MediaRows
from localllm.errors import InternalError, InvalidParameter, LocalLLMError
from localllm.kvdisk.media_files import MediaFiles
from localllm.system.threads import start_thread
from localllm.types import Media, MediaKind, SoundCuts
from localllm.types.states import MediaStatus
from localllm.worker.media.counters import MediaCounters
from localllm.worker.media.decoding_child import Decoded, DecodeRequest, DecodingChild
from localllm.worker.media.encoder_messages import Source
from localllm.worker.media.encoding import Encoding
from localllm.worker.media.kept_rows import Kept
from localllm.worker.media.layout import Frame, Layout, MediaKey, pieces
from localllm.worker.media.media_limits import NAMES, MediaLimits, check_rows
from localllm.worker.media.row_source import Medium
from localllm.worker.prompts.prompt_parts import MediaPieces, MissingFiles, OmittedMedia

BYTES_PER_S = 5 * 10**6
"""A request whose files are larger by this much yields to one that arrives up to a second later."""
LAYOUTS_BYTES, VIDEOS_BYTES, CUTS_BYTES = 16 * 10**6, 2 * 10**6, 2 * 10**6

MAX_PART_S = 30.0
"""Of a sound that is cut: what every projector reads as one piece."""
REDECODED_PARTS = 16
"""Parts of a sound that are decoded together if they are no longer in memory: the file is read from its begin."""

Done = Callable[[Sequence[MediaPieces | OmittedMedia] | MissingFiles | LocalLLMError], None]
DoneCutting = Callable[[SoundCuts | MissingFiles | LocalLLMError], None]


class _Request(NamedTuple):
    order: float
    number: int
    media: tuple[Media, ...]
    files: Mapping[str, bytes]
    done: Done | None
    is_wanted: Callable[[], bool]
    cut: DoneCutting | None = None
    """In place of `done`: the one sound is to be cut."""

    def refuse(self, answer: MissingFiles | LocalLLMError) -> None:
        if self.cut is not None:
            self.cut(answer)
        if self.done is not None:
            self.done(answer)


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
        tokenize: Callable[[str], Sequence[int]],
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
        self._tokenize = tokenize
        self._videos: Kept[str, tuple[Frame, ...]] = Kept(VIDEOS_BYTES, lambda frames: 100 * len(frames))
        """The frames that are read of each, by digest."""
        self._cuts: Kept[str, SoundCuts] = Kept(CUTS_BYTES, lambda cuts: 100 + 50 * len(cuts.parts_ms))
        """Of each sound that was cut, by digest."""
        self._layouts: Kept[MediaKey, Layout] = Kept(LAYOUTS_BYTES, _size_of_layout)
        self._files: Kept[str, bytes] = Kept(limits.files_bytes // 2, len)
        self._sources: Kept[MediaKey, Source] = Kept(limits.files_bytes // 2, lambda source: len(source.data))
        self._queue: queue.PriorityQueue[_Request] = queue.PriorityQueue()
        self._encoding = make_encoding(self._source_again)
        for number in range(limits.num_decoders):
            start_thread(self._read_all, f"media-reader-{number}")

    @property
    def encoder_pid(self) -> int | None:
        """Of the running encoder process."""
        return self._encoding.pid

    def status(self) -> MediaStatus:
        """As the protocol says."""
        return self._encoding.status()

    def add(
        self, media: Sequence[Media], files: Mapping[str, bytes], done: Done, is_wanted: Callable[[], bool]
    ) -> None:
        """As the protocol says. `is_wanted` is asked until the request ends, so that nothing is encoded in vain."""
        order = self._clock() + sum(each.num_bytes for each in media) / BYTES_PER_S
        self._queue.put(_Request(order, next(self._numbers), tuple(media), files, done, is_wanted))

    def cut(self, sound: Media, files: Mapping[str, bytes], done: DoneCutting, is_wanted: Callable[[], bool]) -> None:
        """As the protocol says."""
        order = self._clock() + sound.num_bytes / BYTES_PER_S
        self._queue.put(_Request(order, next(self._numbers), (sound,), files, None, is_wanted, done))

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
                    request.refuse(MissingFiles(missing))
                    continue
                if request.cut is not None:
                    child = child or DecodingChild(self._limits.decoding)
                    request.cut(self._cut(request, child))
                    continue
                made: list[MediaPieces | OmittedMedia] = []
                for media in request.media:
                    if not request.is_wanted():
                        break
                    if not self._is_known(media):
                        child = child or DecodingChild(self._limits.decoding)
                    made.append(self._made(media, request, child))
            except LocalLLMError as error:
                request.refuse(error)
            else:
                if len(made) == len(request.media) and request.done is not None:
                    request.done(made)

    def _made(self, media: Media, request: _Request, child: DecodingChild | None) -> MediaPieces | OmittedMedia:
        """`child`: for one that is not known. Raises `LocalLLMError`."""
        try:
            if media.is_past and not self._is_kept(media):
                self._check_encodes(media)
            if child is not None and not self._is_known(media):
                self._read(media, self._bytes_of(media, request.files), child)
            return self._pieces(media, request)
        except InvalidParameter as error:
            if not media.is_past:
                raise
            notes: list[str] = []
            text = stand_in(media.kind, media.param, notes, error)
            return OmittedMedia(tuple(self._tokenize(text)), notes[0])

    def _check_encodes(self, media: Media) -> None:
        """Raises `InvalidParameter` for what recently ended the encoder."""
        if media.kind != "video":
            self._encoding.check(MediaKey.of(media), media.param)

    def _missing(self, request: _Request) -> tuple[str, ...]:
        for digest, data in request.files.items():
            self._files.put(digest, data)
        kept = self._has_cuts if request.cut is not None else self._is_kept
        return tuple(
            dict.fromkeys(
                media.digest
                for media in request.media
                if self._bytes_of(media, request.files) is None and not kept(media)
            )
        )

    def _has_cuts(self, sound: Media) -> bool:
        """Whether its parts, their layouts and rows are known."""
        cuts = self._known_cuts(sound)
        return cuts is not None and all(self._is_kept(replace(sound, part_ms=part)) for part in cuts.parts_ms)

    def _known_cuts(self, sound: Media) -> SoundCuts | None:
        cuts = self._cuts.get(sound.digest)
        if cuts is None and (data := self._layout_files.read(self._name_of_cuts(sound.digest))) is not None:
            cuts = msgspec.msgpack.decode(data, type=SoundCuts)
            self._cuts.put(sound.digest, cuts)
        return cuts

    def _cut(self, request: _Request, child: DecodingChild) -> SoundCuts:
        """Its parts, which are then decoded and described when their prompts come. Raises `LocalLLMError`."""
        (sound,) = request.media
        cuts = self._known_cuts(sound)
        if cuts is not None:
            return cuts
        if sound.kind not in self.kinds:
            raise InvalidParameter(f"this model does not read {NAMES[sound.kind]}s", param=sound.param)
        decoded = self._decode(sound, self._bytes_of(sound, request.files), child, cut_s=MAX_PART_S)
        self._put_parts(sound, decoded)
        cuts = SoundCuts(decoded.duration_ms, decoded.parts_ms)
        self._cuts.put(sound.digest, cuts)
        self._layout_files.write(self._name_of_cuts(sound.digest), msgspec.msgpack.encode(cuts))
        return cuts

    def _put_parts(self, sound: Media, decoded: Decoded) -> None:
        for part, frame in zip(decoded.parts_ms, decoded.frames, strict=True):
            self._sources.put(MediaKey.of(replace(sound, part_ms=part)), Source(0, 0, frame.data))

    def _bytes_of(self, media: Media, files: Mapping[str, bytes]) -> bytes | None:
        return files.get(media.digest) or self._files.get(media.digest)

    def _is_known(self, media: Media) -> bool:
        keys = self._keys(media)
        return bool(keys) and all(self._layout(key) is not None for key in keys)

    def _is_kept(self, media: Media) -> bool:
        layouts = [(key, self._layout(key)) for key in self._keys(media)]
        return bool(layouts) and all(
            layout is not None and all(self._encoding.is_kept((key, index)) for index in range(len(layout.spans)))
            for key, layout in layouts
        )

    def _keys(self, media: Media) -> list[MediaKey]:
        """Of the picture or sound, or of each frame; empty: the frames are not known."""
        if media.kind != "video":
            return [MediaKey.of(media)]
        return [MediaKey.of_frame(media.digest, frame) for frame in self._frames(media.digest)]

    def _frames(self, digest: str) -> tuple[Frame, ...]:
        frames = self._videos.get(digest)
        if frames is None and (data := self._layout_files.read(self._name_of_video(digest))) is not None:
            frames = msgspec.msgpack.decode(data, type=tuple[Frame, ...])
            self._videos.put(digest, frames)
        return frames or ()

    def _layout(self, key: MediaKey) -> Layout | None:
        layout = self._layouts.get(key)
        if layout is None and (data := self._layout_files.read(self._name(key))) is not None:
            layout = msgspec.msgpack.decode(data, type=Layout)
            self._layouts.put(key, layout)
        return layout

    def _read(self, media: Media, data: bytes | None, child: DecodingChild) -> None:
        """Decode and describe it; the layout is kept. Raises `LocalLLMError`."""
        self._check_encodes(media)
        if media.kind not in self.kinds:
            raise InvalidParameter(f"this model does not read {NAMES[media.kind]}s", param=media.param)
        described: dict[tuple[int, int], Layout] = {}
        for key, source in self._decoded(media, data, child).items():
            size = (source.width, source.height)
            layout = described.get(size) if source.width else None  # frames are of one size
            if layout is None:
                layout = described[size] = self._described(source, key, media)
            self._sources.put(key, source)
            self._layouts.put(key, layout)
            self._layout_files.write(self._name(key), msgspec.msgpack.encode(layout))

    def _described(self, source: Source, key: MediaKey, media: Media) -> Layout:
        try:
            layout = Layout(self._encoding.describe(source, key))
        except InvalidParameter as error:
            raise InvalidParameter(
                f"the {NAMES[media.kind]} cannot be used: {error.message}", param=media.param
            ) from None
        check_rows(layout, media, self._limits)
        return layout

    def _decoded(self, media: Media, data: bytes | None, child: DecodingChild) -> dict[MediaKey, Source]:
        """The picture, the sound, some parts of it from the wanted one on, or each frame."""
        parts = self._parts_from(media)
        if parts and (source := self._sources.get(MediaKey.of(media))) is not None:
            return {MediaKey.of(media): source}
        decoded = self._decode(media, data, child, parts_ms=parts)
        if parts:
            keys = (MediaKey.of(replace(media, part_ms=part)) for part in decoded.parts_ms)
            return {key: Source(0, 0, frame.data) for key, frame in zip(keys, decoded.frames, strict=True)}
        if media.kind != "video":
            return {MediaKey.of(media): Source(decoded.width, decoded.height, decoded.data)}
        frames = tuple(Frame(frame.time_ms, frame.width, frame.height) for frame in decoded.frames)
        self._videos.put(media.digest, frames)
        self._layout_files.write(self._name_of_video(media.digest), msgspec.msgpack.encode(frames))
        return {
            MediaKey.of_frame(media.digest, frame): Source(each.width, each.height, each.data)
            for frame, each in zip(frames, decoded.frames, strict=True)
        }

    def _parts_from(self, media: Media) -> tuple[tuple[int, int], ...]:
        if media.part_ms is None:
            return ()
        cuts = self._known_cuts(media)
        known = () if cuts is None else cuts.parts_ms
        at = known.index(media.part_ms) if media.part_ms in known else len(known)
        return known[at : at + REDECODED_PARTS] or (media.part_ms,)

    def _decode(
        self,
        media: Media,
        data: bytes | None,
        child: DecodingChild,
        *,
        parts_ms: tuple[tuple[int, int], ...] = (),
        cut_s: float = 0.0,
    ) -> Decoded:
        if data is None:
            raise InternalError("what was kept of a picture or sound is gone; send the request again")
        limits = self._limits
        rate_hz = self._encoding.sample_rate_hz() if media.kind == "audio" else limits.video_fps
        request = DecodeRequest(
            media.kind,
            data,
            media.detail,
            limits.max_pixels,
            limits.max_s,
            rate_hz,
            limits.max_frames,
            parts_ms,
            cut_s,
            media.page,
            limits.max_together_pixels,
            limits.decoding.cpu_s / 2,
        )
        decoded: Decoded = child.decode(request)
        self.counters.decoded()
        if decoded.problem:
            raise InvalidParameter(f"the {NAMES[media.kind]} {decoded.problem}", param=media.param)
        return decoded

    def _pieces(self, media: Media, request: _Request) -> MediaPieces:
        data, num_before = self._bytes_of(media, request.files), 0
        made: list[tuple[int, ...] | MediaRows] = []
        stamps = [frame.stamp for frame in self._frames(media.digest)] if media.kind == "video" else []
        keys = self._keys(media)
        for number, key in enumerate(keys):
            layout = self._layout(key)
            if layout is None:
                break
            if stamps:
                made.append(tuple(self._tokenize(stamps[number])))
            medium = Medium(media, key, data, layout, request.is_wanted, self._encoding, num_before=num_before)
            made += pieces(layout, self._context, key, list(medium.sources))
            num_before += len(medium.sources)
        else:
            if keys:
                return tuple(made)
        raise InternalError("the layout of a picture is gone; send the request again")

    def _source_again(self, medium: Medium) -> Source:
        """For the encoding thread: what was just decoded, or the file decoded again."""
        source = self._sources.pop(medium.key)
        if source is None:
            with contextlib.closing(DecodingChild(self._limits.decoding)) as child:
                data = medium.data or self._files.get(medium.media.digest)
                decoded = self._decoded(medium.media, data, child)
            source = decoded.pop(medium.key, None)
            for key, each in decoded.items():  # the video's other frames
                self._sources.put(key, each)
        if source is None:
            raise InternalError("a picture is not decoded as it was before; send the request again")
        return source

    def _name_of_video(self, digest: str) -> str:
        limits = self._limits
        pixels = f"{limits.max_pixels} {limits.max_together_pixels}"
        return f"{self._context} {digest} {limits.video_fps:g} {limits.max_frames} {pixels} frames"

    def _name_of_cuts(self, digest: str) -> str:
        return f"{self._context} {digest} {MAX_PART_S:g} s cuts"

    def _name(self, key: MediaKey) -> str:
        return f"{self._context} {key}"


def _size_of_layout(layout: Layout) -> int:
    return sum(200 + len(chunk.planes) + len(chunk.moves) + 8 * len(chunk.tokens) for chunk in layout.chunks)
