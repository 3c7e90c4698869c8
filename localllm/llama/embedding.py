"""A second context of a loaded model: tokens in, vectors or scores out. Implements `engine.backend.EmbeddingBackend`.

Two kinds of models differ in what may be computed when:

    bidirectional (encoders)   a whole text at once, so a batch has whole texts and is no longer than the context
    causal                     any part of a text, the rest later: its keys and values stay until its end

For causal models the tokens' own vectors are read and pooled here, because llama.cpp pools only within one batch; on
the CPU without the output head (`hidden.py`), where a trial shows that the vectors are the same. Knows nothing of
requests. Touches no other context of the model.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, MediaPart, Piece, Vectors
from localllm.errors import LoadFailed
from localllm.llama.batch import RowsBatch
from localllm.llama.enums import flash_attn_type, pooling_type
from localllm.llama.hidden import HiddenRows
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import FlashAttn, Pooling

BATCH_TOKENS = 512
"""Batch of a causal model. An encoder's batch is as large as its context: a text is computed at once or not at all."""
TOGETHER_TOKENS = 63
"""Tokens of several texts in one batch on the CPU. From 64 rows on attention compares every token of a batch with every
other, whatever text they belong to, so larger batches are slower (33 M parameters, one thread, tokens/s: one text of
144 tokens 770, three 630, seven 480). They also round differently, so that a text's vector would depend on its company
by 2e-4 (now by less than 1e-6)."""
MAX_TEXTS = 128
"""Texts in one batch: queries are a dozen tokens long."""
MAX_STATES = 4
"""Texts in one batch of a model with a recurrent state, which allocates this many states."""
TRIAL_TOKENS = 8
TRIAL_TOLERANCE = 1e-3
"""Tolerance between vectors of length 1 with and without the output head; a wrong node's differ by more than 0.1."""


class LlamaEmbedder:
    """Used by one thread."""

    def __init__(
        self,
        library: Library,
        model: LlamaModel,
        *,
        causal: bool,
        pooling: Pooling,
        ctx: int,
        threads: int,
        is_offloaded: bool = False,
        flash_attn: FlashAttn = "auto",
    ) -> None:
        """`ctx`: tokens of the longest text. Raises `LoadFailed` if memory does not suffice."""
        self._api: Any = library.api
        self.splits_texts = causal
        self.max_text_tokens = ctx
        self.batch_tokens = BATCH_TOKENS if causal else max(BATCH_TOKENS, ctx)
        self.together_tokens = BATCH_TOKENS if is_offloaded else TOGETHER_TOKENS
        self.max_texts = MAX_STATES if model.is_recurrent else MAX_TEXTS
        self._pooling = pooling
        self._pools_here = causal and pooling != "rank"
        params = self._api.llama_context_default_params()
        # A long text of a causal model keeps its cells while short ones overtake it.
        params.n_ctx = ctx + BATCH_TOKENS if causal else self.batch_tokens
        params.n_batch = params.n_ubatch = self.batch_tokens
        params.n_seq_max = self.max_texts
        params.n_threads = params.n_threads_batch = threads
        params.embeddings = True
        params.pooling_type = pooling_type(self._api, "none" if self._pools_here else pooling)
        params.kv_unified = True
        params.flash_attn_type = flash_attn_type(self._api, flash_attn)
        params.no_perf = True
        # A recurrent state makes llama.cpp split batches differently; data on a GPU cannot be read like this.
        reads_rows = self._pools_here and not (model.is_recurrent or is_offloaded)
        hidden = HiddenRows(library) if reads_rows and library.known.switches_embeddings else None
        if hidden is not None:
            params.cb_eval = hidden.callback
        mark = library.log.mark()
        self._context: Any = self._api.llama_init_from_model(model.handle, params)
        if not self._context:
            raise LoadFailed(
                f"no memory for texts of {ctx} tokens ({library.log.errors_since(mark)}); ask for less with "
                "--embedding-ctx",
                param="embedding_ctx",
            )
        self._threads = threads
        self._memory = self._api.llama_get_memory(self._context)
        decodes = self._memory and self._api.llama_model_has_decoder(model.handle)
        self._compute = self._api.llama_decode if decodes else self._api.llama_encode
        self._token_dim: int = self._api.llama_model_n_embd_out(model.handle)
        self.dimensions = 1 if pooling == "rank" else self._token_dim
        self._batch = _Batch(self._api, self.batch_tokens)
        self._media: RowsBatch | None = None
        if causal and model.takes_rows:
            self._media = RowsBatch(self._api, self.batch_tokens, model.input_width, model.position_sections)
        self._begun: dict[int, list[Vectors]] = {}
        """For each partly computed text, by its place: what pooling needs of the computed part."""
        self._hidden: HiddenRows | None = None
        self._callback = hidden  # keep it alive: llama.cpp calls it even while it is off
        if hidden is not None:
            self._try_without_head(hidden, self._api.llama_vocab_n_tokens(model.vocab))

    def compute(self, pieces: Sequence[Piece]) -> list[Vectors | None]:
        """Computes the pieces in one batch. Raises `BackendError`; then the texts of these pieces must start over."""
        parts = [_wanted(piece, self._pooling) for piece in pieces]
        media = pieces[0].media
        if media is None:
            self._batch.fill(pieces, parts if self._hidden else None)
            status = self._compute(self._context, self._batch.struct)
        else:
            status = self._compute_rows(pieces[0], media, parts[0])
        if status != 0:
            for piece in pieces:
                self.forget(piece.place)
            raise BackendError(f"llama.cpp computed no vectors (status {status})")
        if self._pools_here or self._pooling == "none":
            results = [self._pool(piece, rows) for piece, rows in zip(pieces, self._rows(pieces, parts), strict=True)]
        else:
            results = [self._of_sequence(piece.place) if piece.is_last else None for piece in pieces]
        for piece in pieces:
            if piece.is_last:
                self.forget(piece.place)
        return results

    def _compute_rows(self, piece: Piece, media: MediaPart, part: slice) -> int:
        """As `llama_decode` of tokens. Raises `BackendError`."""
        rows, count = self._media, len(piece.tokens)
        if rows is None or media.rows.shape != (count, rows.width):
            raise BackendError(f"the model takes no media rows of shape {media.rows.shape}")
        if count > rows.capacity:  # llama.cpp would end the process
            raise BackendError(f"{count} rows that must be computed together; at most {rows.capacity} are")
        shares_positions = media.extent is not None and media.extent.shares_positions
        position = piece.start - piece.num_saved
        if media.planes is not None and not shares_positions:
            position -= int(media.planes.numbers[0, 0])
        rows.fill(piece.place, position, media, 0)
        rows.want(part if self._hidden else slice(0, count))
        if media.is_causal:
            return int(self._compute(self._context, rows.struct))
        self._api.llama_set_causal_attn(self._context, False)
        try:
            return int(self._compute(self._context, rows.struct))
        finally:
            self._api.llama_set_causal_attn(self._context, True)

    def set_threads(self, threads: int) -> None:
        if threads != self._threads:
            self._threads = threads
            self._api.llama_set_n_threads(self._context, threads, threads)

    def forget(self, place: int) -> None:
        """Discard what was computed of the text in that place."""
        self._begun.pop(place, None)
        if self._memory:
            self._api.llama_memory_seq_rm(self._memory, place, -1, -1)

    def free(self) -> None:
        """Release the context; the model may be closed after this."""
        self._batch.free()
        self._api.llama_free(self._context)

    def _of_sequence(self, place: int) -> Vectors:
        address = self._address(self._api.llama_get_embeddings_seq(self._context, place))
        vector = np.ctypeslib.as_array((ctypes.c_float * self.dimensions).from_address(address))
        return vector.reshape(1, -1).copy()

    def _rows(self, pieces: Sequence[Piece], parts: Sequence[slice]) -> list[Vectors]:
        """For each piece, the rows that pooling needs; views."""
        if self._hidden is not None:
            taken = self._hidden.take(self._token_dim)
            if taken is None:
                raise BackendError("llama.cpp computed no vectors")
            ends = np.cumsum([part.stop - part.start for part in parts])
            return np.split(taken, ends[:-1])
        num_tokens = sum(len(piece.tokens) for piece in pieces)
        address = self._address(self._api.llama_get_embeddings(self._context))
        rows = np.ctypeslib.as_array((ctypes.c_float * (num_tokens * self._token_dim)).from_address(address))
        of_pieces = np.split(rows.reshape(num_tokens, -1), np.cumsum([len(piece.tokens) for piece in pieces])[:-1])
        return [of_piece[part] for of_piece, part in zip(of_pieces, parts, strict=True)]

    def _pool(self, piece: Piece, rows: Vectors) -> Vectors | None:
        """The text's vectors at its end, else None. `rows`: the piece's rows that pooling needs."""
        before = self._begun.setdefault(piece.place, [])
        if self._pooling == "mean":
            before[:] = [sum(before, rows.sum(axis=0, keepdims=True, dtype=np.float32))]
        elif len(rows):
            before.append(rows.copy())
        if not piece.is_last:
            return None
        vectors = np.concatenate(before)
        return vectors / np.float32(piece.start + len(piece.tokens)) if self._pooling == "mean" else vectors

    def _try_without_head(self, hidden: HiddenRows, vocab_size: int) -> None:
        """Skip the output head from now on, if a few tokens have the same vectors without it."""
        piece = Piece(0, 0, list(range(min(TRIAL_TOKENS, vocab_size, self.max_text_tokens))), is_last=True)
        with_head = without = None
        # It raises if no node has that name; any other error will show with the first text.
        with contextlib.suppress(BackendError):
            with_head = self.compute([piece])[0]
            self._hidden, hidden.is_on = hidden, True
            self._api.llama_set_embeddings(self._context, False)
            without = self.compute([piece])[0]
        if with_head is None or without is None or not _are_alike(with_head, without):
            self._hidden, hidden.is_on = None, False
            self._api.llama_set_embeddings(self._context, True)
            self.forget(piece.place)

    def _address(self, pointer: Any) -> int:
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        if address is None:
            raise BackendError("llama.cpp computed no vectors")
        return address


def _wanted(piece: Piece, pooling: Pooling) -> slice:
    """Tokens whose vectors are needed."""
    size = len(piece.tokens)
    if pooling == "last":
        return slice(size - 1 if piece.is_last else size, size)
    return slice(0, min(size, 1) if piece.start == 0 else 0) if pooling == "cls" else slice(0, size)


def _are_alike(some: Vectors, others: Vectors) -> bool:
    if some.shape != others.shape or not np.isfinite(others).all():
        return False
    lengths = (np.linalg.norm(each, axis=1, keepdims=True) for each in (some, others))
    one, other = (each / np.maximum(length, 1e-30) for each, length in zip((some, others), lengths, strict=True))
    return bool(np.abs(one - other).max() < TRIAL_TOLERANCE)


class _Batch:
    """A `llama_batch` of fixed capacity, filled through NumPy views."""

    def __init__(self, api: Any, capacity: int) -> None:
        self._api = api
        self.struct = api.llama_batch_init(capacity, 0, 1)

        def view(pointer: Any) -> npt.NDArray[Any]:
            return np.ctypeslib.as_array(pointer, shape=(capacity,))

        self._tokens = view(self.struct.token)
        self._positions = view(self.struct.pos)
        self._is_wanted = view(self.struct.logits)
        view(self.struct.n_seq_id)[:] = 1
        # A pointer per token to its sequence ids: set once, to an array that is refilled (see `batch.Batch`).
        self._places = np.zeros(capacity, dtype=np.int32)
        self._pointers = view(ctypes.cast(self.struct.seq_id, ctypes.POINTER(ctypes.c_size_t)))
        self._own_pointers = self._pointers.copy()
        self._pointers[:] = self._places.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp)

    def fill(self, pieces: Sequence[Piece], parts: Sequence[slice] | None = None) -> None:
        """`parts`: for each piece the rows that are needed; None: all."""
        end = 0
        for number, piece in enumerate(pieces):
            begin, end = end, end + len(piece.tokens)
            self._is_wanted[begin:end] = parts is None
            if parts is not None:
                self._is_wanted[begin + parts[number].start : begin + parts[number].stop] = 1
            self._tokens[begin:end] = piece.tokens
            start = piece.start - piece.num_saved
            self._positions[begin:end] = np.arange(start, start + len(piece.tokens))
            self._places[begin:end] = piece.place
        self.struct.n_tokens = end

    def free(self) -> None:
        self._pointers[:] = self._own_pointers  # llama_batch_free frees these
        self._api.llama_batch_free(self.struct)
