"""Request bodies of Ollama's API, converted to the runtime's types. No JSON travels further inward."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec

from localllm.chat.media_files import MediaReading
from localllm.chat.unreadable import with_parts
from localllm.errors import InvalidParameter
from localllm.server.apis.ollama.fields import IGNORED, AnswerFields, CommonFields, named
from localllm.server.apis.ollama.messages import (
    ChatMessage,
    OwnMessage,
    Tool,
    images_of,
    to_conversation,
    to_messages,
    tooling,
)
from localllm.server.requests.field_rules import Fates, RefusedField
from localllm.server.requests.marked_prompts import between
from localllm.server.requests.values import exclusive
from localllm.types import GenerationRequest, Media, Message, TokenId
from localllm.types.embeddings import EmbeddingRequest
from localllm.types.states import NewModel

_TAG = re.compile(r"\[img-([0-9]{1,4})\]")
"""The place of an image in a prompt without a template."""


class ChatRequest(AnswerFields, frozen=True, kw_only=True):
    """`POST /api/chat`. Without messages it loads the model, or unloads it with `keep_alive` 0."""

    messages: list[ChatMessage] | None = None
    tools: list[Tool] | None = None
    truncate: bool | None = None
    """Whether a chat that does not fit loses its oldest messages (default: true)."""

    def generation(self) -> GenerationRequest | None:
        """The request for an answer; None if there is no prompt. Raises `RequestError`s."""
        params, structure = self.params(), self.structure()  # also without a prompt
        if not self.messages:
            return None
        tools, calling = tooling(self.tools or ())
        conversation = to_conversation(self.messages)
        return GenerationRequest(
            messages=conversation.messages,
            media=conversation.files,
            notes=conversation.notes,
            rendering=self.rendering(tools),
            calling=calling,
            params=params,
            structure=structure,
        )


class GenerateRequest(AnswerFields, frozen=True, kw_only=True):
    """`POST /api/generate`. Without a prompt it loads the model, or unloads it with `keep_alive` 0."""

    fates: ClassVar[Fates] = Fates(
        {
            "height": RefusedField("image generation is not supported", (0,)),
            "steps": RefusedField("image generation is not supported", (0,)),
            "template": RefusedField("`raw: true` uses the prompt without a template", ("",)),
            "width": RefusedField("image generation is not supported", (0,)),
        },
        {**IGNORED, "truncate": "a prompt that does not fit is always refused"},
    )

    prompt: str | None = None
    images: list[str] | None = None
    """Base64 or data URLs of pictures, and of sounds where the model hears; shown before the prompt, or in a raw one at
    `[img-0]`, `[img-1]` ..."""
    suffix: str | None = None
    """The model fills in between prompt and suffix."""
    system: str | None = None
    context: list[TokenId] | None = None
    """Tokens of earlier prompts and answers, from a previous reply."""
    raw: bool | None = None
    """Use the prompt without the model's template."""

    def generation(self) -> GenerationRequest | None:
        """The request for an answer; None if there is no prompt. Raises `RequestError`s."""
        if self.suffix and self.context:
            raise exclusive("suffix", "context", param="suffix")
        if self.raw and (self.system or self.context):
            raise InvalidParameter("raw mode does not support template, system, or context", param="raw")
        if self.images and self.suffix:
            raise exclusive("images", "suffix", param="images")
        params, structure = self.params(), self.structure()  # also without a prompt
        if not self.prompt and not self.images:
            return None
        source: dict[str, Any] = {"prompt": self.prompt}
        reading = MediaReading()
        if self.suffix:
            source["suffix"] = self.suffix
        elif self.raw and self.images:
            source = {"prompt_parts": self._tagged(reading), "media": reading.files}
        elif not self.raw:
            source = {"messages": self.messages(reading), "rendering": self.rendering(), "media": reading.files}
        return GenerationRequest(**source, params=params, structure=structure)

    def _tagged(self, reading: MediaReading) -> tuple[str | Media, ...]:
        """A prompt without a template, whose images stand at their tags (`[img-0]`), or before it. Raises
        `InvalidParameter`."""
        images = [reading.image(image, f"images[{index}]") for index, image in enumerate(self.images or ())]
        prompt = self.prompt or ""
        texts, numbers = _TAG.split(prompt)[::2], [int(number) for number in _TAG.findall(prompt)]
        if not numbers:
            return between([""] * len(images) + [prompt], images)
        if sorted(numbers) != [*range(len(images))]:
            tags = ", ".join(f"[img-{index}]" for index in range(len(images)))
            raise InvalidParameter(f"prompt must have each tag of its images once: {tags}", param="prompt")
        return between(texts, [images[number] for number in numbers])

    def messages(self, reading: MediaReading) -> tuple[Message, ...]:
        """The prompt as a conversation turn. Raises `InvalidParameter`."""
        system = [Message("system", self.system)] if self.system else []
        images = images_of(self.images, "images", [], reading, refuses=True)
        return (*system, with_parts(Message("user", ""), [*images, *filter(None, [self.prompt])]))


class EmbedRequest(CommonFields, frozen=True, kw_only=True):
    """`POST /api/embed`."""

    input: str | list[str] | None = None
    truncate: bool | None = None
    """Whether texts that are too long are truncated (default: true)."""
    dimensions: int | None = None

    def asked(self, timeout_s: float | None, queue_timeout_s: float | None) -> EmbeddingRequest | None:
        """The request for vectors; None if there is nothing to embed. Raises `InvalidParameter`."""
        texts = [self.input] if isinstance(self.input, str) else self.input or []
        if not any(texts):
            return None
        if not all(texts):
            raise InvalidParameter("input must have no empty text", param="input")
        if self.dimensions is not None and self.dimensions < 0:
            raise InvalidParameter("dimensions must not be negative", param="dimensions")
        return EmbeddingRequest(
            texts=tuple(texts),
            dimensions=self.dimensions or None,
            truncate=self.truncate is not False,
            timeout_s=timeout_s,
            queue_timeout_s=queue_timeout_s,
        )


class EmbeddingsRequest(CommonFields, frozen=True, kw_only=True):
    """`POST /api/embeddings`: one text, not normalized."""

    prompt: str | None = None

    def asked(self, timeout_s: float | None, queue_timeout_s: float | None) -> EmbeddingRequest | None:
        """The request for vectors; None if there is nothing to embed."""
        if not self.prompt:
            return None
        return EmbeddingRequest(
            texts=(self.prompt,),
            normalize=False,
            truncate=True,
            timeout_s=timeout_s,
            queue_timeout_s=queue_timeout_s,
        )


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Requests with only a model's name."""

    model: str | None = None
    name: str | None = None
    """The former name of `model`."""

    @property
    def asked_model(self) -> str:
        """Raises `InvalidParameter`."""
        return named(self.model, self.name)


class ShowRequest(ModelRequest, frozen=True, kw_only=True):
    """`POST /api/show`."""

    fates: ClassVar[Fates] = Fates(ignored={"verbose": "details are always complete"})


class PullRequest(ModelRequest, frozen=True, kw_only=True):
    """`POST /api/pull`."""

    fates: ClassVar[Fates] = Fates(ignored={"insecure": "certificates are always verified"})

    stream: bool | None = None
    """Default: true."""


class PushRequest(ModelRequest, frozen=True, kw_only=True):
    """`POST /api/push`."""

    fates: ClassVar[Fates] = Fates(
        ignored={
            "insecure": "certificates are always verified; --insecure-registries names hosts without TLS",
            **dict.fromkeys(("username", "password"), "the server owner's credentials are used"),
        }
    )

    stream: bool | None = None
    """Default: true."""


class CreateRequest(ModelRequest, frozen=True, kw_only=True, rename={"base": "from"}):
    """`POST /api/create`: from another model, from uploaded files, or from a Modelfile."""

    fates: ClassVar[Fates] = Fates(
        {
            "draft_files": RefusedField(
                "a draft model is a setting of the server (--draft), not a part of a model", ({},)
            ),
        },
        {
            "renderer": "it is built into Ollama; the model's own chat template is used",
            "parser": "it is built into Ollama; the model's own chat template is used",
            "requires": "it names a version of Ollama",
        },
    )

    base: str | None = None
    """The base model, which is pulled if it is not on this machine; so is that of a Modelfile."""
    files: dict[str, str] | None = None
    """File name -> digest of the uploaded file."""
    adapters: dict[str, str] | None = None
    """The same for a LoRA adapter of the base model: one GGUF file."""
    modelfile: str | None = None
    """Sent by older clients instead of the other fields."""
    template: str | None = None
    """Jinja."""
    system: str | None = None
    license: str | list[str] | None = None
    parameters: dict[str, Any] | None = None
    messages: list[OwnMessage] | None = None
    quantize: str | None = None
    quantization: str | None = None
    """The former name of `quantize`."""
    stream: bool | None = None
    """Default: true."""

    def made(self, name: str, base: str | None) -> NewModel:
        """The model to make. `base`: the id of the model in `from`. Raises `InvalidParameter`."""
        others = ("base", "files", "template", "system", "license", "parameters", "messages", "adapters")
        if self.modelfile is not None and any(getattr(self, field) for field in others):
            raise InvalidParameter(
                "modelfile and the other fields are mutually exclusive; send one or the other", param="modelfile"
            )
        texts = [self.license] if isinstance(self.license, str) else self.license or []
        return NewModel(
            name=name,
            base=base,
            files=self.files or {},
            modelfile=self.modelfile,
            template=self.template,
            system=self.system,
            license_text=tuple(text for text in texts if text),
            parameters={name: value for name, value in (self.parameters or {}).items() if value is not None},
            messages=to_messages(self.messages or ()),
            quantize=self.quantize or self.quantization or None,
            adapters=self.adapters or {},
        )


class CopyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /api/copy`."""

    source: str
    destination: str
