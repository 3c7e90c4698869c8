"""A long paste stands in the line as one word, `[pasted 1: 240 lines]`, and is sent whole. Knows no terminal."""

from __future__ import annotations

MAX_LINES, MAX_CHARS = 8, 2000
"""A paste with more of either is folded."""


class Folds:
    """The pastes of one chat, by the words that stand for them."""

    def __init__(self) -> None:
        self._pasted: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """What stands in the line: the text, or a word for it."""
        lines = text.count("\n") + 1
        if lines <= MAX_LINES and len(text) <= MAX_CHARS:
            return text
        what = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        word = f"[pasted {len(self._pasted) + 1}: {what}]"
        self._pasted[word] = text
        return word

    def unfolded(self, line: str) -> str:
        """The line with what was pasted; what was pasted is not looked through."""
        words = sorted((word for word in self._pasted if word in line), key=line.index)
        for word in reversed(words):
            at = line.index(word)
            line = line[:at] + self._pasted[word] + line[at + len(word) :]
        return line

    def length_at_end(self, text: str) -> int:
        """The length of the word with which the text ends; 0 if it ends otherwise."""
        return next((len(word) for word in self._pasted if text.endswith(word)), 0)
