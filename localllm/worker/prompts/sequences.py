"""Turns a request and its prompt into a sequence for the engine, with the model's defaults, or refuses its parameters.

Knows nothing of threads, and of how prompts are made.
"""

from __future__ import annotations

import math

import msgspec

from localllm.engine.cache.domain import Domain
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Ending, ReportOptions, Request, Reuse, Shift
from localllm.engine.sampling.dry import Dry
from localllm.engine.speculation.guesser import Guesser
from localllm.errors import InvalidParameter
from localllm.types import NO_LIMIT, GenerationRequest, LoadedModel, ModelDefaults, ResolvedSampling, SamplingParams
from localllm.worker.messages import Submit
from localllm.worker.prompts.adapted import adapted
from localllm.worker.prompts.prompt_parts import Tokenizer
from localllm.worker.prompts.sampling import resolve_sampling, with_defaults
from localllm.worker.prompts.tokenized import Prompt
from localllm.worker.refusals import deadline_s

KEEP_ALL = -1
"""Value of `Shift.keep`: the whole prompt."""


class Sequences:
    """Those of one model. Any thread."""

    def __init__(
        self, model: LoadedModel, vocab: Tokenizer, defaults: ModelDefaults, markers: frozenset[int] = frozenset()
    ) -> None:
        """`markers`: the control tokens of the model's chat format."""
        self._model = model
        self._vocab = vocab
        self._defaults = defaults
        self._markers = markers

    def make(
        self,
        message: Submit,
        arrived_s: float,
        prompt: Prompt,
        constraint: MatcherConstraint | None,
        guesser: Guesser | None,
    ) -> Sequence:
        """The sequence. Raises `InvalidParameter`."""
        request = message.request
        params = with_defaults(request.params, self._defaults.params)
        self._check(request, params)
        sampling = self._sampling(params)
        keep = prompt.keep if request.shift.keep is None else request.shift.keep
        is_scored, tokens = prompt.scored is not None, [*prompt.tokens, *(prompt.scored or ())]
        caches = request.cache_prompt and (is_scored or params.prompt_logprobs is None)
        stays_open = params.min_tokens and not params.ignore_eos
        under = adapted(request.adapters or (), prompt.tokens)
        domain = Domain.of(cache_salt=request.cache_salt, adapters=under.shared)
        wanted = Request(
            message.id,
            tokens,
            sampling=sampling,
            adapters=under.adapters,
            activation=under.activation,
            max_tokens=0 if is_scored else None if params.max_tokens == NO_LIMIT else params.max_tokens,
            ending=Ending(
                min_tokens=params.min_tokens,
                stop=params.stop,
                stop_tokens=frozenset(params.stop_token_ids),
                end_tokens=(*(self._vocab.end_tokens if stays_open else ()), *params.stop_token_ids),
                ignore_eos=params.ignore_eos,
                lines=request.lines,
            ),
            reported=ReportOptions(
                params.logprobs,
                params.prompt_logprobs or 0 if is_scored else params.prompt_logprobs,
                request.detail,
                self._markers if request.messages is not None else frozenset(),
                whole=request.comes_whole,
                scored_from=len(prompt.tokens) if is_scored else 0,
            ),
            reuse=Reuse(caches, domain, _pauses(prompt), request.slot),
            shift=Shift(len(prompt.tokens) if keep == KEEP_ALL else keep, request.shift.discard),
            spans=() if prompt.use is None else tuple(each.span for each in prompt.use.spans),
            due=Due(
                priority=request.priority,
                is_batch=request.batch,
                created_s=arrived_s,
                deadline_s=deadline_s(arrived_s, request.timeout_s),
                queue_deadline_s=deadline_s(arrived_s, request.queue_timeout_s),
            ),
        )
        dry = None if sampling.dry is None else Dry(sampling.dry, self._vocab.token_bytes, prompt.tokens)
        return Sequence(wanted, dry=dry, constraint=constraint, guesser=guesser)

    def check_end(self, request: GenerationRequest) -> None:
        """Raises `InvalidParameter` for an answer that has a grammar and ignores its end."""
        if with_defaults(request.params, self._defaults.params).ignore_eos:
            what = "a structured answer" if request.structure else "an answer with tools or a thinking_budget"
            raise InvalidParameter(f"{what} ends where its grammar does; leave out ignore_eos", param="ignore_eos")

    def _sampling(self, params: SamplingParams) -> ResolvedSampling:
        sampling = resolve_sampling(params, self._model.info.sampling)
        if not params.ignore_eos:
            return sampling
        # As in llama.cpp: end tokens never come.
        never = dict.fromkeys(self._vocab.end_tokens, -math.inf)
        return msgspec.structs.replace(sampling, logit_bias={**sampling.logit_bias, **never})

    def _check(self, request: GenerationRequest, params: SamplingParams) -> None:
        for token in params.logit_bias or ():
            self._check_token(token, "logit_bias", f"logit_bias.{token}")
        for token in params.stop_token_ids:
            self._check_token(token, "stop_token_ids", "stop_token_ids")
        if request.slot is not None and request.slot >= self._model.slots:
            raise InvalidParameter(
                f"id_slot must be below {self._model.slots}, the number of slots, or -1 for any, got {request.slot}",
                param="id_slot",
            )

    def _check_token(self, token: int, name: str, param: str) -> None:
        if not 0 <= token < self._model.info.vocabulary_size:
            raise InvalidParameter(
                f"{name} names token {token}; this model has {self._model.info.vocabulary_size}, counted from 0",
                param=param,
            )


def _pauses(prompt: Prompt) -> list[int]:
    """The scores of other texts behind the same prompt begin with the logits of its last token."""
    return prompt.pauses if prompt.scored is None else [*prompt.pauses, len(prompt.tokens) - 1]
