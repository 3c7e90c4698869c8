"""Request fields for generation that several APIs share, converted to `SamplingParams`.

Knows neither messages nor prompts, nor how an API names its limits.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.requests.biases import Biases, biases_of
from localllm.server.requests.field_rules import Fates
from localllm.server.requests.speculating import LIMIT, SpeculativeField, speculative_of
from localllm.settings.durations import keep_alive_seconds
from localllm.types import (
    NO_LIMIT,
    RANDOM_SEED,
    Calling,
    GenerationRequest,
    NumberedAdapter,
    SamplingParams,
    TokenId,
)
from localllm.types.ranges import check_range
from localllm.types.structures import Structure

FLEX = "flex"
"""OpenAI's tier for requests that may take longer."""
_AS_GIVEN = (
    "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "top_k", "min_p", "typical_p",
    "top_n_sigma", "xtc_probability", "xtc_threshold", "dynatemp_range", "dynatemp_exponent", "mirostat",
    "mirostat_tau", "mirostat_eta", "repeat_penalty", "repeat_last_n", "dry_multiplier", "dry_base",
    "dry_allowed_length", "dry_penalty_last_n",
)  # fmt: skip
"""Fields passed to `SamplingParams` under the same name."""

_BUDGETS = ("reasoning_budget_tokens", "thinking_budget_tokens", "thinking_token_budget", "thinking_budget")
"""Names for the maximum number of thought tokens: llama-server's two, vLLM's, and Qwen's API's."""
MAX_BUDGET = 2**31 - 1


def seeded(params: SamplingParams, count: int) -> list[SamplingParams]:
    """The same for each of several answers, with seeds of their own."""
    return [_with_seed(params, _seed_of(params.seed, index)) for index in range(count)]


def _with_seed(params: SamplingParams, seed: int | None) -> SamplingParams:
    """The same with another seed, without validating the fields (biases for a whole vocabulary) again."""
    if seed == params.seed:
        return params
    twin = copy.copy(params)
    msgspec.structs.force_setattr(twin, "seed", seed)
    return twin


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Additional output of a stream."""

    fates: ClassVar[Fates] = Fates(
        ignored={"include_obfuscation": "it pads chunks against eavesdropping, which loopback does not need"}
    )

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class SamplingFields(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's fields, and extensions under the names of llama-server or vLLM."""

    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Biases | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    # Extensions:
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    min_tokens: int | None = None
    stop_token_ids: list[TokenId] | None = None
    ignore_eos: bool | None = None
    reasoning_budget_tokens: int | None = None
    """Maximum tokens of the thought before an answer; -1: unlimited."""
    thinking_budget_tokens: int | None = None
    thinking_token_budget: int | None = None
    thinking_budget: int | None = None
    priority: int | None = None
    batch: bool | None = None
    """True: served after all requests without it, whatever their `priority`."""
    service_tier: str | None = None
    """OpenAI's: `flex` is `batch`; all other tiers are the same."""
    timeout: float | None = None
    """Seconds."""
    cache_prompt: bool | None = None
    """False: recompute the whole prompt."""
    cache_salt: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    """As in vLLM: only prompts with the same salt and API key share cached prefixes."""
    prompt_cache_key: str | None = None
    """Logged: gateways keep requests with the same key on one server. Here, equal prefixes are found without it."""
    cache_report: bool | None = None
    """Chat only: report why the prompt was not cached, as `localllm.cache_miss`."""
    speculative: bool | SpeculativeField | None = None
    """False: no speculative decoding. The answer is the same."""
    speculative_n_max: int | None = msgspec.field(default=None, name=LIMIT)
    """llama-server's: the `n_max` of `speculative`, unless that has one."""
    timings: bool | None = None
    lora: list[NumberedAdapter] | None = None
    """llama-server's: adapters of the model by their number in `/lora-adapters`, in place of those of its name."""
    keep_alive: float | str | None = None
    """How long the model stays loaded after this answer: seconds, or `5m`; negative: indefinitely; 0: unload now."""

    def keep_alive_s(self) -> float | None:
        """Raises `InvalidParameter`."""
        return keep_alive_seconds(self.keep_alive)

    def params(self) -> SamplingParams:
        """Raises `InvalidParameter`."""
        breakers = self.dry_sequence_breakers
        return SamplingParams(
            **{name: getattr(self, name) for name in _AS_GIVEN},
            dry_sequence_breakers=None if breakers is None else tuple(breakers),
            logit_bias=biases_of(self.logit_bias),
            logprobs=self.num_logprobs(),
            min_tokens=self.min_tokens or 0,
            max_tokens=self.limit(),
            stop=tuple(filter(None, [self.stop] if isinstance(self.stop, str) else self.stop or ())),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
        )

    def generation_of(
        self, params: SamplingParams, *, structure: Structure | None = None, **source: Any
    ) -> GenerationRequest:
        """A request for one answer; `source` is the prompt, as fields of `GenerationRequest`.

        Raises `InvalidParameter`, `UnsupportedParameter`.
        """
        calling: Calling | None = source.get("calling")
        if structure is not None and calling is not None:
            if calling.choice == "required":
                structure = None  # it would apply to text, which such an answer does not have
            elif calling.choice == "none":
                calling = source["calling"] = None
        is_bound = structure is not None or (calling is not None and calling.choice != "none")
        if is_bound and params.ignore_eos:
            what = "tools" if structure is None else structure.param
            raise InvalidParameter(
                f"ignore_eos and {what} are mutually exclusive: the structure determines the answer's end; send one "
                "of them",
                param="ignore_eos",
            )
        return GenerationRequest(
            **source,
            params=params,
            structure=structure,
            thinking_budget=self._thinking_budget(knows_thoughts=structure is not None or "messages" in source),
            lora=None if self.lora is None else tuple(self.lora),
            cache_prompt=self.cache_prompt is not False,
            explains_cache=bool(self.cache_report),
            priority=self.priority or 0,
            batch=bool(self.batch) or self.service_tier == FLEX,
            timeout_s=self.timeout,
            speculative=speculative_of(self.speculative, self.speculative_n_max),
        )

    def budgets(self) -> dict[str, int]:
        """Field -> its limit of thought tokens; chats also have one in `thinking`."""
        given = {name: budget for name in _BUDGETS if (budget := getattr(self, name)) is not None}
        thinking = getattr(self, "thinking", None)
        if thinking is not None and thinking.budget_tokens is not None:
            given["thinking.budget_tokens"] = thinking.budget_tokens
        return given

    def _thinking_budget(self, *, knows_thoughts: bool) -> int | None:
        given = self.budgets()
        for name, budget in given.items():
            check_range(name, budget, NO_LIMIT, MAX_BUDGET)
        if len(set(given.values())) > 1:
            raise InvalidParameter(f"{' and '.join(given)} differ; send one of them", param=next(iter(given)))
        name, budget = next(iter(given.items()), ("", NO_LIMIT))
        if budget == NO_LIMIT:
            return None
        if not knows_thoughts:
            raise UnsupportedParameter(
                f"{name} is not supported for a plain prompt without a structure; leave it out or send {NO_LIMIT}",
                param=name,
            )
        return budget

    def limit(self) -> int | None:
        """Maximum number of tokens to generate; None: as many as fit."""
        return None

    def num_logprobs(self) -> int | None:
        """How many of the most likely tokens to report per position; None: no log-probabilities."""
        return None


def _seed_of(seed: int | None, index: int) -> int | None:
    """The seed of one of several answers: consecutive 64-bit numbers, skipping the one that means random."""
    if seed is None or seed == RANDOM_SEED:
        return seed
    after = seed + index
    if seed < RANDOM_SEED <= after:
        after += 1
    return (after + 2**63) % 2**64 - 2**63
