"""Texts to tokens without a model: templates of rankers, cuts, turns. A token is a character's code here."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec
import pytest

from localllm.engine.embedding.texts import TextJob
from localllm.errors import InvalidParameter
from localllm.types import LoadedModel, ModelInfo, Pooling
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.worker.messages import Embed, Rejected, Tokenized, Up
from localllm.worker.prompts.media_texts import MediaTexts
from localllm.worker.prompts.prompt_parts import Memo
from localllm.worker.prompts.text_preparer import MAX_VECTORS_BYTES, TextPreparer
from tests.worker.conftest import INFO

TEMPLATE = "<judge>{query}|{document}</judge>"
TIMEOUT_S = 20
END = 0
UNKNOWN = 999_999
MANY_CHARACTERS = 4_000_000
STEP, LONGEST = 50, 1000
"""Letters at a time, and those that a token might stand for."""


class Letters:
    """Implements `prepare_texts.Tokenizer`: every text is closed by `END`."""

    closing_tokens = (END,)

    def __init__(self) -> None:
        self.num_tokenized = 0

    def tokenize_in_steps(
        self,
        text: str,
        *,
        add_special: bool = True,
        parse_special: bool = True,  # noqa: ARG002  the protocol has it
        memo: Memo | None = None,  # noqa: ARG002  as above
        closes: bool = False,  # noqa: ARG002  as above
    ) -> Iterator[list[int]]:
        if "\ufffe" in text:
            raise InvalidParameter("no such character", param="prompt")
        for start in range(0, len(text), STEP):
            self.num_tokenized += STEP
            yield [ord(letter) for letter in text[start : start + STEP]]
        yield [END] if add_special else []

    def fewest_tokens(self, text: str) -> int:
        return -(-len(text) // LONGEST)

    def check_tokens(self, tokens: Sequence[int], param: str = "prompt") -> list[int]:
        if UNKNOWN in tokens:
            raise InvalidParameter("that token is not in the vocabulary", param=param)
        return list(tokens)

    def pair(self, query: Sequence[int], document: Sequence[int]) -> list[int]:
        return [*query, END, *document, END]


class Sink:
    """The loop, the embedder and the pipe of a worker."""

    def __init__(self) -> None:
        self.jobs: list[TextJob] = []
        self.sent: queue.SimpleQueue[Up] = queue.SimpleQueue()
        self.clock: Callable[[], float] = lambda: 0.0

    def call_soon(self, work: Callable[[], None]) -> None:
        work()

    def add(self, job: TextJob) -> None:
        self.jobs.append(job)

    def cancel(self, id: int) -> None:
        self.jobs = [job for job in self.jobs if job.id != id]

    def next(self) -> Up:
        return self.sent.get(timeout=TIMEOUT_S)


def preparer(
    sink: Sink, *, pooling: Pooling = "mean", info: ModelInfo = INFO, dimensions: int = 4, vocab: Letters | None = None
) -> TextPreparer:
    model = LoadedModel(
        id="m", path="m", info=info, ctx=32, slots=0, threads=1, layers_per_device={}, backend="", load_s=0.0,
        created_unix_s=0, pooling=pooling, embedding_ctx=32, dimensions=dimensions,
    )  # fmt: skip
    letters = vocab or Letters()
    media = MediaTexts(model, cast(Any, letters), None, sink.sent.put)
    return TextPreparer(model, letters, sink, sink, sink.sent.put, media)


def text_of(tokens: Sequence[int]) -> str:
    return "".join(chr(token) if token else "." for token in tokens)


def test_a_ranker_s_own_template_is_filled_once_even_if_the_query_names_a_placeholder() -> None:
    sink = Sink()
    ranker = preparer(sink, pooling="rank", info=msgspec.structs.replace(INFO, chat_templates={"rerank": TEMPLATE}))
    ranker.submit(Embed(1, None, RerankRequest(query="{document}", documents=("a",))))
    assert isinstance(sink.next(), Tokenized)
    assert text_of(sink.jobs[0].texts[0]) == "<judge>{document}|a</judge>"


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_a_document_is_cut_so_that_what_stands_around_it_stays(template: str | None) -> None:
    sink = Sink()
    templates = {} if template is None else {"rerank": template}
    ranker = preparer(sink, pooling="rank", info=msgspec.structs.replace(INFO, chat_templates=templates))
    request = RerankRequest(query="q", documents=("short", "d" * 100), truncate=True)
    ranker.submit(Embed(1, None, request))
    answer = sink.next()
    assert isinstance(answer, Tokenized)
    assert answer.truncated == (1,)
    short, cut = map(text_of, sink.jobs[0].texts)
    assert short == ("q.short." if template is None else "<judge>q|short</judge>")
    assert len(cut) in (31, 32)
    assert (cut[:2], cut[-1:]) == (("q.", ".") if template is None else ("<j", ">"))


def test_a_text_that_is_cut_keeps_its_closing_token() -> None:
    sink = Sink()
    preparer(sink).submit(Embed(1, EmbeddingRequest(texts=("a" * 50,), truncate=True), None))
    answer = sink.next()
    assert isinstance(answer, Tokenized)
    assert (answer.num_tokens, answer.truncated) == ((32,), (0,))
    assert text_of(sink.jobs[0].texts[0]) == "a" * 31 + "."


def test_a_single_text_passes_a_long_list_and_a_cancelled_list_is_dropped() -> None:
    sink = Sink()
    texts = preparer(sink)
    text = "a" * 31
    texts.submit(Embed(1, EmbeddingRequest(texts=(text,) * (MANY_CHARACTERS // len(text))), None))
    texts.submit(Embed(2, EmbeddingRequest(texts=("b",)), None))
    texts.submit(Embed(3, EmbeddingRequest(texts=(text,) * (MANY_CHARACTERS // len(text))), None))
    texts.cancel(3)
    first, second = sink.next(), sink.next()
    assert isinstance(first, Tokenized)
    assert isinstance(second, Tokenized)
    assert (first.id, second.id) == (2, 1)
    texts.submit(Embed(4, EmbeddingRequest(texts=("b",)), None))
    last = sink.next()
    assert isinstance(last, Tokenized)
    assert last.id == 4
    assert [job.id for job in sink.jobs] == [2, 1, 4]


def test_nothing_is_sent_for_a_request_that_fails_once_it_is_cancelled() -> None:
    class Hangup(Letters):
        def fewest_tokens(self, text: str) -> int:
            texts.cancel(1)
            return MANY_CHARACTERS if text == "a" else 1

    sink = Sink()
    texts = preparer(sink, vocab=Hangup())
    texts.submit(Embed(1, EmbeddingRequest(texts=("a",)), None))
    texts.submit(Embed(2, EmbeddingRequest(texts=("b",)), None))
    assert isinstance(answer := sink.next(), Tokenized)
    assert answer.id == 2


def test_vectors_that_would_fill_the_memory_are_refused_before_they_are_computed() -> None:
    sink = Sink()
    texts = preparer(sink, pooling="none", dimensions=MAX_VECTORS_BYTES // 64)
    texts.submit(Embed(1, EmbeddingRequest(texts=("a" * 20,)), None))
    answer = sink.next()
    assert isinstance(answer, Rejected)
    assert "352 MB, of 268 allowed" in answer.error.message


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (EmbeddingRequest(tokens=((1,), (UNKNOWN,))), "input"),
        (EmbeddingRequest(texts=("a", "\ufffe")), "input"),
        (RerankRequest(query="q", documents=("a", "\ufffe")), "documents"),
    ],
)
def test_what_cannot_be_tokenized_is_refused_with_its_number(
    asked: EmbeddingRequest | RerankRequest, param: str
) -> None:
    sink = Sink()
    if isinstance(asked, RerankRequest):
        preparer(sink, pooling="rank").submit(Embed(1, None, asked))
    else:
        preparer(sink).submit(Embed(1, asked, None))
    answer = sink.next()
    assert isinstance(answer, Rejected)
    assert (answer.error.param, answer.error.details["item"]) == (param, 1)
    assert answer.error.message.startswith(f"{param} 1: ")


def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenized() -> None:
    sink, letters = Sink(), Letters()
    preparer(sink, vocab=letters).submit(Embed(1, EmbeddingRequest(texts=("a", "b" * (40 * LONGEST))), None))
    answer = sink.next()
    assert isinstance(answer, Rejected)
    assert "maximum context length is 32 tokens" in answer.error.message
    assert "input 1 resulted in at least 40 tokens" in answer.error.message
    assert answer.error.details["prompt_tokens"] == 40
    assert letters.num_tokenized <= STEP


@pytest.mark.parametrize("truncate", [True, False])
def test_no_more_of_a_text_is_tokenized_than_its_answer_needs(truncate: bool) -> None:
    sink, letters = Sink(), Letters()
    text = "a" * (30 * LONGEST)
    preparer(sink, vocab=letters).submit(Embed(1, EmbeddingRequest(texts=(text,), truncate=truncate), None))
    answer = sink.next()
    if truncate:
        assert isinstance(answer, Tokenized)
        assert text_of(sink.jobs[0].texts[0]) == "a" * 31 + "."
    else:
        assert isinstance(answer, Rejected)
        assert "at least" in answer.error.message
    assert letters.num_tokenized <= 4 * STEP


def test_a_very_long_document_is_cut_to_fit_into_a_ranker_s_template() -> None:
    sink, letters = Sink(), Letters()
    info = msgspec.structs.replace(INFO, chat_templates={"rerank": TEMPLATE})
    ranker = preparer(sink, pooling="rank", info=info, vocab=letters)
    ranker.submit(Embed(1, None, RerankRequest(query="q", documents=("d" * 10**6,), truncate=True)))
    assert isinstance(sink.next(), Tokenized)
    assert 20 < len(sink.jobs[0].texts[0]) <= 32
    assert letters.num_tokenized < 10**5
