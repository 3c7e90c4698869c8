"""The body of `POST /v1/select`: a prompt and the texts to choose from."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from localllm.errors import InvalidParameter
from localllm.runtime.scoring import check, to_score
from localllm.server.requests.field_rules import Fates, Nested, known
from localllm.server.requests.messages import ChatMessage, to_conversation
from localllm.server.requests.rendering import RenderingFields, rendering_of
from localllm.server.requests.sampling import FLEX
from localllm.server.requests.values import ObjectField, exclusive, missing
from localllm.settings.durations import keep_alive_seconds
from localllm.types import GenerationRequest, NumberedAdapter, SamplingParams

CHOICES = "choices"


class SelectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/select`."""

    fates: ClassVar[Fates] = Fates(ignored={"user": "accounts exist only at the vendor"})
    nested: ClassVar[Nested] = ("messages",)

    model: str | None = None
    """Optional while exactly one model is loaded."""
    messages: list[ChatMessage] | None = None
    """A conversation that the texts answer."""
    prompt: str | None = None
    """A text that they continue, in place of it."""
    choices: list[str]
    per_token: bool | None = None
    """False: compare log-probabilities of whole texts, not the means of their tokens'."""
    logprobs: bool | None = None
    """True: return those of each token, too."""
    chat_template_kwargs: ObjectField | UnsetType = UNSET
    priority: int | None = None
    batch: bool | None = None
    """True: served after all requests without it, whatever their `priority`."""
    service_tier: str | None = None
    """OpenAI's: `flex` is `batch`; all other tiers are the same."""
    timeout: float | None = None
    """Seconds."""
    cache_prompt: bool | None = None
    """False: recompute the whole prompt for each text."""
    cache_salt: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    """As in vLLM: only prompts with the same salt and API key share cached prefixes."""
    prompt_cache_key: str | None = None
    """Logged."""
    lora: list[NumberedAdapter] | None = None
    """llama-server's: adapters of the model by their number in `/lora-adapters`, in place of those of its name."""
    keep_alive: float | str | None = None
    """How long the model stays loaded after this answer: seconds, or `5m`; negative: indefinitely; 0: unload now."""

    def keep_alive_s(self) -> float | None:
        """Raises `InvalidParameter`."""
        return keep_alive_seconds(self.keep_alive)

    def generations(self, *, most: int) -> list[GenerationRequest]:
        """A request for each text; at most `most`. Raises `InvalidParameter`."""
        check(self.choices, CHOICES)
        if len(self.choices) > most:
            raise InvalidParameter(
                f"{len(self.choices)} choices are more than this model takes at a time, {most} (--slots and "
                "--max-waiting together): send fewer",
                param=CHOICES,
            )
        return to_score(self._behind(), self.choices)

    def _behind(self) -> GenerationRequest:
        """The prompt. Raises `InvalidParameter`."""
        if (self.messages is None) == (self.prompt is None):
            raise missing("messages") if self.prompt is None else exclusive("messages", "prompt", param="prompt")
        asked = GenerationRequest(
            prompt=self.prompt,
            params=SamplingParams(prompt_logprobs=0),
            lora=None if self.lora is None else tuple(self.lora),
            cache_prompt=self.cache_prompt is not False,
            priority=self.priority or 0,
            batch=bool(self.batch) or self.service_tier == FLEX,
            timeout_s=self.timeout,
        )
        if self.messages is None:
            return asked
        said = to_conversation(self.messages)
        fields = RenderingFields(chat_template_kwargs=self.chat_template_kwargs, enable_thinking=False)
        rendering = rendering_of(fields, said.messages)
        return replace(asked, messages=said.messages, media=said.files, notes=said.notes, rendering=rendering)


parse_select = known(SelectRequest)
