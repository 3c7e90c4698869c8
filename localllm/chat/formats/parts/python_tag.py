"""Reads calls written as Python code after `<|python_tag|>`, as Llama 3 and Functionary do besides their own format.

`brave_search.call(query="...")` calls that function. Any other code is a call of the function that runs code, if one is
declared, and extends to the end of the answer. The format's own reader reads the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from localllm.chat.formats.arguments import python_arguments
from localllm.chat.formats.parts.call_reading import read_arguments
from localllm.chat.formats.parts.collected import AnswerParts, Draft
from localllm.chat.formats.parts.protocols import merged
from localllm.chat.formats.reading import NewParts, Reader
from localllm.chat.formats.tape import Markers, Steps, Tape
from localllm.types.conversation import CallDelta, Function
from localllm.types.schemas.value_schemas import ValueSchema

TAG = "<|python_tag|>"
RUN_CODE = ("python", "code_interpreter", "ipython")
"""Names of functions that run code."""
_CALL = ".call("
_WORD_ENDS = Markers([_CALL, "(", " ", "\n", "=", '"', "'"])
_MOST_NAME = 256


class PythonTagReader:
    """Reader for one answer. `inner` reads everything but code."""

    def __init__(self, inner: Reader, functions: Sequence[Function]) -> None:
        self._inner = inner
        self._functions = functions
        self._runner = next((each for each in functions if each.name in RUN_CODE), None)
        self._tape = Tape()
        self._out = AnswerParts()
        self._read = NewParts()
        self._places: dict[int, int] = {}
        """Inner reader's index of a call -> its index among all calls."""
        self._steps: Steps[None] | None = self._all()

    @property
    def is_thinking(self) -> bool:
        return self._inner.is_thinking

    def feed(self, text: str) -> NewParts:
        self._tape.feed(text)
        return self._step()

    def flush(self) -> NewParts:
        self._tape.is_ended = True
        read = merged(self._step(), self._placed(self._inner.flush()))
        return merged(read, self._out.read())

    def _step(self) -> NewParts:
        if self._steps is not None:
            try:
                next(self._steps)
            except StopIteration:
                self._steps = None
        found, self._read = merged(self._read, self._out.read()), NewParts()
        return found._replace(calls=tuple(sorted(found.calls, key=lambda call: call.index)))

    def _give(self, text: str) -> None:
        """Pass text to the inner reader."""
        self._read = merged(self._read, self._placed(self._inner.feed(text)))

    def _placed(self, read: NewParts) -> NewParts:
        """Renumber the calls after earlier ones, and move the notes to the others."""
        calls: list[CallDelta] = []
        for delta in read.calls:
            if delta.index not in self._places:
                self._places[delta.index] = self._out.num_calls
                self._out.num_calls += 1
            calls.append(CallDelta(self._places[delta.index], delta.arguments, delta.name, delta.id))
        for note in read.notes:
            self._out.note(note)
        return read._replace(calls=tuple(calls), notes=())

    def _all(self) -> Steps[None]:
        tape, tags = self._tape, Markers([TAG])
        while True:
            text, marker = yield from tape.until(tags)
            if text:
                self._give(text)
            if marker:
                tape.record()
                tape.take(len(marker))
                yield from tape.space()
                is_read = (yield from tape.char()) != "{" and not self.is_thinking and (yield from self._code())
                if not is_read:
                    self._give(tape.recorded())
            elif not text and tape.is_ended and not tape.size:
                return

    def _code(self) -> Steps[bool]:
        """Read code; returns whether it is a call."""
        tape = self._tape
        draft = Draft(self._functions, self._out)
        name, marker = yield from tape.until(_WORD_ENDS, _MOST_NAME)
        draft.named(name)
        if marker == _CALL and draft.function is not None:
            tape.take(len(marker))
            yield from read_arguments(tape, draft, python_arguments.reader(draft.function))
            if draft.is_made and not draft.is_cut:
                yield from tape.literal([")"])
            draft.close()
            return draft.is_made
        if self._runner is None:
            return False
        tape.back(name)
        draft = Draft([self._runner], self._out)
        draft.named(self._runner.name)
        names = ValueSchema.of(self._runner).names
        key = "code" if "code" in names else "".join(names[:1]) or "code"
        draft.put("{" + json.dumps(key, ensure_ascii=False) + ': "')
        tape.recorded()
        while (yield from tape.char()):
            draft.put(json.dumps(tape.take(tape.size), ensure_ascii=False)[1:-1])
        draft.put('"}')
        return True
