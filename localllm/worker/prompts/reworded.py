"""Recognizes our own answers in conversations that clients send back reworded: restores the messages before a
conversation is rendered and the tokens after that, wherever the template keeps the answer.

Thread-safe. Only `take` runs on the engine's thread, and it just passes answers on. Knows nothing of templates or of
what is in the KV cache.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from localllm.chat.meaning import digests, has_thought_of, ids_of, is_same_answer, with_ids
from localllm.chat.whole_answers import read_answer, with_thought_apart
from localllm.engine.cache.domain import Domain
from localllm.engine.inbox import StepOutput
from localllm.engine.requests.sequence import Sequence as Generated
from localllm.types import CacheReport, ChatFormat, FinishReason, Function, GenerationRequest, Message, Rendering
from localllm.worker.prompts.answered import MAX_BYTES, AnsweredTurns, Key, Tokens, Turn
from localllm.worker.prompts.cache_miss import reason
from localllm.worker.prompts.positions import Ending, begun_with, ending_of
from localllm.worker.prompts.prompt_parts import Head, Source, Tokenizer
from localllm.worker.prompts.turn_ends import TurnEnds

MOST_TRIES = 3
"""Turns whose end is searched in one text."""


class RestoredConversation(NamedTuple):
    """A conversation with our own answers in their original words, where they are known."""

    domain: Domain
    digests: Sequence[bytes]
    """Digests of the conversation up to each number of messages."""
    parent: Turn | None
    new: tuple[Message, ...]
    """Messages after the parent's answer."""
    rendering: Rendering

    @property
    def messages(self) -> tuple[Message, ...]:
        if self.parent is None:
            return self.new
        return (*self.parent.conversation(), self.parent.answer, *self.new)


@dataclass(slots=True, eq=False)
class PendingConversation:
    """A rendered conversation that is to be answered, once or several times."""

    restored: RestoredConversation
    ending: Ending
    head: Turn | None = None
    taken: Head | None = None
    """The head's tokens, and how much of the text they stand for."""
    is_begun: bool = False
    """Whether its text begins like one that was answered."""
    prompt: Tokens | None = None
    """Tokens after the head's; set once it is answered."""

    def forget_head(self) -> None:
        """The head's tokens are not used."""
        self.head = self.taken = None


class _Running(NamedTuple):
    asked: PendingConversation
    sequence: Generated
    functions: tuple[Function, ...]


class AnswerMemory:
    """For one model."""

    def __init__(self, format: ChatFormat, vocab: Tokenizer, *, max_bytes: int = MAX_BYTES) -> None:
        self._format = format
        self._turn_ends = TurnEnds(format, vocab)
        self._closing = "" if format.thought is None else format.thought.closing.strip()
        self._lock = threading.Lock()
        self._turns = AnsweredTurns(max_bytes)
        self._running: dict[int, _Running] = {}
        self._ended: queue.SimpleQueue[tuple[_Running, FinishReason]] = queue.SimpleQueue()

    def restore(self, source: Source) -> RestoredConversation | None:
        """The conversation in its original words; call before rendering. None if such requests are not remembered."""
        messages = source.messages
        if not messages or not source.cache_prompt or source.rendering.continues(messages):
            return None
        domain = Domain.of(cache_salt=source.cache_salt)
        sent = tuple(with_thought_apart(each, self._format) for each in messages)
        known = digests(sent)
        with self._lock:
            self._take_ended()
            for at in range(len(sent) - 1, 0, -1):
                if sent[at].role == "assistant":
                    turn = _answered(self._turns.answers_to(Key(domain, known[at])), sent[: at + 1])
                    if turn is not None:
                        self._turns.use(turn)
                        behind = _behind(turn, sent[: at + 1], messages[at + 1 :])
                        return RestoredConversation(domain, known, turn, behind, source.rendering)
        return RestoredConversation(domain, known, None, messages, source.rendering)

    def place(self, restored: RestoredConversation, text: str) -> PendingConversation:
        """Called after rendering: adds the tokens that can be reused."""
        asked = PendingConversation(restored, ending_of(text, self._format))
        lineage = [] if restored.parent is None else restored.parent.lineage()
        begun = begun_with(text, (place for turn in lineage for place in (turn.ending.whole, turn.ending.bare)))
        tries = [(turn, place) for turn in reversed(lineage) if (place := turn.ending.place_in(begun)) is not None]
        asked.is_begun = bool(tries)
        for turn, place in tries[:MOST_TRIES]:
            is_whole = place == turn.ending.whole
            start, closing = place.length, self._closing
            in_thought = turn.ending.in_thought if is_whole else text.startswith(closing, start) and bool(closing)
            made, answer = turn.made.tolist(), turn.answer
            end = self._turn_ends.find(text, start, made, answer, turn.functions, in_thought=in_thought)
            if end is not None and (is_whole or not answer.thought):
                asked.head, asked.taken = turn, Head(turn.tokens().tolist(), end)
                break
        return asked

    def explain(self, asked: PendingConversation) -> CacheReport:
        """How many tokens of the conversation could be reused, and why not more."""
        restored = asked.restored
        with self._lock:
            near = self._turns.nearest(restored.domain, restored.digests)
            why = reason(
                near,
                restored.messages,
                restored.rendering,
                parent=restored.parent,
                head=asked.head,
                is_begun=asked.is_begun,
            )
        if asked.taken is None or asked.head is None:
            return CacheReport(0, why)
        # Without the answer itself: the last tokens that a grammar forced were never computed.
        return CacheReport(len(asked.taken.tokens) - len(asked.head.made), why)

    def begun(self, asked: PendingConversation | None, sequence: Generated, request: GenerationRequest) -> None:
        """Call before the engine gets the sequence; `take` learns how it ends."""
        if asked is not None and not sequence.request.ending.ignore_eos:
            calling = request.calling
            reads_calls = calling is not None and calling.choice != "none" and request.structure is None
            functions = calling.functions if calling is not None and reads_calls else ()
            self._running[sequence.id] = _Running(asked, sequence, functions)

    def take(self, output: StepOutput) -> None:
        """Take the answers that ended in a step. Called on the engine's thread, so it only passes them on."""
        for id, delta in output.deltas:
            if delta.finish is not None and (running := self._running.pop(id, None)) is not None:
                self._ended.put((running, delta.finish.reason))
        for id, _ in output.failures:
            self._running.pop(id, None)

    def _take_ended(self) -> None:
        while not self._ended.empty():
            turn = self._turn(*self._ended.get())
            if turn is not None:
                self._turns.add(turn)

    def _turn(self, running: _Running, finish: FinishReason) -> Turn | None:
        """The answered turn; None if a context shift removed tokens of its prompt."""
        asked, sequence, functions = running
        if sequence.progress.num_shifted:
            return None
        made = np.asarray(sequence.progress.tokens[sequence.progress.num_prompt :], np.int32)
        text = None if sequence.progress.text.stopped else self._turn_ends.spelled(made.tolist())
        read = read_answer(text or "", self._format, functions, in_thought=asked.ending.in_thought)
        is_cut = read.ends_in_thought or (finish != "stop" and bool(read.message.tool_calls))
        if asked.prompt is None:
            first = 0 if asked.taken is None else len(asked.taken.tokens)
            asked.prompt = np.asarray(sequence.progress.tokens[first : sequence.progress.num_prompt], np.int32)
        restored, parent = asked.restored, asked.restored.parent
        is_rendered_alike = parent is not None and parent.rendering == restored.rendering
        return Turn(
            key=Key(restored.domain, restored.digests[-1]),
            parent=parent,
            messages=restored.new,
            digests=tuple(restored.digests[-len(restored.new) - (parent is not None) :]),
            rendering=parent.rendering if parent is not None and is_rendered_alike else restored.rendering,
            ending=asked.ending,
            head=asked.head,
            prompt=asked.prompt,
            made=made,
            functions=functions,
            answer=read.message,
            is_whole=bool(text) and not is_cut,
        )


def _answered(turns: Sequence[Turn], sent: Sequence[Message]) -> Turn | None:
    """The last of the turns whose answer a client sends back."""
    for turn in reversed(turns):
        if (
            turn.is_whole
            and is_same_answer(sent[-1], turn.answer)
            and all(map(has_thought_of, sent, turn.conversation()))
        ):
            return turn
    return None


def _behind(turn: Turn, sent: Sequence[Message], rest: Sequence[Message]) -> tuple[Message, ...]:
    """The messages after those of the turn, with the ids that its calls have here."""
    both = zip(turn.answer.tool_calls, sent[-1].tool_calls, strict=True)
    calls = tuple(replace(ours, id=ours.id or theirs.id) for ours, theirs in both)
    if calls != turn.answer.tool_calls:
        turn.answer = replace(turn.answer, tool_calls=calls)
    return with_ids(rest, ids_of(sent, (*turn.conversation(), turn.answer)))
