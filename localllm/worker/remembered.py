"""The answers of a worker's conversations: what a client sends back of one in its own words becomes ours again.

    messages   [...............)[answer)[new messages)      of a turn and of the one that it goes on from (`parent`)
    tokens     [prompt.........)[answer)[rest of prompt)[answer)      `head` is the turn whose tokens stand before

A turn keeps what it adds to the turns before it, so a conversation takes memory once, however many turns it has.
Whoever goes away first is a turn that nobody went on from. Thread-safe; nothing of it runs on the engine's thread but
`take`, which only passes answers on. Knows nothing of templates or of what is in the KV cache.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from localllm.chat.meaning import digests, has_thought_of, ids_of, is_same_answer, with_ids
from localllm.chat.whole_answers import read_answer, with_thought_apart
from localllm.engine.cache.domain import Domain
from localllm.engine.inbox import StepOutput
from localllm.engine.sequence import Sequence as Generated
from localllm.types import ChatFormat, FinishReason, Function, GenerationRequest, Message
from localllm.worker.places import Ending, begun_with, end_of_turn, ending_of, size_of
from localllm.worker.prompts import Head, Source, Tokenizer

MAX_BYTES = 64 * 2**20
"""Of all turns: some millions of tokens, with their text."""
MOST_ANSWERS = 8
"""To the same messages; of more, the last ones are known."""
MOST_TRIES = 3
"""Turns whose end is looked for in one text."""
TURN_BYTES, MESSAGE_BYTES = 1000, 300
"""What they take besides tokens and texts."""

Tokens = npt.NDArray[np.int32]
_Key = tuple[Domain, bytes]


@dataclass(slots=True, eq=False)
class Turn:
    """An answer, and what it was the answer to."""

    key: _Key
    parent: Turn | None
    messages: tuple[Message, ...]
    """Those that were answered, behind the parent's answer."""
    ending: Ending
    head: Turn | None
    prompt: Tokens
    """Behind the tokens of the head's prompt and answer."""
    made: Tokens
    functions: tuple[Function, ...]
    """That could be called."""
    answer: Message
    """What was made. Its calls have the ids that a client gave them first, unless they have some of their own."""

    def lineage(self) -> list[Turn]:
        """The turns that it goes on from, the first one first, and itself."""
        found: list[Turn] = []
        turn: Turn | None = self
        while turn is not None:
            found.append(turn)
            turn = turn.parent
        return found[::-1]

    def conversation(self) -> tuple[Message, ...]:
        """All that was answered, as it was rendered."""
        found: list[Message] = []
        for turn in self.lineage():
            if turn.parent is not None:
                found.append(turn.parent.answer)
            found += turn.messages
        return tuple(found)

    def tokens(self) -> Tokens:
        """Of its prompt and its answer."""
        parts: list[Tokens] = []
        turn: Turn | None = self
        while turn is not None:
            parts += (turn.made, turn.prompt)
            turn = turn.head
        return np.concatenate(parts[::-1])

    @property
    def num_bytes(self) -> int:
        texts = sum(MESSAGE_BYTES + size_of(each) for each in (*self.messages, self.answer))
        return TURN_BYTES + 4 * (len(self.prompt) + len(self.made)) + texts


class Restored(NamedTuple):
    """A conversation with our own answers in our own words, as far as they are known."""

    key: _Key
    parent: Turn | None
    new: tuple[Message, ...]
    """Messages behind the parent's answer."""

    @property
    def messages(self) -> tuple[Message, ...]:
        if self.parent is None:
            return self.new
        return (*self.parent.conversation(), self.parent.answer, *self.new)


@dataclass(slots=True, eq=False)
class Asked:
    """A rendered conversation that is to be answered, once or several times."""

    restored: Restored
    ending: Ending
    head: Turn | None
    taken: Head | None
    """Its tokens, and how much of the text they stand for."""
    prompt: Tokens | None = None


class _Running(NamedTuple):
    asked: Asked
    sequence: Generated
    functions: tuple[Function, ...]


class Remembered:
    """Of one model."""

    def __init__(self, format: ChatFormat, vocab: Tokenizer, *, max_bytes: int = MAX_BYTES) -> None:
        self._format = format
        self._vocab = vocab
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._num_bytes = 0
        self._turns: dict[Turn, int] = {}
        """The one that was used longest ago first, and the bytes of each."""
        self._index: dict[_Key, list[Turn]] = {}
        self._running: dict[int, _Running] = {}
        self._ended: queue.SimpleQueue[tuple[_Running, FinishReason]] = queue.SimpleQueue()
        self._ends: re.Pattern[str] | None = None

    def restore(self, source: Source) -> Restored | None:
        """Before it is rendered. None: of requests like it nothing is remembered."""
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
                    turn = self._answered(self._index.get((domain, known[at]), ()), sent[: at + 1])
                    if turn is not None:
                        self._use(turn)
                        return Restored((domain, known[-1]), turn, self._behind(turn, sent, messages, at))
        return Restored((domain, known[-1]), None, messages)

    def place(self, restored: Restored, text: str) -> Asked:
        """With what can be taken over, now that it is rendered."""
        asked = Asked(restored, ending_of(text, self._format), None, None)
        lineage = [] if restored.parent is None else restored.parent.lineage()
        begun = begun_with(text, (place for turn in lineage for place in (turn.ending.whole, turn.ending.bare)))
        tries = [(turn, place) for turn in reversed(lineage) if (place := turn.ending.place_in(begun)) is not None]
        for turn, place in tries[:MOST_TRIES]:
            is_whole = place == turn.ending.whole
            if not is_whole and turn.answer.thought:
                continue
            end = end_of_turn(
                text,
                place.length,
                turn.answer,
                self._format,
                turn.functions,
                in_thought=is_whole and turn.ending.in_thought,
                ends=self._ends_of_turns(),
                is_end=self._begins_with_control,
            )
            if end is not None:
                asked.head, asked.taken = turn, Head(turn.tokens().tolist(), end)
                break
        return asked

    def begun(self, asked: Asked | None, sequence: Generated, request: GenerationRequest) -> None:
        """The engine gets it; `take` is told how it ends."""
        if asked is not None and not sequence.ignore_eos:
            calling = request.calling
            reads_calls = calling is not None and calling.choice != "none" and request.structure is None
            functions = calling.functions if calling is not None and reads_calls else ()
            self._running[sequence.id] = _Running(asked, sequence, functions)

    def take(self, output: StepOutput) -> None:
        """Answers that ended in a step. Called by the engine's thread, so it only passes them on."""
        for id, delta in output.deltas:
            if delta.finish is not None and (running := self._running.pop(id, None)) is not None:
                self._ended.put((running, delta.finish.reason))
        for id, _ in output.failures:
            self._running.pop(id, None)

    def _take_ended(self) -> None:
        while not self._ended.empty():
            running, reason = self._ended.get()
            turn = self._turn(running, reason)
            if turn is not None:
                self._add(turn)

    def _turn(self, running: _Running, reason: FinishReason) -> Turn | None:
        """None: what was made is not what a client was sent, or not a whole answer."""
        asked, sequence = running.asked, running.sequence
        made = np.asarray(sequence.tokens[sequence.num_prompt :], np.int32)
        if sequence.num_shifted or sequence.text.stopped or not len(made):
            return None
        text = self._text(made)
        if text is None:
            return None
        if asked.prompt is None:
            behind = 0 if asked.taken is None else len(asked.taken.tokens)
            asked.prompt = sequence.prompt[behind:].copy()
        read = read_answer(text, self._format, running.functions, in_thought=asked.ending.in_thought)
        if read.ends_in_thought or (reason != "stop" and read.message.tool_calls):
            return None
        return Turn(
            asked.restored.key, asked.restored.parent, asked.restored.new, asked.ending, asked.head, asked.prompt,
            made, running.functions, read.message,
        )  # fmt: skip

    def _text(self, made: Tokens) -> str | None:
        """What was made, as it is spelled; None where a client cannot have seen all of it."""
        pieces = []
        for token in made.tolist():
            piece = self._vocab.token_bytes(token)
            if not piece:
                piece = self._vocab.piece(token, special=True)
                if not any(piece.decode("utf-8", "replace") in literal for literal in self._format.literals):
                    return None
            pieces.append(piece)
        try:
            return b"".join(pieces).decode()
        except UnicodeDecodeError:
            return None

    def _add(self, turn: Turn) -> None:
        answers = self._index.setdefault(turn.key, [])
        same = next((each for each in answers if np.array_equal(each.made, turn.made)), None)
        if same is not None and same.parent is turn.parent and same.head is turn.head:
            self._use(same)
            return
        answers.append(turn)
        self._turns[turn] = turn.num_bytes
        self._num_bytes += turn.num_bytes
        if len(answers) > MOST_ANSWERS:
            self._drop(answers[0])
        self._use(turn)
        while self._num_bytes > self._max_bytes:
            self._drop(next(iter(self._turns)))

    def _drop(self, turn: Turn) -> None:
        self._num_bytes -= self._turns.pop(turn)
        answers = self._index[turn.key]
        answers.remove(turn)
        if not answers:
            del self._index[turn.key]

    def _use(self, turn: Turn) -> None:
        """It and those that it is made of go away last; its own are the first of these."""
        each: Turn | None = turn
        while each is not None:
            if each in self._turns:
                self._turns[each] = self._turns.pop(each)
            each = each.parent

    def _answered(self, turns: Sequence[Turn], sent: Sequence[Message]) -> Turn | None:
        """The last of the turns whose answer a client sends back."""
        for turn in reversed(turns):
            if is_same_answer(sent[-1], turn.answer):
                before = turn.conversation()
                if all(map(has_thought_of, sent, before)):
                    return turn
        return None

    def _behind(
        self, turn: Turn, sent: tuple[Message, ...], messages: tuple[Message, ...], at: int
    ) -> tuple[Message, ...]:
        """The messages behind the answer, which is number `at`, with the ids that its calls have here."""
        if any(not call.id for call in turn.answer.tool_calls):
            both = zip(turn.answer.tool_calls, sent[at].tool_calls, strict=True)
            calls = tuple(replace(ours, id=ours.id or theirs.id) for ours, theirs in both)
            turn.answer = replace(turn.answer, tool_calls=calls)
        return with_ids(messages[at + 1 :], ids_of(sent[: at + 1], (*turn.conversation(), turn.answer)))

    def _ends_of_turns(self) -> re.Pattern[str]:
        """Finds how tokens are spelled that end a turn."""
        if self._ends is None:
            tokens = self._vocab.end_tokens
            spelled = [self._vocab.piece(token, special=True).decode("utf-8", "replace") for token in tokens]
            texts = filter(None, {*spelled, self._format.turn_end.strip()})
            longest_first = sorted(texts, key=lambda text: (-len(text), text))
            self._ends = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        return self._ends

    def _begins_with_control(self, text: str) -> bool:
        """Whether the text's first token is a control token, so that what stands before it is tokenized apart."""
        steps = self._vocab.tokenize_in_steps(text, add_special=False)
        first = next((step[0] for step in steps if step), None)
        if first is None or self._vocab.token_bytes(first):
            return False
        return text.startswith(self._vocab.piece(first, special=True).decode("utf-8", "replace"))
