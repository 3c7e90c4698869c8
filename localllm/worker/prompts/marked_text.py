"""Tokenizes rendered conversations in which marks stand for pictures and sounds, see `chat.media_marks`.

    text      [text)[mark)[text)          a mark becomes what the reader of media made of its picture: tokens before
    tokens    [ids)[<b> rows <e>)[ids)    and behind rows, and a negative id for each row

Knows nothing of where pieces come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Tokens
from typing import NamedTuple

from localllm.chat.media_marks import Marks, MediaMark, QuotedText
from localllm.engine.media import MediaRows, Span
from localllm.types import Media, MediaKind
from localllm.worker.prompts.prompt_parts import MediaPieces, Memo, Tokenizer

MediaTokens = Mapping[MediaMark, MediaPieces]
NO_PIECES: MediaTokens = {}


class MediaSpan(NamedTuple):
    """A span, and what it shows."""

    span: Span
    kind: MediaKind


class MarkedText:
    """The texts of one model."""

    def __init__(self, vocab: Tokenizer, marker: str) -> None:
        """`marker`: how marks begin; empty: there are none."""
        self._vocab = vocab
        self._marks = Marks(marker) if marker else None

    def shown(self, text: str, marker: str = "") -> str:
        """The text for people; `marker`: what stands for each picture and sound."""
        return text if self._marks is None else self._marks.shown(text, marker)

    def joined(self, parts: Tokens[str | Media]) -> str:
        """A text with marks in place of pictures and sounds; the model must read these."""
        assert self._marks is not None or not any(isinstance(part, Media) for part in parts)
        return "".join(
            self._marks.mark(part) if self._marks and isinstance(part, Media) else str(part) for part in parts
        )

    def fewest_tokens(self, text: str, pieces: MediaTokens = NO_PIECES) -> int:
        """The fewest tokens that the text can become."""
        if self._marks is None:
            return self._vocab.fewest_tokens(text)
        plain = "".join(part for part in self._marks.split(text) if isinstance(part, str))
        return self.fewest_rows(text, pieces) + self._vocab.fewest_tokens(plain)

    def fewest_rows(self, text: str, pieces: MediaTokens) -> int:
        """Rows of the pictures and sounds in it, wherever they stand."""
        marks = (part for part in (self._marks.split(text) if self._marks else ()) if isinstance(part, MediaMark))
        rows = (piece for mark in marks for piece in pieces[mark] if isinstance(piece, MediaRows))
        return sum(len(piece.ids) - piece.num_leading for piece in rows)

    def steps(
        self,
        text: str,
        *,
        add_special: bool,
        parse_special: bool = True,
        memo: Memo | None = None,
        pieces: MediaTokens = NO_PIECES,
        num_before: int = 0,
    ) -> Iterator[list[int]]:
        """Its tokens, in steps of some milliseconds. `num_before`: tokens that stand before it."""
        index = num_before
        for step in self._steps(text, add_special=add_special, parse_special=parse_special, memo=memo):
            ids = ids_at(pieces[step], index) if isinstance(step, MediaMark) else step
            index += len(ids)
            yield ids

    def _steps(
        self, text: str, *, add_special: bool, parse_special: bool, memo: Memo | None
    ) -> Iterator[list[int] | MediaMark]:
        if self._marks is None:
            yield from self._vocab.tokenize_in_steps(
                text, add_special=add_special, parse_special=parse_special, memo=memo
            )
            return
        is_begun = not add_special
        for part in self._marks.split(text):
            if not isinstance(part, str) and not is_begun:
                yield from self._vocab.tokenize_in_steps("")
            if isinstance(part, MediaMark):
                yield part
            elif isinstance(part, QuotedText):
                yield from self._vocab.tokenize_in_steps(part.text, add_special=False, parse_special=False, memo=memo)
            else:
                yield from self._vocab.tokenize_in_steps(
                    part, add_special=not is_begun, parse_special=parse_special, memo=memo
                )
            is_begun = True
        if not is_begun:
            yield from self._vocab.tokenize_in_steps("")

    def spans(self, text: str, pieces: MediaTokens, tokens: Tokens[int]) -> list[MediaSpan] | None:
        """Where the rows of the text's media are among its tokens; None if these are not its tokens."""
        found: list[MediaSpan] = []
        end, num_numbered = 0, 0
        for part in () if self._marks is None else self._marks.split(text):
            if not isinstance(part, MediaMark):
                continue
            for piece in (piece for piece in pieces[part] if isinstance(piece, MediaRows)):
                start = next((index for index in range(end, len(tokens)) if tokens[index] < 0), len(tokens))
                rows = piece.placed(start, num_numbered)
                end = start + len(rows.ids)
                if tuple(tokens[start:end]) != rows.ids:
                    return None
                num_numbered += rows.is_numbered
                found.append(MediaSpan(Span(start, rows), "audio" if part.kind == "audio" else "image"))
        return found


def ids_at(pieces: MediaPieces, index: int) -> list[int]:
    """The ids that stand in a prompt for these pieces, from that index on."""
    ids: list[int] = []
    for piece in pieces:
        ids += piece.ids_at(index + len(ids)) if isinstance(piece, MediaRows) else piece
    return ids
