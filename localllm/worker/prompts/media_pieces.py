"""Gets the pieces of pictures and sounds from the reader, and from the parent the bytes that the reader lacks.

Knows nothing of templates or of how pieces are made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from localllm.chat.media_marks import MediaMark
from localllm.chat.unreadable import first_refused, readable
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.types import LoadedModel, Media, MediaKind, Message, SoundCuts
from localllm.types.states import EngineStatus
from localllm.worker.messages import Call, File, NeedFiles, Reply, Up
from localllm.worker.prompts.media_uses import MediaUse
from localllm.worker.prompts.prompt_parts import MediaPieces, MediaReader, MissingFiles, OmittedMedia
from localllm.worker.prompts.tokenized import RenderedPrompt
from localllm.worker.prompts.uncancelled import UncancelledRequests
from localllm.worker.refusals import errors_to

Read = Callable[[Mapping[str, bytes], Callable[[Any], None]], None]
"""Begins to read with these files, and calls back with the result, an error or `MissingFiles`."""


class _Wanted:
    """The media of one prompt, or a sound to be cut."""

    def __init__(self, ids: Callable[[], Sequence[int]], read: Read, done: Callable[[Any], None]) -> None:
        self.ids = ids
        self.read = read
        self.done = done
        self.files: dict[str, bytes] = {}
        self.missing: set[str] = set()
        self.asked_for = 0
        """The request or call in whose name the parent was asked."""


class MediaGathering:
    """`put` and `cancelled` come from the reader thread, `complete` from any."""

    def __init__(self, reader: MediaReader | None, send: Callable[[Up], None]) -> None:
        """`reader`: None if the model reads none."""
        self._reader = reader
        self._send = send
        self._lock = threading.Lock()
        self._waiting: list[_Wanted] = []

    @property
    def kinds(self) -> frozenset[MediaKind]:
        """What the model reads."""
        return frozenset() if self._reader is None else self._reader.kinds

    def with_status(self, status: EngineStatus) -> EngineStatus:
        """The engine's report, with that of the reader."""
        return status if self._reader is None else replace(status, media=self._reader.status())

    def complete(
        self,
        rendered: RenderedPrompt,
        messages: Sequence[Message],
        ids: Callable[[], Sequence[int]],
        go_on: Callable[[RenderedPrompt], None],
        refuse: Callable[[LocalLLMError], None],
    ) -> None:
        """Call `go_on` with the pieces of the messages' media added, here or on a thread of their reader, or `refuse`.

        `ids`: the requests or calls that wait for them and were not cancelled.
        """
        media = _marked(messages)
        if not media or self._reader is None:
            go_on(rendered)
            return

        reader = self._reader

        def done(result: Sequence[MediaPieces | OmittedMedia] | LocalLLMError) -> None:
            with errors_to(refuse):
                if isinstance(result, LocalLLMError):
                    raise result
                marks = (MediaMark(medium.kind, medium.content, medium.detail) for medium in media)
                pieces = [(each.tokens,) if isinstance(each, OmittedMedia) else each for each in result]
                notes = tuple(each.note for each in result if isinstance(each, OmittedMedia))
                whole = dict(zip(marks, pieces, strict=True))
                go_on(rendered._replace(use=use, pieces=whole, notes=rendered.notes + notes))

        use = MediaUse()
        self._read(
            _Wanted(ids, lambda files, then: reader.add(media, files, then, lambda: bool(use.running or ids())), done)
        )

    def answer_cut(self, message: Call, model: LoadedModel, wanted: UncancelledRequests) -> None:
        """Answer where a sound is to be cut. Raises `InvalidParameter`, `UnsupportedParameter`."""
        try:
            (sound,) = msgspec.convert(message.args, tuple[Media])
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"file: {error}", param="file") from error
        readable([Message("user", "", parts=(sound,))], self.kinds, model.id, model.no_media)
        reader, is_wanted = self._reader, partial(wanted.__contains__, message.id)
        assert reader is not None

        def done(result: SoundCuts | LocalLLMError) -> None:
            error = result.info() if isinstance(result, LocalLLMError) else None
            wanted.answer(Reply(message.id, result if error is None else None, error))

        self._read(
            _Wanted(
                lambda: [message.id] if is_wanted() else [],
                lambda files, then: reader.cut(sound, files, then, is_wanted),
                done,
            )
        )

    def put(self, file: File) -> None:
        """Bytes from the parent."""
        with self._lock:
            for wanted in self._waiting:
                if file.digest in wanted.missing:
                    wanted.missing.discard(file.digest)
                    wanted.files[file.digest] = file.data
            whole = [wanted for wanted in self._waiting if not wanted.missing]
            self._waiting = [wanted for wanted in self._waiting if wanted.missing and wanted.ids()]
        for wanted in whole:
            self._read(wanted)

    def cancelled(self, id: int) -> None:
        """The parent has no bytes for this request any more; ask it in the name of another that waits for the same."""
        with self._lock:
            self._waiting = [wanted for wanted in self._waiting if wanted.ids()]
            alone = [wanted for wanted in self._waiting if wanted.asked_for == id]
        for wanted in alone:
            self._ask(wanted)

    def _read(self, wanted: _Wanted) -> None:
        wanted.read(wanted.files, partial(self._take, wanted))

    def _take(self, wanted: _Wanted, result: Any) -> None:
        if not isinstance(result, MissingFiles):
            wanted.done(result)
            return
        with self._lock:
            wanted.missing = set(result.digests)
            self._waiting.append(wanted)
        self._ask(wanted)

    def _ask(self, wanted: _Wanted) -> None:
        with self._lock:  # a cancel comes before, or finds whom this asks for
            ids = wanted.ids()
            wanted.asked_for = ids[0] if ids else 0
            digests = tuple(sorted(wanted.missing))
        if ids:
            self._send(NeedFiles(ids[0], digests))


def _marked(messages: Sequence[Message]) -> list[Media]:
    """Their media; which are of the past is marked."""
    first = first_refused([message.role for message in messages])
    return [
        replace(medium, is_past=True) if index < first or message.role == "tool" else medium
        for index, message in enumerate(messages)
        for medium in message.media
    ]
