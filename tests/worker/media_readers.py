"""A reader of pictures and sounds on a real encoder process, and media to read. Helpers, no tests."""

from __future__ import annotations

import hashlib
import io
import queue
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
from PIL import Image

from localllm.engine.media import MediaRows
from localllm.errors import LocalLLMError
from localllm.llama.library import Library
from localllm.types import Media, MediaKind
from localllm.types.headers.projectors import AudioEncoder, ProjectorInfo, VisionEncoder
from localllm.types.load_options import LoadOptions
from localllm.types.placement import DeviceShare, ProjectorLoad
from localllm.worker.media.opening import open_reader
from localllm.worker.media.reader import Reader
from localllm.worker.messages import Load
from localllm.worker.prompts.prompt_parts import MediaPieces, MissingFiles, OmittedMedia
from tests.models.media import MediaModel
from tests.worker.conftest import INFO, PLACEMENT

WIDTH = 64


class File(NamedTuple):
    """A picture or sound as a client sends it."""

    media: Media
    data: bytes


def picture(seed: int = 0, width: int = 64, height: int = 32, format: str = "PNG", **changes: Any) -> File:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return as_file("image", encoded(Image.fromarray(pixels), format), **changes)


def encoded(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def sound(seconds: float, seed: int = 0) -> File:
    samples = 0.1 * np.random.default_rng(seed).standard_normal(int(seconds * 16000)).astype(np.float32)
    file = io.BytesIO()
    soundfile.write(file, samples, 16000, format="WAV", subtype="PCM_16")
    return as_file("audio", file.getvalue())


def as_file(kind: MediaKind, data: bytes, **changes: Any) -> File:
    return File(Media(kind=kind, digest=hashlib.sha256(data).hexdigest(), num_bytes=len(data), **changes), data)


def open_test_reader(
    library: Library, model: MediaModel, data_dir: Path, described: ProjectorInfo | None = None, /, **options: Any
) -> Reader:
    """On the CPU. `described`: what its header says, of other kinds than ours."""
    vision = VisionEncoder(
        type=model.kind, image_size=32, patch_size=4, max_rows=4096, span_rows=256, span_patches=1024
    )
    audio = AudioEncoder(type=model.kind, sample_rate_hz=16000, rows_per_s=0.5, span_rows=15)
    info = ProjectorInfo(
        name=None,
        file_type=None,
        size_bytes=1,
        num_parameters=1,
        width=WIDTH,
        vision=None if model.kind == "voxtral" else vision,
        audio=audio if model.kind in ("voxtral", "omni") else None,
    )
    projector = ProjectorLoad(str(model.projector), described or info, "CPU", DeviceShare("CPU", 0, 0, 0, 0))
    load = Load("tiny", str(model.model), INFO, LoadOptions(kv_disk_mb=100, **options), PLACEMENT, projector=projector)
    reader = open_reader(
        library,
        load,
        ubatch_rows=512,
        tokenize=lambda text: text.encode(),
        lend=lambda: nullcontext(2),
        data_dir=data_dir,
        plugin_dir=None,
    )
    assert reader is not None
    return reader


Answer = Sequence[MediaPieces | OmittedMedia] | MissingFiles | LocalLLMError


def answer(
    reader: Reader,
    *files: File,
    sent: Mapping[str, bytes] | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Answer:
    """What `add` says; `sent`: all of them by default."""
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
    given = {file.media.digest: file.data for file in files} if sent is None else sent
    reader.add([file.media for file in files], given, answers.put, is_wanted)
    return answers.get(timeout=60)


def read(reader: Reader, *files: File, **options: Any) -> Sequence[MediaPieces]:
    """The pieces of each."""
    found = answer(reader, *files, **options)
    if isinstance(found, LocalLLMError):
        raise found
    assert not isinstance(found, MissingFiles)
    return [each for each in found if not isinstance(each, OmittedMedia)]


def spans(pieces: MediaPieces) -> list[MediaRows]:
    return [piece for piece in pieces if isinstance(piece, MediaRows)]


def rows_of(span: MediaRows) -> npt.NDArray[np.float32]:
    """Once they are there. Raises the failure."""
    settled: queue.SimpleQueue[None] = queue.SimpleQueue()
    span.source.want(lambda: settled.put(None))
    settled.get(timeout=60)
    if span.source.failure is not None:
        raise span.source.failure
    assert span.source.rows is not None
    return span.source.rows
