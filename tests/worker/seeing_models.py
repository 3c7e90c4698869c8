"""A tiny model that reads pictures or sounds, on which prompts are computed as the worker does and as libmtmd does.

Helpers, no tests.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from PIL import Image

from localllm.chat.media_marks import MediaMark, new_marker
from localllm.engine.sampling.selection import Row
from localllm.llama.backend import open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.enums import flash_attn_type
from localllm.llama.library import Library
from localllm.llama.media.opening import open_media
from localllm.llama.media.projector import Pixels, Projector, Samples, _bitmap
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab import Vocab
from localllm.worker.media.decoding_child import DecodeRequest, DecodingChild
from localllm.worker.prompts.marked_text import MarkedText
from tests.llama.test_media_rows import Prompt
from tests.models.media import COLORS, WORDS, MediaModel
from tests.worker.media_readers import File, as_file, encoded, open_test_reader, read, rows_of

WORD_TOKENS = np.arange(257, 257 + len(WORDS))
ALIKE = Attention("off")
"""Flash attention computes fewer than 64 rows otherwise than more."""
CTX, SLOTS, UBATCH = 2048, 2, 512
TOLERANCE = 1e-4
"""Of the largest logit, where the same was computed in other batches."""


def square(color: str, side: int = 64) -> File:
    index = COLORS.index(color)
    return as_file(
        "image", encoded(Image.new("RGB", (side, side), tuple(255 * (index >> bit & 1) for bit in range(3))))
    )


def assert_equal(found: Row, expected: Row) -> None:
    """Words have far larger logits than other tokens, which depend on more."""
    for tokens in (WORD_TOKENS, np.delete(np.arange(len(expected)), WORD_TOKENS)):
        assert np.abs(found - expected)[tokens].max() <= TOLERANCE * np.abs(expected)[tokens].max()


class SeeingModel:
    """Close it by leaving its context."""

    def __init__(self, library: Library, made: MediaModel, data_dir: Path, *, unified: bool = False) -> None:
        self.made = made
        self._library = library
        self._model = LlamaModel(library, made.model, gpu_layers=0, devices=(), must_offload=False)
        memory = KvMemory(CTX, SLOTS, num_cells=CTX * SLOTS if unified else None)
        self.backend = open_backend(library, self._model, memory, Batching(UBATCH, UBATCH), attention=ALIKE, threads=1)
        self._vocab = Vocab(library.api, self._model.vocab)
        self._texts = MarkedText(self._vocab, new_marker())
        self._reader = open_test_reader(library, made, data_dir)

    def __enter__(self) -> SeeingModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.backend.free()
        self._model.close()

    @property
    def encodes(self) -> int:
        """Chunks."""
        return self._reader.counters.encodes

    def prompt(self, *parts: str | File) -> Prompt:
        """With the rows of its pictures and sounds."""
        files = [part for part in parts if isinstance(part, File)]
        marks = (MediaMark(file.media.kind, file.media.content, file.media.detail) for file in files)
        pieces = dict(zip(marks, read(self._reader, *files), strict=True))
        text = self._texts.joined([part.media if isinstance(part, File) else part for part in parts])
        ids = [id for step in self._texts.steps(text, add_special=False, pieces=pieces) for id in step]
        spans = self._texts.spans(text, pieces, ids)
        assert spans is not None
        for each in spans:
            rows_of(each.span.of)
        return Prompt(ids, [each.span for each in spans])

    def directly(self, *parts: str | File) -> Row:
        """The logits behind the prompt if libmtmd reads all of it, in a context of its own."""
        api, mtmd = self._library.api, open_media(self._library)
        decoder = DecodingChild()
        projector = Projector(self._library, self.made.model, self.made.projector, kind=self.made.kind)
        read, kept = (mtmd.mtmd_input_part * len(parts))(), []
        for each, part in zip(read, parts, strict=True):
            if isinstance(part, File):
                each.bitmap = _bitmap(mtmd, _decoded(decoder, part))
                continue
            data = part.encode()
            kept.append(mtmd.mtmd_input_text(data, len(data), False, True))
            each.text = ctypes.pointer(kept[-1])
        decoder.close()
        chunks = mtmd.mtmd_input_chunks_init()
        pointers = (ctypes.POINTER(mtmd.mtmd_input_part) * len(parts))(*map(ctypes.pointer, read))
        assert mtmd.mtmd_tokenize_from_parts(projector._context, chunks, pointers, len(parts), False) == 0
        params = api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = (
            CTX,
            UBATCH,
            UBATCH,
            1,
            1,
        )
        params.flash_attn_type = flash_attn_type(api, "off")
        context = api.llama_init_from_model(self._model.handle, params)
        position = ctypes.c_int32(0)
        assert (
            mtmd.mtmd_helper_eval_chunks(
                projector._context, context, chunks, position, 0, UBATCH, True, ctypes.byref(position)
            )
            == 0
        )
        logits: Row = np.ctypeslib.as_array(api.llama_get_logits_ith(context, -1), (self._vocab.size,)).copy()
        api.llama_free(context)
        mtmd.mtmd_input_chunks_free(chunks)
        projector.close()
        return logits


def _decoded(decoder: DecodingChild, file: File) -> Pixels | Samples:
    decoded = decoder.decode(DecodeRequest(file.media.kind, file.data, "auto", 10**7, 100.0, 16000))
    return Pixels(decoded.width, decoded.height, decoded.data) if decoded.width else Samples(decoded.data)
