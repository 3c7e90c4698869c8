"""Request bodies: JSON bytes to typed Structs, and those to the runtime's types. No JSON travels further inward.

Raises `RequestError`s that name the field at fault as a JSON path, e.g. `input[3]`. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.apis.embeddings.inputs import Inputs
from localllm.server.requests import fields
from localllm.server.requests.field_rules import Fates, Nested, known, parse_known
from localllm.server.requests.parse import Fields
from localllm.server.requests.values import exclusive, needed
from localllm.settings.durations import keep_alive_seconds

_EUCLIDEAN, _AS_IT_IS = 2, -1
"""llama-server's `embd_normalize`; its other norms are not supported."""
_TO_ITS_LIMIT = -1
"""vLLM's `truncate_prompt_tokens`: as many as the model can read."""


class WorkFields(msgspec.Struct, frozen=True, kw_only=True):
    """Extensions of both APIs, named as in the other endpoints, TEI (`truncate`) and vLLM."""

    truncate: Annotated[
        bool | None, Meta(description="Truncate texts that are too long, and report it, instead of refusing them")
    ] = None
    truncate_prompt_tokens: Annotated[int | None, Meta(description="vLLM's: -1 means truncate: true")] = None
    priority: Annotated[int, Meta(ge=-1000, le=1000, description="Lower values are served first")] | None = None
    timeout: Annotated[float, Meta(ge=0.001, le=1e6, description="Seconds")] | None = None
    keep_alive: float | str | None = None

    def is_cut(self) -> bool:
        """Whether texts may be truncated. Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.truncate_prompt_tokens is None:
            return bool(self.truncate)
        if self.truncate_prompt_tokens != _TO_ITS_LIMIT:
            raise UnsupportedParameter(
                "truncate_prompt_tokens takes only -1 (as many as the model can read)", param="truncate_prompt_tokens"
            )
        if self.truncate is False:
            raise InvalidParameter(
                "truncate and truncate_prompt_tokens contradict each other; send one of them", param="truncate"
            )
        return True

    def keep_alive_s(self) -> float | None:
        """Raises `InvalidParameter`."""
        return keep_alive_seconds(self.keep_alive)


Dimensions = Annotated[int, Meta(ge=1, le=2**31 - 1, description="Keep the first N components, before normalizing")]


class VectorFields(WorkFields, frozen=True, kw_only=True):
    """Fields that OpenAI's and llama-server's endpoints share."""

    model: Annotated[str | None, Meta(description="Optional while exactly one model is loaded")] = None
    normalize: Annotated[bool | None, Meta(description="Scale to length 1 [default: true]")] = None
    embd_normalize: Annotated[int | None, Meta(description="llama-server's: 2 normalizes, -1 does not")] = None

    def is_normalized(self) -> bool:
        if self.embd_normalize is None:
            return self.normalize is not False
        if self.embd_normalize not in (_EUCLIDEAN, _AS_IT_IS):
            raise UnsupportedParameter("embd_normalize takes 2 (Euclidean) or -1 (none)", param="embd_normalize")
        wanted = self.embd_normalize == _EUCLIDEAN
        if self.normalize not in (None, wanted):
            raise InvalidParameter(
                "normalize and embd_normalize contradict each other; send one of them", param="normalize"
            )
        return wanted


class EmbeddingsBody(VectorFields, frozen=True, kw_only=True):
    """`POST /v1/embeddings`. `input`: one text or several, or their tokens."""

    fates: ClassVar[Fates] = fields.EMBEDDING

    input: Inputs
    encoding_format: Annotated[
        Literal["float", "base64"] | None, Meta(description="base64: little-endian float32 numbers")
    ] = None
    dimensions: Dimensions | None = None


class NativeBody(VectorFields, frozen=True, kw_only=True):
    """`POST /embedding` and `/embeddings`, as in llama-server: `input` and `content` are the same."""

    fates: ClassVar[Fates] = fields.NATIVE_EMBEDDING

    input: Inputs | msgspec.UnsetType = msgspec.UNSET
    content: Inputs | msgspec.UnsetType = msgspec.UNSET
    encoding_format: Literal["float"] | None = None
    dimensions: Dimensions | None = None

    def given(self) -> tuple[Inputs, str]:
        """The items, and the field that has them. Raises `InvalidParameter`."""
        if not isinstance(self.input, msgspec.UnsetType):
            if not isinstance(self.content, msgspec.UnsetType):
                raise InvalidParameter("input and content are the same; send one of them", param="content")
            return self.input, "input"
        if isinstance(self.content, msgspec.UnsetType):
            raise InvalidParameter("input is missing (formerly content)", param="input")
        return self.content, "content"


class DocumentText(msgspec.Struct, frozen=True):
    """A document as Cohere's and Jina's clients send it; other fields are not read."""

    text: str | None = None
    image: str | None = None
    """Refused."""

    def plain(self, path: str) -> str:
        """Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.image is not None:
            raise UnsupportedParameter(f"{path}.image: images are not supported here", param=f"{path}.image")
        return needed(self.text, f"{path}.text")


class RerankBody(WorkFields, frozen=True, kw_only=True):
    """`POST /v1/rerank`: Jina's and Cohere's with `documents`, or TEI's with `texts`.

    The reply's format follows the request's. Scores are from 0 to 1 in both; `raw_scores: true` returns the model's
    own, which may be any number (as llama-server always does). Without `model`, the loaded one is used.
    """

    fates: ClassVar[Fates] = fields.RERANK
    nested: ClassVar[Nested] = ("documents",)

    query: Annotated[str, Meta(min_length=1)]
    model: str | None = None
    documents: list[str | DocumentText] | None = None
    return_documents: bool | None = None
    texts: list[str] | None = None
    return_text: bool | None = None
    top_n: Annotated[int, Meta(ge=1, description="Return only the best N")] | None = None
    raw_scores: bool | None = None

    @property
    def is_tei(self) -> bool:
        return self.texts is not None

    @property
    def field(self) -> str:
        """The field with the documents."""
        return "texts" if self.is_tei else "documents"

    def candidates(self) -> tuple[str, ...]:
        """The documents to rank. Raises `InvalidParameter`."""
        if self.texts is not None and self.documents is not None:
            raise exclusive("documents", "texts", param="texts")
        given = self.documents if self.texts is None else self.texts
        if given is None:
            raise InvalidParameter("documents is missing (or texts, as TEI calls them)", param="documents")
        if not given:
            raise InvalidParameter(f"{self.field} must not be an empty array", param=self.field)
        return tuple(
            item if isinstance(item, str) else item.plain(f"{self.field}[{index}]") for index, item in enumerate(given)
        )


parse_embeddings = known(EmbeddingsBody)


def parse_rerank(body: bytes, seen: Callable[[Fields], None] = lambda _: None) -> tuple[RerankBody, list[str]]:
    """The request and its ignored fields; `seen` gets all of them first.

    Raises `InvalidParameter`, `UnsupportedParameter`.
    """
    return parse_known(body, RerankBody, seen)[1:]
