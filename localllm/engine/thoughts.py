"""The thought before a structured answer, told apart from it as both stream. Knows nothing of tokens or grammars."""

from __future__ import annotations

from localllm.structures import BEHIND_A_THOUGHT, Preface


class ThoughtSplitter:
    """One answer, whose shape is the preface's: the parts are the same however its text is cut into pieces."""

    def __init__(self, preface: Preface) -> None:
        self._thought = preface.thought
        self._held = ""
        """What may be a tag, or space at the thought's end."""
        self._is_inside = preface.is_open
        self._has_begun = preface.is_open
        """Whether it is known that there is a thought, or none."""
        self._is_at_start = True
        """Of the thought: nothing but space came."""

    def feed(self, text: str) -> tuple[str, str]:
        """New text of the thought, and of the answer."""
        self._held += text
        if not self._has_begun and not self._begins():
            return "", ""
        if not self._is_inside:
            text, self._held = self._held, ""
            return "", text
        return self._inside()

    def flush(self) -> tuple[str, str]:
        """The rest, at the end of an answer that may have been cut anywhere."""
        rest, self._held = self._held, ""
        if not self._has_begun:
            return "", rest
        return (rest.partition(self._thought.closing)[0].rstrip(), "") if self._is_inside else ("", rest)

    def _begins(self) -> bool:
        opening = self._thought.opening
        if self._held.startswith(opening):
            self._held = self._held[len(opening) :]
            self._has_begun = self._is_inside = True
        elif not opening.startswith(self._held):
            self._has_begun = True
        return self._has_begun

    def _inside(self) -> tuple[str, str]:
        end = self._thought.closing + BEHIND_A_THOUGHT
        at = self._held.find(self._thought.closing)
        if at < 0:
            shown = self._held[: len(self._held) - _begun(self._held, self._thought.closing)]
            return self._thought_text(shown, self._held[len(shown) :]), ""
        if len(self._held) < at + len(end):
            return self._thought_text(self._held[:at], self._held[at:]), ""
        text, answer = self._held[:at], self._held[at + len(end) :]
        shown = self._thought_text(text, "")
        self._is_inside, self._held = False, ""
        return shown, answer

    def _thought_text(self, text: str, held: str) -> str:
        """Without the space at its beginning, and the one at its end as long as that may be the thought's."""
        if self._is_at_start:
            text = text.lstrip()
            self._is_at_start = not text
        shown = text.rstrip()
        self._held = text[len(shown) :] + held
        return shown


def _begun(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the beginning of the tag."""
    sizes = range(min(len(tag) - 1, len(text)), 0, -1)
    return next((size for size in sizes if tag.startswith(text[-size:])), 0)
