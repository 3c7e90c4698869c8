"""Request bodies: JSON bytes to typed Structs and on to the runtime's own types. No JSON travels further inward.

Raises `RequestError`s that name the field at fault as a JSON path, e.g. `input[3]`. Knows nothing of models.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
from msgspec import Meta

from localllm.embeddings import EmbeddingRequest, RerankRequest
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.durations import keep_alive_seconds
from localllm.server.fields import Fates, parse_known
from localllm.server.openai import fields
from localllm.types import TokenId

MAX_INPUTS = 2048
"""OpenAI's limit for the texts of one request; here for the documents of one query too."""

Inputs = list[str | TokenId | list[TokenId]]

_EUCLIDEAN, _AS_IT_IS = 2, -1
"""llama-server's `embd_normalize`; it has other norms, which nobody asks for."""
_TO_ITS_LIMIT = -1
"""vLLM's `truncate_prompt_tokens`: what the model can read."""


class WorkFields(msgspec.Struct, frozen=True, kw_only=True):
    """Extensions that both APIs take, named as the other endpoints', TEI's (`truncate`) and vLLM's are."""

    truncate: Annotated[
        bool | None, Meta(description="Cut what is too long for the model and say so, instead of refusing it")
    ] = None
    truncate_prompt_tokens: Annotated[int | None, Meta(description="vLLM's: -1 is truncate: true")] = None
    priority: Annotated[int, Meta(ge=-1000, le=1000, description="Lower ones wait less")] | None = None
    timeout: Annotated[float, Meta(ge=0.001, le=1e6, description="Seconds")] | None = None
    keep_alive: float | str | None = None

    def is_cut(self) -> bool:
        """Whether what is too long may be cut. Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.truncate_prompt_tokens is None:
            return bool(self.truncate)
        if self.truncate_prompt_tokens != _TO_ITS_LIMIT:
            raise UnsupportedParameter(
                "truncate_prompt_tokens takes -1 only (what the model can read)", param="truncate_prompt_tokens"
            )
        if self.truncate is False:
            raise InvalidParameter(
                "truncate and truncate_prompt_tokens contradict each other; send one of them", param="truncate"
            )
        return True

    def keep_alive_s(self) -> float | None:
        """Raises `InvalidParameter`."""
        return keep_alive_seconds(self.keep_alive)


class EmbeddingsBody(WorkFields, frozen=True, kw_only=True):
    """`POST /v1/embeddings`. `input`: a text, several, the tokens of one, or of several; at most 2048 in all."""

    fates: ClassVar[Fates] = fields.EMBEDDING

    model: Annotated[str | None, Meta(description="May be left out while one model is loaded")] = None
    input: str | Inputs
    encoding_format: Annotated[
        Literal["float", "base64"] | None, Meta(description="base64: of little-endian float32 numbers")
    ] = None
    dimensions: (
        Annotated[int, Meta(ge=1, le=2**31 - 1, description="Keep the first ones, before normalizing")] | None
    ) = None
    normalize: Annotated[bool | None, Meta(description="To length 1 [default: true]")] = None
    embd_normalize: Annotated[int | None, Meta(description="llama-server's: 2 normalizes, -1 does not")] = None

    @property
    def is_single(self) -> bool:
        """Whether there is one item which is not in an array of items."""
        return isinstance(self.input, str) or isinstance(self.input[0], int)

    def asked(self, timeout_s: float | None, queue_timeout_s: float | None) -> EmbeddingRequest:
        """`timeout_s`: where it brings none. Raises `InvalidParameter`, `UnsupportedParameter`."""
        items = self._items()
        for index, item in enumerate(items):
            if not item:
                name = "input" if self.is_single else f"input[{index}]"
                raise InvalidParameter(f"{name} must not be empty", param=name)
        texts = isinstance(items[0], str)
        return EmbeddingRequest(
            texts=tuple(cast(list[str], items)) if texts else None,
            tokens=None if texts else tuple(tuple(tokens) for tokens in cast(list[list[int]], items)),
            dimensions=self.dimensions,
            normalize=self._is_normalized(),
            truncate=self.is_cut(),
            priority=self.priority or 0,
            timeout_s=timeout_s if self.timeout is None else self.timeout,
            queue_timeout_s=queue_timeout_s,
        )

    def _items(self) -> list[str] | list[list[int]]:
        if isinstance(self.input, str):
            return [self.input]
        if not self.input:
            raise InvalidParameter("input must not be an empty array", param="input")
        kinds = {type(item) for item in self.input}
        if len(kinds) > 1:
            raise InvalidParameter(
                "input must hold texts, or tokens, or arrays of tokens, not a mixture", param="input"
            )
        if kinds == {int}:
            return [cast(list[int], self.input)]
        _check_number("input", len(self.input))
        return cast("list[str] | list[list[int]]", self.input)

    def _is_normalized(self) -> bool:
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


class DocumentText(msgspec.Struct, frozen=True):
    """A document as Cohere's clients send it; its other fields are not read."""

    text: str


class RerankBody(WorkFields, frozen=True, kw_only=True):
    """`POST /v1/rerank`: Jina's and Cohere's with `documents`, or TEI's with `texts`; at most 2048 of them.

    The answer has the shape of the question. Scores are between 0 and 1 in both; `raw_scores: true` gives them as the
    model does, which may be any number (llama-server always does). Without `model` the one that is loaded is asked.
    """

    fates: ClassVar[Fates] = fields.RERANK
    query: Annotated[str, Meta(min_length=1)]
    model: str | None = None
    documents: list[str | DocumentText] | None = None
    return_documents: bool | None = None
    texts: list[str] | None = None
    return_text: bool | None = None
    top_n: Annotated[int, Meta(ge=1, description="Only the best ones")] | None = None
    raw_scores: bool | None = None

    @property
    def is_tei(self) -> bool:
        return self.texts is not None

    @property
    def field(self) -> str:
        """The one that holds the documents."""
        return "texts" if self.is_tei else "documents"

    def candidates(self) -> tuple[str, ...]:
        """What to rank. Raises `InvalidParameter`."""
        if self.texts is not None and self.documents is not None:
            raise InvalidParameter("documents and texts exclude each other; send one of them", param="texts")
        given = self.documents if self.texts is None else self.texts
        if given is None:
            raise InvalidParameter("documents is missing (or texts, as TEI calls them)", param="documents")
        if not given:
            raise InvalidParameter(f"{self.field} must not be an empty array", param=self.field)
        _check_number(self.field, len(given))
        return tuple(item if isinstance(item, str) else item.text for item in given)

    def asked(self, timeout_s: float | None, queue_timeout_s: float | None) -> RerankRequest:
        """`timeout_s`: where it brings none. Raises `InvalidParameter`, `UnsupportedParameter`."""
        return RerankRequest(
            query=self.query,
            documents=self.candidates(),
            truncate=self.is_cut(),
            priority=self.priority or 0,
            timeout_s=timeout_s if self.timeout is None else self.timeout,
            queue_timeout_s=queue_timeout_s,
        )


def parse_embeddings(body: bytes) -> tuple[EmbeddingsBody, list[str]]:
    """The request and its ignored fields. Raises `InvalidParameter`, `UnsupportedParameter`."""
    _, request, ignored = parse_known(body, EmbeddingsBody)
    return request, ignored


def parse_rerank(body: bytes) -> tuple[RerankBody, list[str]]:
    """The request and its ignored fields. Raises `InvalidParameter`, `UnsupportedParameter`."""
    given, request, ignored = parse_known(body, RerankBody)
    return request, ignored + _unknown_in_documents(given.get("documents"))


def _unknown_in_documents(documents: msgspec.Raw | None) -> list[str]:
    items: Any = (
        () if documents is None else msgspec.json.decode(documents, type=list[str | dict[str, msgspec.Raw]] | None)
    )
    names: set[str] = set().union(*(item for item in items or () if isinstance(item, dict)))
    return [f"documents[].{name}" for name in sorted(names - {"text"})]


def _check_number(name: str, number: int) -> None:
    if number > MAX_INPUTS:
        raise InvalidParameter(f"{name} takes at most {MAX_INPUTS} at a time, got {number}", param=name)
