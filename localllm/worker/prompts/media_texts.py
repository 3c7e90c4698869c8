"""Turns texts with pictures and sounds into tokens for the embedder, and waits until all their rows are there.

What the model does not read is refused by name. Knows nothing of batches or vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from localllm.chat.media_marks import new_marker
from localllm.chat.unreadable import readable
from localllm.engine.embedding.embedder import LARGEST_TOKENS
from localllm.engine.spans import Spans
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.types import LoadedModel, Media, Message
from localllm.worker.messages import File, Up
from localllm.worker.prompts.marked_text import MarkedText, MediaTokens
from localllm.worker.prompts.media_pieces import MediaGathering
from localllm.worker.prompts.media_uses import MediaUse
from localllm.worker.prompts.prompt_parts import MediaReader, Tokenizer
from localllm.worker.prompts.tokenized import RenderedPrompt
from localllm.worker.refusals import errors_to

Parts = tuple[str | Media, ...]
Refuse = Callable[[LocalLLMError], None]


class MediaText(NamedTuple):
    """A text as the embedder gets it."""

    tokens: list[int]
    spans: Spans
    use: MediaUse
    """What its rows are of."""


class MediaTexts:
    """Those of one model. `begin` and `put` come from the reader thread."""

    def __init__(
        self, model: LoadedModel, vocab: Tokenizer, reader: MediaReader | None, send: Callable[[Up], None]
    ) -> None:
        """`reader`: None if the model reads none."""
        self._model = model
        self._gathering = MediaGathering(reader, send)
        self._texts = MarkedText(vocab, "" if reader is None else new_marker())

    def put(self, file: File) -> None:
        """The bytes of a picture or sound that were asked for."""
        self._gathering.put(file)

    def cancelled(self, id: int) -> None:
        """The parent has no bytes for this request any more."""
        self._gathering.cancelled(id)

    def begin(
        self,
        id: int,
        texts: Sequence[Parts],
        is_wanted: Callable[[], bool],
        go_on: Callable[[MediaTokens], None],
        refuse: Refuse,
    ) -> None:
        """Call `go_on` with the pieces of all media, on any thread, or `refuse`."""
        with errors_to(refuse):
            asked = [Message("user", "", parts=parts) for parts in texts]
            readable(asked, self._gathering.kinds, self._model.id, self._model.no_media)
            self._gathering.complete(
                RenderedPrompt("", {}),
                asked,
                lambda: [id] if is_wanted() else [],
                lambda whole: go_on(whole.pieces),
                refuse,
            )

    def tokens(self, parts: Parts, pieces: MediaTokens) -> Generator[None, None, MediaText]:
        """Its tokens, in steps of some milliseconds, and where its rows are among them. Raises `InvalidParameter`."""
        text, tokens = self._texts.joined(parts), list[int]()
        for step in self._texts.steps(text, add_special=True, pieces=pieces):
            tokens += step
            yield
        found = tuple(self._texts.spans(text, pieces, tokens) or ())
        spans = Spans([each.span for each in found])
        for span in spans.all:
            if not span.of.is_causal and len(span.of.ids) > LARGEST_TOKENS:
                raise InvalidParameter(
                    f"a picture takes {len(span.of.ids)} rows that must be computed together, and at most "
                    f"{LARGEST_TOKENS} are for a vector; make it smaller, or load the model with a smaller "
                    "image_max_tokens",
                    param="input",
                )
        return MediaText(tokens, spans, MediaUse(found))


def with_rows(texts: Sequence[MediaText], go_on: Callable[[], None], refuse: Refuse) -> None:
    """Call `go_on` once all rows of these texts are there, on any thread, or `refuse` with what failed."""
    sources = [span.of.source for text in texts for span in text.spans.all]
    lock, left = threading.Lock(), len(sources)

    def ready() -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            failed = next((source.failure for source in sources if source.failure is not None), None)
            with errors_to(refuse):
                if failed is not None:
                    raise failed
                go_on()

    if not sources:
        go_on()
    for source in sources:
        source.want(ready)
