"""Answered turns of conversations, each stored as what it adds to the turns before it, in bounded memory.

    messages   [...............)[answer)[new messages)      of a turn and of its `parent`, the turn it continues
    tokens     [prompt.........)[answer)[rest of prompt)[answer)      `head` is the turn whose tokens come first

The least recently used turns are dropped first, and always after those that continue them. One thread at a time. Knows
nothing of templates or of what is in the KV cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.engine.cache.domain import Domain
from localllm.types import Function, Message, Rendering
from localllm.worker.prompts.positions import Ending
from localllm.worker.prompts.turn_ends import size_of

MAX_BYTES = 64 * 2**20
"""For all turns: some millions of tokens, with their text."""
MOST_ANSWERS = 8
"""Answers kept for the same messages; the latest ones."""
TURN_BYTES, MESSAGE_BYTES = 1000, 500
"""Size of a turn and of a message besides tokens and texts."""

Tokens = npt.NDArray[np.int32]


class Key(NamedTuple):
    """Messages by their meaning, within a domain: domains do not share answers."""

    domain: Domain
    digest: bytes


@dataclass(slots=True, eq=False)
class Turn:
    """An answer, and what it answered."""

    key: Key
    """Key of everything that was answered."""
    parent: Turn | None
    messages: tuple[Message, ...]
    """The answered messages after the parent's answer."""
    digests: tuple[bytes, ...]
    """Digests of the conversation up to the parent's answer, and up to each of the messages."""
    rendering: Rendering
    ending: Ending
    head: Turn | None
    prompt: Tokens
    """Tokens after those of the head's prompt and answer."""
    made: Tokens
    functions: tuple[Function, ...]
    """Functions that could be called."""
    answer: Message
    """What was generated. Its calls have the ids that a client first received, unless they have ids of their own."""
    is_whole: bool = True
    """False: no turn continues it, because clients received something else or it was cut within reasoning or a call."""

    def lineage(self) -> list[Turn]:
        """The turns that lead to it, first one first, and itself."""
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
        """Tokens of its prompt and its answer."""
        parts: list[Tokens] = []
        turn: Turn | None = self
        while turn is not None:
            parts += (turn.made, turn.prompt)
            turn = turn.head
        return np.concatenate(parts[::-1])

    @property
    def num_bytes(self) -> int:
        texts = sum(MESSAGE_BYTES + size_of(each) for each in (*self.messages, self.answer))
        given = 0 if self.parent is not None and self.parent.rendering is self.rendering else len(self.rendering.tools)
        return TURN_BYTES + 4 * (len(self.prompt) + len(self.made)) + texts + given


class AnsweredTurns:
    """All turns that are remembered."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._turns: dict[Turn, int] = {}
        """Bytes of each turn; least recently used first."""
        self._answers: dict[Key, list[Turn]] = {}
        self._passing: dict[Key, Turn] = {}
        """The latest turn that was the first of its conversation with these messages."""

    def __len__(self) -> int:
        return len(self._turns)

    def answers_to(self, key: Key) -> Sequence[Turn]:
        """The turns that answered these messages, latest last."""
        return self._answers.get(key, ())

    def add(self, turn: Turn) -> None:
        """Remember a turn that ended."""
        answers = self._answers.setdefault(turn.key, [])
        same = next((each for each in answers if _is_same(each, turn)), None)
        if same is not None:
            self.use(same)
            return
        answers.append(turn)
        self._passing.update((Key(turn.key.domain, digest), turn) for digest in turn.digests)
        self._turns[turn] = turn.num_bytes
        self.num_bytes += self._turns[turn]
        if len(answers) > MOST_ANSWERS:
            self._drop(answers[0])
        self.use(turn)
        while self.num_bytes > self._max_bytes:
            self._drop(next(iter(self._turns)))

    def use(self, turn: Turn) -> None:
        """Mark it as most recently used, and after it the turns that lead to it."""
        for each in reversed(turn.lineage()):
            if each in self._turns:
                self._turns[each] = self._turns.pop(each)

    def nearest(self, domain: Domain, digests: Sequence[bytes]) -> Turn | None:
        """The turn with the longest common prefix of messages, else the most recently used one."""
        for digest in reversed(digests[1:]):
            if (turn := self._passing.get(Key(domain, digest))) is not None:
                return turn
        return next((turn for turn in reversed(self._turns) if turn.key.domain == domain), None)

    def _drop(self, turn: Turn) -> None:
        self.num_bytes -= self._turns.pop(turn)
        answers = self._answers[turn.key]
        answers.remove(turn)
        if not answers:
            del self._answers[turn.key]
        for digest in turn.digests:
            key = Key(turn.key.domain, digest)
            if self._passing.get(key) is turn:
                del self._passing[key]


def _is_same(one: Turn, other: Turn) -> bool:
    return one.parent is other.parent and one.head is other.head and np.array_equal(one.made, other.made)
