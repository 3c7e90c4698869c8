"""Opens the reader of a model that was just loaded: what its rows depend on, where they are kept, what bounds them.

Knows nothing of requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from localllm.kvdisk.fingerprint import file_identity
from localllm.kvdisk.media_files import MediaFiles
from localllm.llama.library import Library
from localllm.llama.media.opening import why_no_media
from localllm.system import cpu
from localllm.worker.media.counters import MediaCounters
from localllm.worker.media.encoder_messages import Open, Source
from localllm.worker.media.encoding import Encoding
from localllm.worker.media.kept_rows import Kept
from localllm.worker.media.media_limits import MediaLimits
from localllm.worker.media.process_limits import DecodingLimits, EncodingLimits
from localllm.worker.media.reader import Reader
from localllm.worker.media.row_source import Medium
from localllm.worker.messages import Load
from localllm.worker.states.identity import model_identity

MADE_BY = "3"
"""Changes with how files are decoded and described."""


def open_reader(
    library: Library,
    load: Load,
    *,
    ubatch_rows: int,
    tokenize: Callable[[str], Sequence[int]],
    lend: Callable[[], AbstractContextManager[int]],
    data_dir: Path,
    plugin_dir: Path | None,
) -> Reader | None:
    """None without a projector or libmtmd. `ubatch_rows`: as for `MediaLimits`. `tokenize`: of the model, on any
    thread. `lend`: as for `Encoding`, on the CPU. Starts threads and no process."""
    projector, options = load.projector, load.options
    if projector is None or why_no_media(library):
        return None
    info = projector.info
    wanted = Open(
        library.choice,
        str(plugin_dir) if plugin_dir is not None and projector.device != "CPU" else "",
        (),
        load.path,
        projector.path,
        "" if info.vision is None else info.vision.type,
        projector.device,
        options.image_min_tokens,
        options.image_max_tokens,
        0 if info.audio is None else info.audio.cut_s,
    )
    context = _context(library, load, wanted)
    files = MediaFiles(data_dir, load.model_id, (options.media_disk_mb if options.kv_disk_mb else 0) * 10**6)
    counters = MediaCounters()
    cores = cpu.num_physical_cores()

    def make_encoding(decode: Callable[[Medium], Source]) -> Encoding:
        return Encoding(
            wanted,
            context=context,
            width=info.width,
            decode=decode,
            rows=Kept(options.media_ram_mb * 10**6, lambda rows: rows.nbytes),
            files=files,
            lend=lend if wanted.device == "CPU" else lambda: nullcontext(cores),  # then steps keep theirs
            limits=EncodingLimits(
                options.media_idle_s, options.media_call_s, options.media_timeout_s, options.media_refused_s
            ),
            counters=counters,
        )

    limits = MediaLimits(
        int(options.max_megapixels * 10**6),
        options.max_media_s,
        options.video_fps,
        options.max_video_frames,
        ubatch_rows,
        info.width,
        options.media_idle_s,
        DecodingLimits(options.media_decode_s, options.media_decode_mb),
        options.media_decoders,
        options.media_files_mb * 10**6,
        int(options.max_video_megapixels * 10**6),
    )
    return Reader(frozenset(info.reads), limits, context, files, counters, make_encoding, tokenize)


def _context(library: Library, load: Load, wanted: Open) -> str:
    """Tokens of a layout depend on the model's vocabulary, rows on the projector, the code and the device."""
    parts = (
        MADE_BY,
        model_identity(load),
        file_identity(Path(wanted.projector)),
        library.build.fingerprint,
        wanted.device,
        str((wanted.min_rows, wanted.max_rows)),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
