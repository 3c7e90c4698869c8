"""Pictures and sounds from a file to logits: through decoding, encoding and the engine, against libmtmd's own way."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from localllm.engine.media import MediaRows
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.library import Library
from localllm.llama.media.opening import open_media
from localllm.llama.media.projector import Chunks, Pixels, Projector, Samples
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab import Vocab
from localllm.worker.media.decoding_child import DecodeRequest, DecodingChild
from localllm.worker.prompts.prompt_parts import MediaPieces
from tests.llama.test_media_rows import Asker, Prompt
from tests.models.media import COLORS, KINDS, WORDS, MediaModel, MediaModelKind
from tests.worker.media_readers import WIDTH, File, as_file, encoded, open_test_reader, read, rows_of, sound

FIRST_WORD = 257
"""The token of the first of WORDS."""
BEFORE, AFTER = "<|im_start|>user\nWhat is it?", "<|im_end|>\n<|im_start|>assistant\n"
TOLERANCE = 1e-4
"""Of the largest logit, where the same was computed in other batches."""


class Seen(NamedTuple):
    """A model on which prompts can be computed both ways."""

    made: MediaModel
    model: LlamaModel
    backend: LlamaBackend
    vocab: Vocab


@pytest.fixture(params=[
    kind if kind in ("gemma3", "qwen2vl") else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS
])  # fmt: skip
def seen(
    request: pytest.FixtureRequest, loaded: Library, media_model: Callable[[MediaModelKind], MediaModel]
) -> Iterator[Seen]:
    made = media_model(request.param)
    model = LlamaModel(loaded, made.model, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded, model, KvMemory(1024, 2), Batching(512, 512), threads=1)
    yield Seen(made, model, backend, Vocab(loaded.api, model.vocab))
    backend.free()
    model.close()


def _files(kind: MediaModelKind) -> dict[str, File]:
    """Word that answers it -> file."""
    if kind == "voxtral":
        return {"high": sound(3)}
    return {color: as_file("image", encoded(_square(color))) for color in ("red", "cyan")}


def _square(color: str) -> Image.Image:
    index = COLORS.index(color)
    return Image.new("RGB", (64, 64), tuple(255 * (index >> bit & 1) for bit in range(3)))


def _prompt(seen: Seen, pieces: MediaPieces) -> Prompt:
    prompt = Prompt(seen.vocab.tokenize(BEFORE), [])
    for piece in pieces:
        prompt = prompt + (piece if isinstance(piece, MediaRows) else list(piece))
    return prompt + seen.vocab.tokenize(AFTER)


def test_logits_are_those_of_libmtmds_own_way_and_the_words_are_right(
    seen: Seen, loaded: Library, tmp_path: Path
) -> None:
    reader = open_test_reader(loaded, seen.made, tmp_path)
    asker = Asker(seen.backend)
    for word, file in _files(seen.made.kind).items():
        [pieces] = read(reader, file)
        prompt = _prompt(seen, pieces)
        for span in prompt.spans:
            rows_of(span.of)
        fresh, _ = asker.answered(prompt, cached=False)
        assert WORDS[int(np.argmax(fresh)) - FIRST_WORD] == word
        expected = _directly(seen, loaded, file)
        assert np.abs(fresh - expected).max() <= TOLERANCE * np.abs(expected).max()
        again, num_cached = asker.answered(_prompt(seen, read(reader, file)[0]))
        assert num_cached in (0, len(prompt.ids) - 1)
        assert np.abs(again - fresh).max() <= TOLERANCE * np.abs(fresh).max()


def _directly(seen: Seen, loaded: Library, file: File) -> Any:
    """Logits of a context of its own, with libmtmd's helper for rows."""
    api, mtmd = loaded.api, open_media(loaded)
    decoder = DecodingChild()
    decoded = decoder.decode(DecodeRequest(file.media.kind, file.data, "auto", 10**7, 100.0, 16000))
    decoder.close()
    media = Pixels(decoded.width, decoded.height, decoded.data) if decoded.width else Samples(decoded.data)
    kind = seen.made.kind
    projector = Projector(loaded, seen.made.model, seen.made.projector, kind=kind, input_width=WIDTH)
    chunks = Chunks(projector, media)
    params = api.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = 2048, 512, 512, 1, 1
    context = api.llama_init_from_model(seen.model.handle, params)
    position = ctypes.c_int32(0)

    def compute(tokens: list[int]) -> None:
        for token in tokens:
            batch = api.llama_batch_init(1, 0, 1)
            batch.n_tokens, batch.token[0], batch.pos[0] = 1, token, position.value
            batch.n_seq_id[0], batch.seq_id[0][0], batch.logits[0] = 1, 0, 1
            assert api.llama_decode(context, batch) == 0
            api.llama_batch_free(batch)
            position.value += 1

    compute(seen.vocab.tokenize(BEFORE))
    evaluate, next_position = mtmd.mtmd_helper_eval_chunk_single, ctypes.byref(position)
    for chunk in chunks._chunks:
        assert evaluate(projector._context, context, chunk, position, 0, 512, False, next_position) == 0
    compute(seen.vocab.tokenize(AFTER))
    logits = np.ctypeslib.as_array(api.llama_get_logits_ith(context, -1), (seen.vocab.size,)).copy()
    api.llama_free(context)
    chunks.close()
    projector.close()
    return logits
