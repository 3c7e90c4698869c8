"""Texts behind a prompt whose log-probabilities are wanted, as tokens that the model would write there.

Knows nothing of how they are computed.
"""

from __future__ import annotations

from collections.abc import Generator

from localllm.errors import InvalidParameter
from localllm.types import ChatFormat, GenerationRequest
from localllm.worker.prompts.answer_shapes import before_text
from localllm.worker.prompts.marked_text import NO_PIECES
from localllm.worker.prompts.prompt_parts import Memo, Source
from localllm.worker.prompts.tokenized import Prompt, Prompts, RenderedPrompt


class ScoredTexts:
    """Those behind one prompt."""

    def __init__(self, prompts: Prompts, format: ChatFormat, source: Source, rendered: RenderedPrompt | None) -> None:
        self._prompts = prompts
        self._format = format
        self._source = source
        self._rendered = rendered
        self._memo: Memo = {}

    def behind(self, prompt: Prompt, request: GenerationRequest) -> Generator[None, None, Prompt]:
        """The prompt with what stands before a text in an answer, and the tokens of the request's text. Where the text
        would change the tokens before it, it has those that it has alone.

        Raises `InvalidParameter`, `ContextLengthExceeded`.
        """
        text, between = request.scored or "", before_text(request, self._format, prompt.ending)
        source, rendered, prompts = self._source, self._rendered, self._prompts
        param = "prompt" if source.messages is None else "messages"
        head = None if rendered is None else rendered.head
        before = source.prompt if rendered is None else rendered.text[0 if head is None else head.num_characters :]
        opening = prompt.tokens
        if between:
            opening = [*opening, *(yield from prompts.tokenize(between, param, num_before=len(opening)))]
        scored: list[int] = []
        if before is not None and source.suffix is None:
            known = [] if head is None else head.tokens
            pieces = NO_PIECES if rendered is None else rendered.pieces
            behind = yield from prompts.tokenize(
                before + between + text, param, num_before=len(known), memo=self._memo, pieces=pieces
            )
            whole = known + behind
            scored = whole[len(opening) :] if whole[: len(opening)] == opening else []
        if not scored:
            scored = yield from prompts.tokenize(text, param, num_before=len(opening))
        if not scored:
            raise InvalidParameter("a text to be scored has no tokens; leave it out", param="texts")
        prompts.check_length(len(opening) + len(scored), param)
        return prompt._replace(tokens=opening, scored=scored, asked=None)
