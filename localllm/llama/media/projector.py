"""One projector beside its text model without weights: media become chunks, and chunks become rows.

Chunks of several media may be made on any thread while one thread encodes. Pixels and samples are decoded already.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.engine.media import Planes
from localllm.errors import LoadFailed
from localllm.llama.library import Library
from localllm.llama.media.opening import open_media

THREADS_MARK = 0x4C6F6361
"""Written where libmtmd keeps its number of threads, so that the place can be found."""
CONTEXT_BYTES = 256
"""Fewer than an `mtmd_context` has; the number of threads is among the first 180."""
PADDED, NUM_LEADING = "deepseek4v", 3
"""A type whose pictures begin with up to so many rows of padding, so that the others begin at a multiple of four behind
the tokens before them (mtmd.cpp, `lead_pad`). A picture that is read by itself begins with all of them."""
NUMBERED = "hunyuanvl"
"""A type that puts a picture's number in its prompt into the last plane (mtmd.cpp, `image_idx`)."""

Rows = npt.NDArray[np.float32]


class Pixels(NamedTuple):
    """A picture. `rgb`: 3 bytes a pixel, row by row; None: only its size is known."""

    width: int
    height: int
    rgb: bytes | None


class Samples(NamedTuple):
    """A sound of one channel at the projector's rate. `pcm`: float32 in native byte order."""

    pcm: bytes


class TextChunk(NamedTuple):
    """Tokens before, between or after rows."""

    tokens: tuple[int, ...]


class RowsChunk(NamedTuple):
    """Rows that are encoded together."""

    num_rows: int
    num_positions: int
    planes: Planes | None
    """None: consecutive positions."""
    is_causal: bool
    num_leading: int
    """Of the first rows, those that are padding: `engine.media.MediaRows`."""
    is_numbered: bool


class Projector:
    """Owns an `mtmd_context` and a model without weights."""

    def __init__(
        self,
        library: Library,
        model: Path,
        projector: Path,
        *,
        kind: str,
        device: str = "CPU",
        min_rows: int | None = None,
        max_rows: int | None = None,
    ) -> None:
        """`kind`: the projector's type in its header. `device`: one of the library's. `min_rows`, `max_rows`: of a
        picture, for types whose pictures have any size; None: the file's own. Raises `LoadFailed`,
        `DeviceUnavailable`."""
        self._library = library
        self._mtmd = open_media(library)
        self.kind = kind
        self._log = library.api.llama_log_callback(lambda level, text, _: library.log.receive(level, text))
        self._mtmd.mtmd_log_set(self._log, None)
        self._device = None if device == "CPU" else library.device_handles((device,))
        self._no_devices = library.device_handles(())
        self._model = self._load_without_weights(model)
        self.width = int(library.api.llama_model_n_embd_inp(self._model))
        """Of a row."""
        self._context = self._open(projector, min_rows, max_rows)
        mtmd = self._mtmd
        self.reads_pictures = bool(mtmd.mtmd_support_vision(self._context))
        self.reads_sounds = bool(mtmd.mtmd_support_audio(self._context))
        self.sample_rate = int(mtmd.mtmd_get_audio_sample_rate(self._context)) if self.reads_sounds else 0
        """In Hz."""
        self._has_planes = bool(mtmd.mtmd_decode_use_mrope(self._context))
        if {PADDED: self._has_planes, NUMBERED: not self._has_planes}.get(kind):  # libmtmd would end the process
            raise LoadFailed("the projector is for a model that counts positions otherwise", param="projector")
        self._threads = self._place_of_threads()
        self.set_threads(1)

    def read(self, media: Pixels | Sequence[Samples]) -> Chunks:
        """A picture, or the parts of one sound. Raises `ValueError` if libmtmd refuses it."""
        return Chunks(self, media)

    def set_threads(self, threads: int) -> None:
        """For the next encoding."""
        self._threads.value = threads

    def close(self) -> None:
        self._mtmd.mtmd_free(self._context)
        self._library.api.llama_model_free(self._model)

    def _load_without_weights(self, path: Path) -> Any:
        """What libmtmd asks a text model for is its vocabulary, its width and how it counts positions."""
        api = self._library.api
        params = api.llama_model_default_params()
        params.devices = ctypes.cast(self._no_devices, ctypes.c_void_p)
        params.n_gpu_layers, params.load_mode, params.no_alloc = 0, api.LLAMA_LOAD_MODE_NONE, True
        mark = self._library.log.mark()
        model = api.llama_model_load_from_file(str(path).encode("utf-8", "surrogateescape"), params)
        if not model:
            raise LoadFailed(f"{path.name} cannot be read: {self._library.log.errors_since(mark)}")
        return model

    def _open(self, path: Path, min_rows: int | None, max_rows: int | None) -> Any:
        mtmd = self._mtmd
        params = mtmd.mtmd_context_params_default()
        params.use_gpu = self._device is not None
        if self._device is not None:
            params.device = self._device[0]
        params.print_timings = params.warmup = False
        params.n_threads = THREADS_MARK
        if min_rows is not None:
            params.image_min_tokens = min_rows
        if max_rows is not None:
            params.image_max_tokens = max_rows
        mark = self._library.log.mark()
        context = mtmd.mtmd_init_from_file(str(path).encode("utf-8", "surrogateescape"), self._model, params)
        if not context:
            raise LoadFailed(
                f"the projector {path.name} cannot be used: {self._library.log.errors_since(mark)}",
                param="projector",
                public="the projector cannot be used; the server's log says why",
            )
        return context

    def _place_of_threads(self) -> ctypes.c_int32:
        """Where the context keeps its number of threads: libmtmd can only set it for good. Raises `LoadFailed`."""
        address = int(self._context)
        words = (ctypes.c_int32 * (CONTEXT_BYTES // 4)).from_address(address)
        found = [index for index, word in enumerate(words) if word == THREADS_MARK]
        if len(found) != 1:
            raise LoadFailed("libmtmd keeps its number of threads elsewhere; choose another runtime", param="runtime")
        return ctypes.c_int32.from_address(address + 4 * found[0])


class Chunks:
    """What libmtmd made of one picture or sound. `close` it; not while it is being encoded."""

    def __init__(self, projector: Projector, media: Pixels | Sequence[Samples]) -> None:
        """Raises `ValueError`."""
        self._projector = projector
        self._mtmd = mtmd = projector._mtmd
        self._handle = mtmd.mtmd_input_chunks_init()
        bitmaps = [_bitmap(mtmd, each) for each in ([media] if isinstance(media, Pixels) else media)]
        parts = [mtmd.mtmd_input_part(None, bitmap) for bitmap in bitmaps]
        pointers = (ctypes.POINTER(mtmd.mtmd_input_part) * len(parts))(*map(ctypes.pointer, parts))
        mark = projector._library.log.mark()
        status = mtmd.mtmd_tokenize_from_parts(projector._context, self._handle, pointers, len(parts), False)
        for bitmap in bitmaps:
            mtmd.mtmd_bitmap_free(bitmap)
        if status:
            self.close()
            raise ValueError(projector._library.log.errors_since(mark))
        self._chunks = [
            mtmd.mtmd_input_chunks_get(self._handle, index)
            for index in range(mtmd.mtmd_input_chunks_size(self._handle))
        ]
        self._with_rows = [chunk for chunk in self._chunks if not self._is_text(chunk)]
        if not isinstance(media, Pixels):
            self._chunks = self._joined()

    def layout(self) -> list[TextChunk | RowsChunk]:
        """In the order of a prompt: rows, with the tokens around a picture, or before and behind a sound. Raises
        `ValueError`."""
        return [self._text(chunk) if self._is_text(chunk) else self._rows(chunk) for chunk in self._chunks]

    def encode(self, first: int, count: int) -> list[Rows]:
        """The rows of chunk `first` of those with rows, and of up to `count - 1` that follow it, if the projector's
        type can encode several at once. Raises `ValueError`."""
        mtmd, context = self._mtmd, self._projector._context
        wanted = self._with_rows[first : first + count]
        mark = self._projector._library.log.mark()
        batch = mtmd.mtmd_batch_init(context)
        try:
            # The first that cannot be added ends it: of another size, or a type that encodes one at a time.
            added = [*itertools.takewhile(lambda chunk: not mtmd.mtmd_batch_add_chunk(batch, chunk), wanted)]
            if mtmd.mtmd_batch_encode(batch):
                raise ValueError(self._projector._library.log.errors_since(mark))
            return [self._copied(mtmd.mtmd_batch_get_output_embd(batch, chunk), chunk) for chunk in added]
        finally:
            mtmd.mtmd_batch_free(batch)

    def close(self) -> None:
        self._mtmd.mtmd_input_chunks_free(self._handle)

    def _joined(self) -> list[Any]:
        """Of the tokens around each part of a sound, only those before the first part and behind the last."""
        places = [at for at, chunk in enumerate(self._chunks) if not self._is_text(chunk)]
        return [
            chunk
            for at, chunk in enumerate(self._chunks)
            if not places or not self._is_text(chunk) or not places[0] < at < places[-1]
        ]

    def _copied(self, rows: Any, chunk: Any) -> Rows:
        shape = (self._mtmd.mtmd_input_chunk_get_n_tokens(chunk), self._projector.width)
        return np.ctypeslib.as_array(rows, shape).copy()

    def _is_text(self, chunk: Any) -> bool:
        return bool(self._mtmd.mtmd_input_chunk_get_type(chunk) == self._mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT)

    def _text(self, chunk: Any) -> TextChunk:
        count = ctypes.c_size_t()
        tokens = self._mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
        made = tuple(tokens[: count.value])
        if min(made, default=0) < 0:
            raise ValueError("the model's vocabulary lacks tokens that this projector puts around pictures")
        return TextChunk(made)

    def _rows(self, chunk: Any) -> RowsChunk:
        mtmd, projector = self._mtmd, self._projector
        num_rows = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        is_picture = mtmd.mtmd_input_chunk_get_type(chunk) == mtmd.MTMD_INPUT_CHUNK_TYPE_IMAGE
        is_causal = not mtmd.mtmd_decode_use_non_causal(projector._context, chunk)
        planes = self._planes(chunk, num_rows) if projector._has_planes and is_picture else None
        return RowsChunk(
            num_rows,
            mtmd.mtmd_input_chunk_get_n_pos(chunk),
            planes,
            is_causal,
            NUM_LEADING if is_picture and projector.kind == PADDED else 0,
            is_picture and projector.kind == NUMBERED,
        )

    def _planes(self, chunk: Any, num_rows: int) -> Planes:
        picture = self._mtmd.mtmd_input_chunk_get_tokens_image(chunk)
        at = np.zeros((2, 4, num_rows), np.int32)
        for position, row in itertools.product(range(2), range(num_rows)):
            place = self._mtmd.mtmd_image_tokens_get_decoder_pos(picture, position, row)
            at[position, :, row] = place.t, place.y, place.x, place.z
        return Planes(at[0], at[1] != at[0])


def _bitmap(mtmd: Any, media: Pixels | Samples) -> Any:
    if isinstance(media, Samples):
        samples = np.frombuffer(media.pcm, np.float32)
        return mtmd.mtmd_bitmap_init_from_audio(len(samples), samples.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
    if media.rgb is None:
        return mtmd.mtmd_bitmap_init(media.width, media.height, None)
    data = np.frombuffer(media.rgb, np.uint8).ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    return mtmd.mtmd_bitmap_init(media.width, media.height, data)
