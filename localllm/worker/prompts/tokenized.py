"""What a request asks of the model, and how it becomes tokens: rendered, then tokenized in steps, up to what may fit.

Knows nothing of threads or of sampling.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator
from collections.abc import Sequence as Tokens
from typing import NamedTuple

import msgspec
import numpy as np

from localllm.chat.request import RenderedText, RenderRequest
from localllm.chat.thoughts import switched
from localllm.errors import InvalidParameter, TemplateError, UnsupportedParameter
from localllm.kvdisk.prefix import common_prefix
from localllm.types import (
    GenerationRequest,
    Infill,
    LoadedModel,
    Media,
    Message,
    ModelDefaults,
    PromptCount,
    Rendering,
    ThinkingDefault,
)  # fmt: skip
from localllm.worker.prompts.infill import HERE, LEAST_ANSWER, PROJECT, SNIPPET, Marks, Pieces, infill_tokens
from localllm.worker.prompts.marked_text import NO_PIECES, MarkedText, MediaSpan, MediaTokens
from localllm.worker.prompts.media_uses import MediaUse
from localllm.worker.prompts.prompt_parts import NO_RENDERING, Head, Memo, Source, Tokenizer
from localllm.worker.prompts.reworded import PendingConversation
from localllm.worker.refusals import too_long

ATTENTION_SINKS = 4
ENDING = 256
SPELLED_A_STEP = 1000
MOST_COUNTED = 2
"""Multiple of the context up to which tokens of an overlong prompt are counted, so that the error can give a number."""
NO_DEFAULTS = ModelDefaults()


class Prompt(NamedTuple):
    tokens: list[int]
    pauses: list[int]
    """Where the system message, the turns before the last message, and the last message end, in tokens."""
    keep: int
    """Tokens that stay when the context shifts: the system message, or a few that models depend on."""
    ending: str = ""
    """How the text of a rendered conversation ends, up to `ENDING` characters."""
    notes: tuple[str, ...] = ()
    """How messages were changed for the template."""
    asked: PendingConversation | None = None
    """What was found of the conversation, if answers to it are to be remembered."""
    text: str = ""
    """Text of all tokens, if requested."""
    use: MediaUse | None = None
    """Its pictures and sounds, if any."""
    scored: list[int] | None = None
    """Tokens behind it whose log-probabilities are wanted; None: an answer is."""


class RenderedPrompt(NamedTuple):
    text: str
    beginnings: dict[int, str]
    """Number of messages -> the text of these alone; absent if the template refuses them."""
    notes: tuple[str, ...] = ()
    asked: PendingConversation | None = None
    pieces: MediaTokens = NO_PIECES
    """Of the pictures and sounds in the text."""
    use: MediaUse | None = None
    """Where they will be among the tokens, which `make` writes."""

    @property
    def head(self) -> Head | None:
        """The beginning, which need not be tokenized."""
        return None if self.asked is None else self.asked.taken


def source_of(request: GenerationRequest) -> Source:
    """The source of a request."""
    return Source(
        request.messages,
        request.prompt,
        request.prompt_tokens,
        request.suffix,
        request.cache_prompt,
        request.rendering,
        request.infill,
        request.detail is not None and request.detail.making,
        "" if request.messages is None else request.cache_salt,
        request.prompt_parts,
    )


class PromptRules(NamedTuple):
    """What the prompts of one model's requests have in common."""

    defaults: ModelDefaults = NO_DEFAULTS
    """For requests without values of their own."""
    thinking: ThinkingDefault = "auto"
    context_shift: bool = False
    """Whether the beginning of a full context may be removed."""


class Prompts:
    """Makes the prompts of one model."""

    def __init__(
        self,
        model: LoadedModel,
        vocab: Tokenizer,
        rules: PromptRules,
        marker: str = "",
    ) -> None:
        """`marker`: how marks of pictures and sounds in rendered texts begin; empty: the model reads none."""
        self._model = model
        self._vocab = vocab
        self._defaults = rules.defaults
        self._context_shift = rules.context_shift
        self._thinking = rules.thinking
        self._marker = marker
        self.texts = MarkedText(vocab, marker)

    def render(
        self,
        render: Callable[[RenderRequest], RenderedText],
        messages: tuple[Message, ...],
        rendering: Rendering = NO_RENDERING,
        *,
        cache_prompt: bool,
    ) -> RenderedPrompt:
        """All texts that the prompt is made of. Raises `TemplateError`, `InvalidParameter`."""
        whole = render(self.render_request(messages, rendering))
        beginnings = {}
        for count in {*self._pause_after(messages, cache_prompt), *self._keep_of(messages)}:
            try:
                beginnings[count] = render(self._request(messages[:count], rendering)).text
            except TemplateError:
                continue  # a template may require a certain last message; then there is no such place
        return RenderedPrompt(whole.text, beginnings, whole.notes)

    def render_request(self, messages: tuple[Message, ...], rendering: Rendering = NO_RENDERING) -> RenderRequest:
        """The request to the template child. Raises `InvalidParameter`."""
        continues = rendering.continues(messages)
        if continues and not messages[-1].is_open:
            raise InvalidParameter(
                "continue_final_message needs an assistant's message without calls at the end; append one, or leave "
                "it out",
                param="continue_final_message",
            )
        if continues and rendering.add_generation_prompt:
            raise InvalidParameter(
                "add_generation_prompt and continue_final_message are mutually exclusive; send one of them",
                param="continue_final_message",
            )
        return msgspec.structs.replace(
            self._request(messages, rendering),
            add_generation_prompt=rendering.add_generation_prompt is not False,
            continues=continues,
        )

    def _request(self, messages: tuple[Message, ...], rendering: Rendering) -> RenderRequest:
        """Renders these messages alone."""
        return RenderRequest(
            template=self._template(messages, rendering),
            messages=with_beginning(messages, self._defaults),
            bos_token=self._vocab.bos_text,
            eos_token=self._vocab.eos_text,
            add_generation_prompt=False,
            rendering=switched(rendering, self._model.format, self._thinking),
            marker=self._marker,
            words=self._model.format.calls,
        )

    def _template(self, messages: tuple[Message, ...], rendering: Rendering) -> str:
        """The model's own template for tool calls or documents, if the request has these and the model has one."""
        templates = self._model.info.chat_templates
        if rendering.tools or any(message.tool_calls or message.role == "tool" for message in messages):
            return templates.get("tool_use", templates["default"])
        return templates.get("rag", templates["default"]) if rendering.documents else templates["default"]

    def make(self, source: Source, rendered: RenderedPrompt | None) -> Generator[None, None, Prompt]:
        """The prompt, in steps of some milliseconds. Raises `InvalidParameter`, `ContextLengthExceeded`."""
        param = "prompt" if source.messages is None else "messages"
        spans: list[MediaSpan] = []
        memo: Memo = {}
        if rendered is None:
            tokens, notes = yield from self._tokens(source)
        else:
            notes = rendered.notes
            tokens, spans = yield from self._tokens_of(rendered, param, memo)
        if rendered is not None and rendered.use is not None:
            rendered.use.spans = tuple(spans)
        self.check_length(len(tokens), param, num_rows=sum(len(each.span.of.ids) for each in spans))
        if not tokens:
            raise InvalidParameter("the prompt is empty; give at least one token", param="prompt")
        lengths: dict[int, int] = {}
        if rendered is not None:
            for count, text in rendered.beginnings.items():
                lengths[count] = yield from self._common(tokens, rendered, text, memo)
        messages = source.messages or ()
        pauses = [lengths[count] for count in self._pause_after(messages, source.cache_prompt) if count in lengths]
        keep = max(ATTENTION_SINKS, *(lengths.get(count, 0) for count in (0, *self._keep_of(messages))))
        return Prompt(
            tokens,
            pauses,
            keep,
            "" if rendered is None else rendered.text[-ENDING:],
            notes,
            None if rendered is None else rendered.asked,
            (yield from self._spelled(tokens)) if source.wants_text else "",
            None if rendered is None else rendered.use,
        )

    def joined(self, parts: Tokens[str | Media]) -> RenderedPrompt:
        """A prompt without a template, with marks in place of pictures and sounds."""
        return RenderedPrompt(self.texts.joined(parts), {})

    def count(self, rendered: RenderedPrompt) -> Generator[None, None, PromptCount]:
        """The number of tokens of a rendered conversation, however long it is."""
        tokens = array("i")  # a list takes nine times the memory
        for step in self.texts.steps(rendered.text, add_special=True, pieces=rendered.pieces):
            tokens.extend(step)
            yield
        use = MediaUse(tuple(self.texts.spans(rendered.text, rendered.pieces, tokens) or ()))
        return PromptCount(len(tokens), use.rows("image"), use.rows("audio"))

    def _spelled(self, tokens: Tokens[int]) -> Generator[None, None, str]:
        pieces: list[bytes] = []
        for start in range(0, len(tokens), SPELLED_A_STEP):
            ids = (token for token in tokens[start : start + SPELLED_A_STEP] if token >= 0)
            pieces += [self._vocab.piece(token, special=True) for token in ids]
            yield
        return b"".join(pieces).decode("utf-8", "replace")

    def predicted(self, text: str) -> Generator[None, None, list[int]]:
        """The tokens of the predicted answer, at most as many as the context holds."""
        tokens: list[int] = []
        for step in self._vocab.tokenize_in_steps(text, add_special=False, parse_special=False):
            tokens += step
            if len(tokens) >= self._model.ctx:
                break
            yield
        return tokens[: self._model.ctx]

    def _tokens_of(
        self, rendered: RenderedPrompt, param: str, memo: Memo
    ) -> Generator[None, None, tuple[list[int], list[MediaSpan]]]:
        head, text, pieces = rendered.head, rendered.text, rendered.pieces
        if head is not None:
            behind = yield from self.tokenize(
                text[head.num_characters :], param, num_before=len(head.tokens), memo=memo, pieces=pieces
            )
            tokens = head.tokens + behind
            spans = self.texts.spans(text, pieces, tokens)
            if spans is not None:
                return tokens, spans
            assert rendered.asked is not None
            rendered.asked.forget_head()  # its pictures were encoded otherwise
        tokens = yield from self.tokenize(text, param, memo=memo, pieces=pieces)
        return tokens, self.texts.spans(text, pieces, tokens) or []

    def _tokens(self, source: Source) -> Generator[None, None, tuple[list[int], tuple[str, ...]]]:
        """The tokens, and notes about them."""
        if source.infill is not None:
            return (yield from self._infill(source.infill))
        if source.prompt_tokens is not None:
            self.check_length(len(source.prompt_tokens), "prompt")
            tokens = self._vocab.check_tokens(source.prompt_tokens)
        elif source.prompt is None:
            raise InvalidParameter("give messages or a prompt", param="prompt")
        else:
            tokens = yield from self.tokenize(source.prompt, "prompt", plain=source.suffix is not None)
        if source.suffix is None:
            return tokens, ()
        behind = yield from self.tokenize(source.suffix, "suffix", plain=True)
        return self._vocab.fill_in_middle(tokens, behind), ()

    def _infill(self, infill: Infill) -> Generator[None, None, tuple[list[int], tuple[str, ...]]]:
        """The tokens of a prompt for filling in the middle, and notes. Raises `UnsupportedParameter`."""
        found = self._vocab.infill_marks
        missing = [name for name in ("prefix", "suffix", "middle") if found[name] is None]
        if missing:
            said = " ".join(f"{name} token is missing." for name in missing)
            raise UnsupportedParameter(f"Infill is not supported by this model: {said}", param="input_suffix")
        marks = Marks(**found)  # type: ignore[arg-type]
        texts = [infill.prefix, infill.prompt, infill.suffix, PROJECT, HERE]
        for extra in infill.extras:
            texts += [SNIPPET if marks.file is None else f"{extra.filename}\n", extra.text]
        made: list[list[int]] = []
        for number, text in enumerate(texts):
            tokens: list[int] = []
            for step in self._vocab.tokenize_in_steps(text, add_special=False, parse_special=number == 1):
                tokens += step
                yield
            made.append(tokens)
        prefix, prompt, suffix, project, here = made[:5]
        pieces = Pieces(prefix, prompt, suffix, project, here, [*zip(made[5::2], made[6::2], strict=True)])
        tokens, is_cut = infill_tokens(marks, pieces, most=self._model.ctx - LEAST_ANSWER)
        return tokens, ("input_extra: it and the texts around the gap were cut to fit",) if is_cut else ()

    def tokenize(
        self,
        text: str,
        param: str,
        *,
        plain: bool = False,
        num_before: int = 0,
        memo: Memo | None = None,
        pieces: MediaTokens = NO_PIECES,
    ) -> Generator[None, None, list[int]]:
        """`plain`: no special tokens, neither added nor parsed from the text; none are added behind others, of which
        there are `num_before`."""
        num_rows = self.texts.fewest_rows(text, pieces)
        self.check_length(self.texts.fewest_tokens(text, pieces), param, at_least=True, num_rows=num_rows)
        tokens: list[int] = []
        steps = self.texts.steps(
            text,
            add_special=not (plain or num_before),
            parse_special=not plain,
            memo=memo,
            pieces=pieces,
            num_before=num_before,
        )
        for step in steps:
            tokens += step
            if len(tokens) > MOST_COUNTED * self._model.ctx:
                self.check_length(len(tokens), param, at_least=True, num_rows=num_rows)
            yield
        return tokens

    def _common(
        self, tokens: Tokens[int], rendered: RenderedPrompt, text: str, memo: Memo
    ) -> Generator[None, None, int]:
        """Length of the common prefix, in tokens, of a prompt and another text."""
        at, head = 0, rendered.head
        has_head = head is not None and text.startswith(rendered.text[: head.num_characters])
        if has_head:
            assert head is not None
            at, text = len(head.tokens), text[head.num_characters :]
        steps = self.texts.steps(text, add_special=not has_head, memo=memo, pieces=rendered.pieces, num_before=at)
        for step in steps:
            both = common_prefix(np.asarray(tokens[at : at + len(step)]), np.asarray(step))
            at += both
            if both < len(step):
                return at
            yield
        return at

    def check_length(self, num_tokens: int, param: str, *, at_least: bool = False, num_rows: int = 0) -> None:
        """Raises `ContextLengthExceeded` for a prompt that leaves no room for an answer."""
        if num_tokens < self._model.ctx:
            return
        larger = self._model.ctx < (self._model.info.context_length or self._model.ctx)
        remedy = f"reduce the length of the {param}{', or load the model with a larger --ctx' if larger else ''}"
        if num_rows:
            remedy = f"send fewer or smaller pictures or sounds, which take {num_rows} of these tokens, or {remedy}"
        raise too_long(f"your {param}", num_tokens, self._model.ctx, remedy, param=param, at_least=at_least)

    def _pause_after(self, messages: tuple[Message, ...], cache_prompt: bool) -> set[int]:
        """Numbers of messages after which to make a checkpoint.

        A later request with the same beginning continues there, if the model's memory has a checkpoint. Templates write
        what follows the last message differently once there is an answer.
        """
        if not messages or self._model.memory == "attention" or not cache_prompt:
            return set()
        return {len(messages), len(messages) - 1, int(messages[0].is_system)} - {0}

    def _keep_of(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Attention degrades without the first tokens ("attention sinks", arXiv:2309.17453)."""
        return (1,) if self._context_shift and messages and messages[0].is_system else ()


def with_beginning(messages: tuple[Message, ...], defaults: ModelDefaults) -> tuple[Message, ...]:
    """Adds the model's default system message, unless the chat has one, and the model's messages before the turns."""
    system, turns = (messages[:1], messages[1:]) if messages and messages[0].is_system else ((), messages)
    if not system and defaults.system is not None:
        system = (Message("system", defaults.system),)
    return (*system, *defaults.messages, *turns)
