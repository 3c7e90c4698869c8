"""Where an answer of ours ends in a rendered conversation: as it was generated, or as the template rewrote it.

    rendered text   [prompt that was answered)[the answer as the template writes it)[what follows ...)
                                              start                                 the end: a control token begins

The result is a position at which texts are tokenized separately, so that tokens of both sides can be concatenated.
Linear in the answer. Knows nothing of conversations.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence

from localllm.chat.meaning import is_same_answer
from localllm.chat.whole_answers import read_answer
from localllm.types import ChatFormat, Function, Message
from localllm.worker.prompts.prompt_parts import Tokenizer

MOST_ENDS = 8
"""Turn-ending spellings up to which the text is searched for an answer's own end."""
LOOK_AHEAD = 256
"""Distance in characters within which such a token must follow."""
TIMES_AS_LONG, MORE = 4, 4096
"""Length that a template may give an answer: a multiple, and more, in characters."""
_SPACE = re.compile(r"\s*")


class TurnEnds:
    """For one model."""

    def __init__(self, format: ChatFormat, vocab: Tokenizer) -> None:
        self._format = format
        self._vocab = vocab

    def spelled(self, made: Sequence[int]) -> str | None:
        """Text of the generated tokens; None if a client cannot have received all of it."""
        pieces = []
        for token in made:
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

    def find(
        self,
        text: str,
        start: int,
        made: Sequence[int],
        answer: Message,
        functions: Sequence[Function],
        *,
        in_thought: bool,
    ) -> int | None:
        """Where the turn that begins at `start` ends, if its text is what was `made`, or means the same as `answer`.

        None: the template leaves something out, such as reasoning, or texts are not tokenized separately there.
        """
        end = self._as_made(text, start, made)
        return self._in_other_words(text, start, answer, functions, in_thought=in_thought) if end is None else end

    def _as_made(self, text: str, start: int, made: Sequence[int]) -> int | None:
        """The end of the answer if it stands there as generated, except for white space around it."""
        spelled = self.spelled(made)
        if spelled is None:
            return None
        at = _behind_space(text, start) + len(spelled.strip())
        if not text.startswith(spelled.strip(), at - len(spelled.strip())):
            return None
        end = _behind_space(text, at)
        if self._begins_with_control(text, end):
            return end
        is_apart = not self._vocab.token_bytes(made[-1]) and text.startswith(spelled, start)
        return start + len(spelled) if is_apart else None

    def _in_other_words(
        self, text: str, start: int, answer: Message, functions: Sequence[Function], *, in_thought: bool
    ) -> int | None:
        for end in self._ends(text, start, start + TIMES_AS_LONG * size_of(answer) + MORE):
            read = read_answer(text[start:end], self._format, functions, in_thought=in_thought)
            is_kept = read.message.thought.strip() == answer.thought.strip()
            if is_kept and not read.ends_in_thought and is_same_answer(read.message, answer):
                return end
        return None

    def _ends(self, text: str, start: int, stop: int) -> Iterator[int]:
        """Where turns may end: before tokens that end them."""
        for match in itertools.islice(self._pattern.finditer(text, start, stop), MOST_ENDS):
            if self._begins_with_control(text, match.start()):
                yield match.start()

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Matches the spellings of tokens that end a turn."""
        tokens = self._vocab.end_tokens
        spelled = [self._vocab.piece(token, special=True).decode("utf-8", "replace") for token in tokens]
        texts = filter(None, {*spelled, self._format.turn_end.strip()})
        longest_first = sorted(texts, key=lambda text: (-len(text), text))
        return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def _begins_with_control(self, text: str, at: int) -> bool:
        """Whether a control token begins there, so that what precedes it is tokenized separately."""
        ahead = text[at : at + LOOK_AHEAD]
        steps = self._vocab.tokenize_in_steps(ahead, add_special=False)
        first = next((step[0] for step in steps if step), None)
        if first is None or self._vocab.token_bytes(first):
            return False
        return ahead.startswith(self._vocab.piece(first, special=True).decode("utf-8", "replace"))


def size_of(message: Message) -> int:
    """Characters of all its texts."""
    calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return len(message.content) + len(message.thought) + calls


def _behind_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
