"""Which answers use pictures and sounds: as long as one does, their rows are wanted; its usage then counts them.

Knows nothing of how prompts or rows are made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from localllm.engine.inbox import StepOutput
from localllm.types import Delta, Finish
from localllm.worker.prompts.marked_text import MediaSpan


@dataclass(eq=False)
class MediaUse:
    """The media of one prompt."""

    spans: tuple[MediaSpan, ...] = ()
    running: set[int] = field(default_factory=set)
    """The answers to it that the engine has."""

    def rows(self, kind: str) -> int:
        """Rows of this kind of media in the prompt."""
        return sum(len(each.span.of.ids) for each in self.spans if each.kind == kind)

    def counted_in(self, finish: Finish) -> Finish:
        """The end of an answer, with what its media took."""
        sources = [each.span.of.source for each in self.spans]
        encoded = [source for source in sources if source.rows is not None and not source.was_cached]
        return replace(
            finish,
            usage=replace(finish.usage, image_tokens=self.rows("image"), audio_tokens=self.rows("audio")),
            timings=replace(
                finish.timings,
                encode_s=sum(source.encode_s for source in encoded),
                cached_encodes=len(sources) - len(encoded),
            ),
        )


class MediaUses:
    """Those of one model."""

    def __init__(self) -> None:
        self._uses: dict[int, MediaUse] = {}

    def begin(self, id: int, use: MediaUse) -> None:
        """The engine gets this answer."""
        self._uses[id] = use
        use.running.add(id)

    def take(self, output: StepOutput) -> StepOutput:
        """A step's output with the media counted in usage. Called on the engine's thread."""
        if not self._uses:
            return output
        deltas = [(id, delta if delta.finish is None else self._ended(id, delta)) for id, delta in output.deltas]
        for id, _ in output.failures:
            self._end(id)
        return output._replace(deltas=deltas)

    def _ended(self, id: int, delta: Delta) -> Delta:
        use = self._end(id)
        return delta if use is None or delta.finish is None else replace(delta, finish=use.counted_in(delta.finish))

    def _end(self, id: int) -> MediaUse | None:
        use = self._uses.pop(id, None)
        if use is not None:
            use.running.discard(id)
        return use
