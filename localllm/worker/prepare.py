"""Turns a submitted request into a sequence of tokens for the engine, or refuses it with the reason.

Has a thread of its own: neither templates nor tokenizing may stall a step or delay a cancel. Also answers the small
calls (tokenize, render ...). Knows nothing of batches or KV.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable
from collections.abc import Sequence as Tokens
from typing import Any, Protocol

import msgspec

from localllm.chat.request import RenderRequest
from localllm.engine.dry import Dry
from localllm.engine.encoder import EncoderEngine
from localllm.engine.engine import Engine
from localllm.engine.sequence import Sequence
from localllm.errors import (
    InternalError,
    InvalidParameter,
    NoChatTemplate,
    SlotNotFound,
    TemplateError,
)
from localllm.types import (
    NO_LIMIT,
    RANDOM_SEED,
    Delta,
    DrySampling,
    Finish,
    GenerationRequest,
    LoadedModel,
    Message,
    ModelDefaults,
    ResolvedSampling,
    SamplingParams,
    Timings,
    Usage,
)  # fmt: skip
from localllm.worker.messages import SLOT_METHODS, Accepted, Call, Deltas, Rejected, Reply, Submit, Up
from localllm.worker.refusals import as_ours, deadline_s, too_long
from localllm.worker.template_child import TemplateChild


class Tokenizer(Protocol):
    """The part of `llama.vocab.Vocab` that preparing needs."""

    @property
    def bos_text(self) -> str: ...

    @property
    def eos_text(self) -> str: ...

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...

    @property
    def end_tokens(self) -> tuple[int, ...]: ...

    def check_tokens(self, tokens: Tokens[int], param: str = "prompt") -> list[int]: ...

    def token_bytes(self, token: int) -> bytes: ...

    def piece(self, token: int, *, special: bool) -> bytes: ...

    def fill_in_middle(self, prefix: Tokens[int], suffix: str) -> list[int]: ...


ATTENTION_SINKS = 4
NO_DEFAULTS = ModelDefaults()


class Preparer:
    """`submit`, `cancel` and `call` come from the reader thread; the work is done on the preparer's own."""

    def __init__(
        self,
        model: LoadedModel,
        vocab: Tokenizer,
        templates: TemplateChild | None,
        engine: Engine | EncoderEngine,
        send: Callable[[Up], None],
        defaults: ModelDefaults = NO_DEFAULTS,
        *,
        context_shift: bool = False,
    ) -> None:
        """`defaults`: for requests that say nothing of their own."""
        self._context_shift = context_shift
        self._model = model
        self._defaults = defaults
        self._vocab = vocab
        self._templates = templates
        self._engine = engine
        self._send = send
        self._inbox: queue.SimpleQueue[tuple[Submit, float] | Call] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._preparing: set[int] = set()
        threading.Thread(target=self._run, name="preparer", daemon=True).start()

    def submit(self, message: Submit) -> None:
        with self._lock:
            self._preparing.add(message.id)
        self._inbox.put((message, self._engine.clock()))

    def cancel(self, id: int) -> None:
        """Wherever the request is: still here, or with the engine."""
        with self._lock:
            if id in self._preparing:
                self._preparing.remove(id)
                return
        self._engine.cancel(id)

    def call(self, message: Call) -> None:
        self._inbox.put(message)

    def _run(self) -> None:
        while True:
            message = self._inbox.get()
            if isinstance(message, Call):
                self._answer(message)
            else:
                self._prepare(*message)

    def _prepare(self, message: Submit, arrived_s: float) -> None:
        try:
            sequence = self._sequence(message, arrived_s)
        except Exception as error:  # noqa: BLE001  one request's surprise must not end this thread for all others
            with self._lock:
                self._preparing.discard(message.id)
            self._send(Rejected(message.id, as_ours(error).info()))
            return
        with self._lock:  # after this a cancel goes to the engine, and so finds the request there
            cancelled = message.id not in self._preparing
            self._preparing.discard(message.id)
            self._send(Accepted(message.id, sequence.num_prompt))
            if not cancelled:
                self._engine.submit(sequence)
        if cancelled:
            usage = Usage(prompt_tokens=sequence.num_prompt, completion_tokens=0)
            finish = Finish("cancelled", usage, Timings(0.0, 0.0, 0.0))
            self._send(Deltas(-1, ((message.id, Delta(finish=finish)),)))

    def _sequence(self, message: Submit, arrived_s: float) -> Sequence:
        if not self._model.info.causal:
            raise InvalidParameter(f"{self._model.id} is an embedding model; it cannot generate text", param="model")
        params = with_defaults(message.request.params, self._defaults.params)
        tokens = self._tokens(message.request)
        if not tokens:
            raise InvalidParameter("the prompt is empty; give at least one token", param="prompt")
        if len(tokens) >= self._model.ctx:
            larger = self._model.ctx < (self._model.info.context_length or self._model.ctx)
            what = "prompt" if message.request.messages is None else "messages"
            remedy = f"reduce the length of the {what}{', or load the model with a larger --ctx' if larger else ''}"
            raise too_long(f"your {what}", len(tokens), self._model.ctx, remedy, param=what)
        for token in params.logit_bias or ():
            self._check_token(token, "logit_bias", f"logit_bias.{token}")
        for token in params.stop_token_ids:
            self._check_token(token, "stop_token_ids", "stop_token_ids")
        sampling = resolve_sampling(params, self._model.info.sampling)
        stays_open = params.min_tokens and not params.ignore_eos
        return Sequence(
            message.id,
            tokens,
            sampling=sampling,
            min_tokens=params.min_tokens,
            max_tokens=None if params.max_tokens == NO_LIMIT else params.max_tokens,
            stop=params.stop,
            stop_tokens=params.stop_token_ids,
            end_tokens=(*(self._vocab.end_tokens if stays_open else ()), *params.stop_token_ids),
            ignore_eos=params.ignore_eos,
            logprobs=params.logprobs,
            prompt_logprobs=params.prompt_logprobs,
            dry=None if sampling.dry is None else Dry(sampling.dry, self._vocab.token_bytes, tokens),
            cache_prompt=message.request.cache_prompt and params.prompt_logprobs is None,
            cache_salt=message.request.cache_salt,
            pauses=self._pauses(message.request, tokens),
            keep=self._keep(message.request, tokens),
            priority=message.request.priority,
            created_s=arrived_s,
            deadline_s=deadline_s(arrived_s, message.request.timeout_s),
            queue_deadline_s=deadline_s(arrived_s, message.request.queue_timeout_s),
        )

    def _check_token(self, token: int, name: str, param: str) -> None:
        if not 0 <= token < self._model.info.vocabulary_size:
            raise InvalidParameter(
                f"{name} names token {token}; this model has {self._model.info.vocabulary_size}, from 0 on", param=param
            )

    def _tokens(self, request: GenerationRequest) -> list[int]:
        if request.messages is not None:
            return self._vocab.tokenize(self._render(request.messages))
        if request.prompt_tokens is not None:
            tokens = self._vocab.check_tokens(request.prompt_tokens)
        elif request.prompt is None:
            raise InvalidParameter("give messages or a prompt", param="prompt")
        elif request.suffix is None:
            return self._vocab.tokenize(request.prompt)
        else:
            tokens = self._vocab.tokenize(request.prompt, add_special=False, parse_special=False)
        return tokens if request.suffix is None else self._vocab.fill_in_middle(tokens, request.suffix)

    def _keep(self, request: GenerationRequest, tokens: Tokens[int]) -> int:
        """Tokens that stay when the context shifts: the system message, or a few that models lean on.

        Without the first ones attention falls apart ("attention sinks", arXiv:2309.17453).
        """
        messages = request.messages
        if not self._context_shift or messages is None or messages[0].role != "system":
            return ATTENTION_SINKS
        try:
            text = self._render(messages[:1], add_generation_prompt=False)
        except TemplateError:
            return ATTENTION_SINKS
        return max(ATTENTION_SINKS, _common(tokens, self._vocab.tokenize(text)))

    def _pauses(self, request: GenerationRequest, tokens: Tokens[int]) -> list[int]:
        """Where the system message, the turns before the last message, and that one end, in tokens.

        A later request that begins alike goes on from there, if the model's memory has a checkpoint; templates write
        what comes after the last message otherwise once there is an answer.
        """
        if request.messages is None or self._model.memory == "attention" or not request.cache_prompt:
            return []
        messages = request.messages
        beginnings = {len(messages), len(messages) - 1, int(messages[0].role == "system")} - {0}
        pauses = []
        for count in beginnings:
            try:
                text = self._render(messages[:count], add_generation_prompt=False)
            except TemplateError:
                continue  # a template may insist on a certain last message; then there is no such place
            pauses.append(_common(tokens, self._vocab.tokenize(text)))
        return pauses

    def _render(self, messages: tuple[Message, ...], *, add_generation_prompt: bool = True) -> str:
        if self._templates is None:
            raise NoChatTemplate(
                f"{self._model.id} carries no chat template; use /v1/completions (`run --raw`)", param="messages"
            )
        return self._templates.render(
            RenderRequest(
                template=self._model.info.chat_templates["default"],
                messages=with_beginning(messages, self._defaults),
                bos_token=self._vocab.bos_text,
                eos_token=self._vocab.eos_text,
                add_generation_prompt=add_generation_prompt,
            )
        )

    def _answer(self, message: Call) -> None:
        if message.method == "status":  # known between two steps only, on the engine's thread
            self._engine.inspect(lambda status: self._send(Reply(message.id, status)))
            return
        try:
            self._send(Reply(message.id, self._call(message.method, message.args)))
        except Exception as error:  # noqa: BLE001  as above
            self._send(Reply(message.id, None, as_ours(error).info()))

    def _call(self, method: str, args: tuple[Any, ...]) -> Any:
        if method == "tokenize":
            text, add_special, parse_special = args
            return self._vocab.tokenize(text, add_special=add_special, parse_special=parse_special)
        if method == "pieces":
            tokens, special = args
            return [self._vocab.piece(token, special=special) for token in self._vocab.check_tokens(tokens, "tokens")]
        if method == "render":
            return self._render(msgspec.convert(args[0], tuple[Message, ...]))
        if method in SLOT_METHODS:
            raise SlotNotFound(f"{self._model.id} generates nothing and has no slots", param="id_slot")
        raise InternalError(f"the worker knows no method {method!r}")


def _common(one: Tokens[int], other: Tokens[int]) -> int:
    """How many tokens two sequences begin alike with."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))


def with_defaults(params: SamplingParams, defaults: SamplingParams) -> SamplingParams:
    """The request's fields, and where they say nothing the model's."""
    if defaults == SamplingParams():
        return params
    nothing = SamplingParams()
    given = {
        name: value
        for name in SamplingParams.__struct_fields__
        if (value := getattr(defaults, name)) != getattr(nothing, name) == getattr(params, name)
    }
    return msgspec.structs.replace(params, **given)


def with_beginning(messages: tuple[Message, ...], defaults: ModelDefaults) -> tuple[Message, ...]:
    """A chat with the model's own system message, unless it has one, and what the model wants before its turns."""
    system, turns = (messages[:1], messages[1:]) if messages and messages[0].role == "system" else ((), messages)
    if not system and defaults.system is not None:
        system = (Message("system", defaults.system),)
    return (*system, *defaults.messages, *turns)


_NUMBERS: dict[str, type[int] | type[float]] = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "top_n_sigma": float,
    "typical_p": float,
    "xtc_probability": float,
    "xtc_threshold": float,
    "dynatemp_range": float,
    "dynatemp_exponent": float,
    "mirostat": int,
    "mirostat_tau": float,
    "mirostat_eta": float,
    "repeat_penalty": float,
    "repeat_last_n": int,
    "presence_penalty": float,
    "frequency_penalty": float,
}
"""The fields of `ResolvedSampling` that a request or a model may set."""


_FILTERS_OFF: dict[str, float] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "xtc_probability": 0.0}
"""The filters that a model or our defaults may switch on."""


def resolve_sampling(params: SamplingParams, model: dict[str, float]) -> ResolvedSampling:
    """The request's value, else the model's own, else our default; without a seed, or with -1, a random one.

    Mirostat chooses how many tokens to keep by itself, so filters that were not asked for are off with it.
    """
    values: dict[str, Any] = {} if params.logit_bias is None else {"logit_bias": params.logit_bias}
    by_surprise = params.mirostat if params.mirostat is not None else model.get("mirostat")
    for name, kind in _NUMBERS.items():
        asked = getattr(params, name)
        if asked is not None:
            values[name] = kind(asked)
        elif by_surprise and name in _FILTERS_OFF:
            values[name] = kind(_FILTERS_OFF[name])
        elif name in model:
            values[name] = kind(model[name])
    if params.dry_multiplier:
        fields = {name: getattr(params, f"dry_{name}") for name in DrySampling.__struct_fields__}
        values["dry"] = DrySampling(**{name: value for name, value in fields.items() if value is not None})
    if values.get("top_k", 0) < 0:
        values["top_k"] = 0
    seed = secrets.randbits(32) if params.seed in (None, RANDOM_SEED) else params.seed % 2**64
    return ResolvedSampling(seed=seed, **values)
