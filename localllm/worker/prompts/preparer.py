"""Turns a submitted request into a sequence of tokens for the engine, or rejects it with the reason.

Has threads of its own: neither templates nor tokenizing may stall a step or delay a cancel. Requests with the same
prompt (`n` answers) share the work; work whose requests are all gone is dropped. Also answers short calls (tokenize,
render ...). Knows nothing of batches or KV.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from localllm.chat.media_marks import new_marker
from localllm.chat.template_note import template_note
from localllm.chat.unreadable import readable
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.engine.embedding.encoder import EncoderEngine
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.speculation.guesser import Experience, Guesser
from localllm.errors import InvalidParameter, LocalLLMError, NoChatTemplate, UnsupportedParameter
from localllm.types import (
    Delta,
    Finish,
    GenerationRequest,
    LoadedModel,
    Making,
    Message,
    Rendering,
    Timings,
    Usage,
)  # fmt: skip
from localllm.worker.drafts.available import check_sources, notes_on
from localllm.worker.grammars.constraints import Grammars
from localllm.worker.messages import Accepted, Call, Deltas, File, Rejected, Reply, Submit, Up
from localllm.worker.prompts import adapted
from localllm.worker.prompts.answer_shapes import NO_SHAPE, AnswerShape, control_tokens, shape_of
from localllm.worker.prompts.calls import answer_call
from localllm.worker.prompts.fair_turns import Turns
from localllm.worker.prompts.media_pieces import MediaGathering
from localllm.worker.prompts.media_uses import MediaUses
from localllm.worker.prompts.prompt_parts import MediaReader, Source, Tokenizer
from localllm.worker.prompts.rendering import Render, Renderer
from localllm.worker.prompts.reworded import AnswerMemory
from localllm.worker.prompts.scored_texts import ScoredTexts
from localllm.worker.prompts.sequences import Sequences
from localllm.worker.prompts.tokenized import Prompt, PromptRules, Prompts, RenderedPrompt, source_of
from localllm.worker.prompts.uncancelled import UncancelledRequests
from localllm.worker.refusals import errors_to

NO_RULES = PromptRules()


class _Taker(NamedTuple):
    message: Submit
    arrived_s: float


class _Draft:
    """A prompt in preparation, and the requests that wait for it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.messages = source.messages
        """As the model can read them."""
        self.notes: tuple[str, ...] = ()
        """What it cannot read of them."""
        self.ids: list[int] = []
        """All requests that waited for it."""
        self.takers: list[_Taker] = []


class Preparer:
    """`submit`, `cancel` and `call` come from the reader thread; the work is done on the preparer's own threads."""

    def __init__(
        self,
        model: LoadedModel,
        vocab: Tokenizer,
        renderer: Renderer | None,
        engine: Engine | EncoderEngine,
        send: Callable[[Up], None],
        rules: PromptRules = NO_RULES,
        *,
        grammars: Grammars | None = None,
        experience: Experience | None = None,
        media: MediaReader | None = None,
    ) -> None:
        """`grammars`: for structured answers; `experience`: for guesses, None if none are made; `media`: for pictures
        and sounds, None if the model reads none."""
        self._model = model
        self._vocab = vocab
        self._renderer = renderer
        self._engine = engine
        self._grammars = grammars
        self._experience = experience
        self._send = send
        markers = frozenset[int]() if renderer is None else control_tokens(model.format.literals, vocab)
        self._sequences = Sequences(model, vocab, rules.defaults, markers)
        self._prompts = Prompts(model, vocab, rules, "" if media is None else new_marker())
        self._media = MediaGathering(media, send)
        self._uses = MediaUses()
        self.remembered = AnswerMemory(model.format, vocab)
        self._lock = threading.Lock()
        self._wanted = UncancelledRequests(send)
        """Requests and calls."""
        self._drafts: dict[Source, _Draft] = {}
        self._turns = Turns("preparer")

    def drop_drafts(self, model: LoadedModel) -> None:
        """Its draft failed: notes on later requests are about this description of the model. From any thread."""
        self._model = model

    def submit(self, message: Submit) -> None:
        source = source_of(message.request)
        self._wanted.add(message.id)
        with self._lock:
            draft = self._drafts.get(source)
            if draft is not None:
                others = tuple(draft.ids)
                draft.ids.append(message.id)
                if not any(id in self._wanted for id in others):
                    draft = None  # all others were cancelled, so its work may have been dropped already
            if is_new := draft is None:
                draft = self._drafts[source] = _Draft(source)
                draft.ids.append(message.id)
            draft.takers.append(_Taker(message, self._engine.clock()))
        if is_new:
            self._begin(draft)

    def cancel(self, id: int) -> None:
        """Cancel a request, whether it is still here or with the engine."""
        if not self._wanted.take(id):
            self._engine.cancel(id)
            return
        self._media.cancelled(id)
        finish = Finish("cancelled", Usage(prompt_tokens=0, completion_tokens=0), Timings(0.0, 0.0, 0.0))
        self._send(Deltas(-1, ((id, Delta(finish=finish)),)))

    def call(self, message: Call) -> None:
        if message.method == "status":  # known only between two steps, on the engine's thread
            self._engine.inspect(lambda status: self._send(Reply(message.id, self._media.with_status(status))))
            return
        self._wanted.add(message.id)
        if message.method == "cut":
            with errors_to(partial(self._fail, message.id)):
                self._media.answer_cut(message, self._model, self._wanted)
            return
        if message.method in ("render", "count") and self._renderer is not None:
            with errors_to(partial(self._fail, message.id)):  # this is the reader thread, which serves all requests
                self._begin_call(message, self._renderer)
            return
        self._turns.add(self._answer(message), lambda: message.id in self._wanted)

    def take(self, output: StepOutput) -> StepOutput:
        """What the engine computed, with pictures and sounds counted in usage. Called on the engine's thread, before
        clients see it: one that sees the end of an answer may continue immediately."""
        self.remembered.take(output)
        return self._uses.take(output)

    def put(self, file: File) -> None:
        """The bytes of a picture or sound that were asked for."""
        self._media.put(file)

    def _begin_call(self, message: Call, renderer: Renderer) -> None:
        try:
            messages, rendering = msgspec.convert(message.args[:2], tuple[tuple[Message, ...], Rendering])
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"messages: {error}", param="messages") from error
        read, _ = readable(messages, self._media.kinds, self._model.id, self._model.no_media)
        renderer.add(
            read,
            lambda render: self._rendered(message, render, read, rendering, *message.args[2:]),
            lambda: message.id in self._wanted,
            rendering,
        )

    def _begin(self, draft: _Draft) -> None:
        if draft.source.prompt_parts is not None and self._model.info.causal:
            with errors_to(partial(self._refuse, draft)):
                asked = Message("user", "", parts=draft.source.prompt_parts)
                readable([asked], self._media.kinds, self._model.id, self._model.no_media)
                self._complete(draft, self._prompts.joined(asked.parts), [asked])
            return
        messages = draft.source.messages
        if messages is None or self._renderer is None or not self._model.info.causal:
            self._turns.add(self._prepare(draft, None), lambda: self._has_takers(draft))
            return
        with errors_to(partial(self._refuse, draft)):
            draft.messages, draft.notes = readable(messages, self._media.kinds, self._model.id, self._model.no_media)
            self._renderer.add(
                draft.messages,
                lambda render: self._render(draft, render),
                lambda: self._has_takers(draft),
                draft.source.rendering,
            )

    def _render(self, draft: _Draft, render: Render) -> None:
        """On a renderer's thread."""
        source = draft.source._replace(messages=draft.messages)
        assert source.messages is not None
        with errors_to(partial(self._refuse, draft)):
            restored = self.remembered.restore(source)
            messages = source.messages if restored is None else restored.messages
            rendered = self._prompts.render(render, messages, source.rendering, cache_prompt=source.cache_prompt)
            if restored is not None:
                rendered = rendered._replace(asked=self.remembered.place(restored, rendered.text))
            rendered = rendered._replace(notes=draft.notes + rendered.notes)
            self._complete(draft, rendered, messages)

    def _complete(self, draft: _Draft, rendered: RenderedPrompt, messages: Sequence[Message]) -> None:
        """Add the pieces of its media, and go on."""
        self._media.complete(
            rendered,
            messages,
            lambda: [id for id in draft.ids if id in self._wanted],
            lambda whole: self._turns.add(self._prepare(draft, whole), lambda: self._has_takers(draft)),
            partial(self._refuse, draft),
        )

    def _prepare(self, draft: _Draft, rendered: RenderedPrompt | None) -> Iterator[None]:
        with errors_to(partial(self._refuse, draft)):
            self._check_kind(draft.source)
            prompt = yield from self._prompts.make(draft.source, rendered)
            predicted: dict[str, list[int]] = {}
            texts = ScoredTexts(self._prompts, self._model.format, draft.source, rendered)
            while (taker := self._next_taker(draft)) is not None:
                with errors_to(partial(self._reject, taker)):
                    request = taker.message.request
                    if request.scored is not None:
                        self._submit(taker, (yield from texts.behind(prompt, request)), NO_SHAPE, None, None)
                    else:
                        self._hand_over(taker, prompt, (yield from self._guesser(request, predicted)))
                self._served(draft, taker)
                yield

    def _check_kind(self, source: Source) -> None:
        if not self._model.info.causal:
            raise InvalidParameter(f"{self._model.id} is an embedding model; it cannot generate text", param="model")
        if source.messages is not None and self._renderer is None:
            raise self._no_template()

    def _refuse(self, draft: _Draft, error: LocalLLMError) -> None:
        while (taker := self._next_taker(draft)) is not None:
            self._reject(taker, error)
            self._served(draft, taker)

    def _reject(self, taker: _Taker, error: LocalLLMError) -> None:
        self._wanted.answer(Rejected(taker.message.id, error.info()))

    def _next_taker(self, draft: _Draft) -> _Taker | None:
        """It remains a taker until it is served, so that the work for it is not dropped. Forgets the draft if there is
        none."""
        with self._lock:
            if draft.takers:
                return draft.takers[0]
            self._forget(draft)
            return None

    def _served(self, draft: _Draft, taker: _Taker) -> None:
        with self._lock:
            draft.takers = [other for other in draft.takers if other is not taker]

    def _has_takers(self, draft: _Draft) -> bool:
        """Forgets the draft if it has none."""
        with self._lock:
            draft.takers = [taker for taker in draft.takers if taker.message.id in self._wanted]
            if not draft.takers:
                self._forget(draft)
            return bool(draft.takers)

    def _forget(self, draft: _Draft) -> None:
        if self._drafts.get(draft.source) is draft:
            del self._drafts[draft.source]

    def _guesser(
        self, request: GenerationRequest, predicted: dict[str, list[int]]
    ) -> Generator[None, None, Guesser | None]:
        """`predicted`: the tokens of the last taker's prediction; `n` answers have the same."""
        wanted, prediction = request.speculative, request.prediction
        if self._experience is None or wanted.is_off:
            return None
        tokens: list[int] = []
        if prediction and wanted.takes("prediction"):
            if prediction not in predicted:
                predicted.clear()
                predicted[prediction] = yield from self._prompts.predicted(prediction)
            tokens = predicted[prediction]
        return Guesser(wanted, self._experience, prediction=tokens)

    def _hand_over(self, taker: _Taker, prompt: Prompt, guesser: Guesser | None) -> None:
        with errors_to(partial(self._reject, taker)):
            request = taker.message.request
            shape = shape_of(request, self._model.format, prompt.ending)
            if shape.structure is None:
                self._submit(taker, prompt, shape, None, guesser)
            elif self._grammars is None:
                raise UnsupportedParameter(
                    f"{self._model.id} cannot write structured answers", param=shape.structure.param
                )
            else:
                self._sequences.check_end(request)
                self._grammars.add(
                    shape.structure,
                    shape.preface,
                    partial(self._constrained, taker, prompt, shape, guesser),
                    lambda: taker.message.id in self._wanted,
                )

    def _constrained(
        self, taker: _Taker, prompt: Prompt, shape: AnswerShape, guesser: Guesser | None,
        result: MatcherConstraint | LocalLLMError,
    ) -> None:  # fmt: skip
        """On a thread of the grammars."""
        with errors_to(partial(self._reject, taker)):
            if isinstance(result, LocalLLMError):
                raise result
            self._submit(taker, prompt, shape, result, guesser)

    def _submit(
        self, taker: _Taker, prompt: Prompt, shape: AnswerShape, constraint: MatcherConstraint | None,
        guesser: Guesser | None,
    ) -> None:  # fmt: skip

        def submit() -> None:
            self._send(Accepted(sequence.id, sequence.progress.num_prompt, notes, shape.beginning, report, making))
            self.remembered.begun(prompt.asked, sequence, request)
            if prompt.use is not None:
                self._uses.begin(sequence.id, prompt.use)
            self._engine.submit(sequence)

        request = taker.message.request
        check_sources(request.speculative, self._model)
        sequence = self._sequences.make(taker.message, taker.arrived_s, prompt, constraint, guesser)
        notes = prompt.notes if constraint is None else prompt.notes + constraint.notes
        notes += notes_on(request.speculative, self._model, takes_guesses=sequence.request.takes_guesses)
        notes += adapted.notes_on(request.adapters or (), sequence.request.activation)
        making = None
        if request.detail is not None and request.detail.making:
            making = Making(prompt.text, sequence.request.sampling, sequence.request.max_tokens)
        report = self.remembered.explain(prompt.asked) if request.explains_cache and prompt.asked else None
        self._wanted.hand_over(sequence.id, submit)

    def _answer(self, message: Call) -> Iterator[None]:
        with errors_to(partial(self._fail, message.id)):
            if message.method in ("render", "count"):
                raise self._no_template()
            result = yield from answer_call(message.method, message.args, self._vocab, self._model.id)
            self._wanted.answer(Reply(message.id, result))

    def _rendered(
        self,
        message: Call,
        render: Render,
        messages: tuple[Message, ...],
        rendering: Rendering,
        rule: Any = None,
    ) -> None:
        """`rule`: for `render` what stands for media, for `count` the most bytes."""
        with errors_to(partial(self._fail, message.id)):
            text = render(self._prompts.render_request(messages, rendering)).text
            if message.method == "render":
                self._wanted.answer(Reply(message.id, self._prompts.texts.shown(text, rule or "")))
                return
            most_bytes: int = rule or 0
            size_bytes = len(text.encode("utf-8", "surrogatepass"))
            if size_bytes > most_bytes > 0:
                raise InvalidParameter(
                    f"the prompt has {size_bytes} bytes; at most {most_bytes} may be counted at a time "
                    "(max_tokenize_bytes)",
                    param="messages",
                )
            is_wanted = partial(self._wanted.__contains__, message.id)
            self._media.complete(
                RenderedPrompt(text, {}),
                messages,
                lambda: [message.id] if is_wanted() else [],
                lambda whole: self._turns.add(self._count(message.id, whole), is_wanted),
                partial(self._fail, message.id),
            )

    def _count(self, id: int, rendered: RenderedPrompt) -> Iterator[None]:
        with errors_to(partial(self._fail, id)):
            count = yield from self._prompts.count(rendered)
            self._wanted.answer(Reply(id, msgspec.structs.astuple(count)))

    def _fail(self, id: int, error: LocalLLMError) -> None:
        self._wanted.answer(Reply(id, None, error.info()))

    def _no_template(self) -> NoChatTemplate:
        note = template_note(self._model.info, None)
        return NoChatTemplate(
            f"{self._model.id} cannot chat: {note}, or use /v1/completions (`run --raw`)", param="messages"
        )
